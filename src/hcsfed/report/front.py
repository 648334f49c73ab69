"""The Pareto front: who is beaten by nobody in everything. Lower is better throughout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from hcsfed.types import Bools


def undominated(costs: ArrayLike) -> Bools:
    """Of rows of costs, those to which no other row is at least equal in all and better in one.

    Equal rows don't beat one another. A row with NaN, as of a missed target, is never on the front.
    """
    rows = np.asarray(costs, np.float64)
    known = np.isfinite(rows).all(axis=1)
    some = rows[known]
    as_good = (some[:, None] <= some[None]).all(axis=2)
    better = (some[:, None] < some[None]).any(axis=2)
    found = np.zeros(len(rows), bool)
    found[known] = ~(as_good & better).any(axis=0)
    return found


def stairs(x: Sequence[float], y: Sequence[float], right: float, top: float) -> list[tuple[float, float]]:
    """The edge of what some point is as good as: down at each point of the front, then along to the next."""
    on = undominated(np.column_stack([x, y]))
    points = sorted((float(a), float(b)) for a, b, kept in zip(x, y, on, strict=True) if kept)
    path, height = [], top
    for a, b in points:
        path += [(a, height), (a, b)]
        height = b
    return [*path, (right, height)] if path else []
