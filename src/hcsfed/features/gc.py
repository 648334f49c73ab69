"""Gradient compression as published: the centres of the groups that a client's own numbers fall into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.features.contract import Context, encode_rows, float_bytes
from hcsfed.features.grouping import STARTS, Start, group, histogram, runs
from hcsfed.features.optimal import optimal
from hcsfed.rng import stream
from hcsfed.types import Features, Floats

_HISTOGRAM_FROM, _HISTOGRAM_GROUPS = 500_000, 4_000


@dataclass(frozen=True)
class GradientCompression:
    """GC, Alg. 3 of the HCSFed paper: 1-D k-means of the d numbers of an update G; its d′ centres, ascending, are X.

    The centres say how a client's numbers are distributed, not where they sit in the model: clients with opposite
    updates can look alike. :class:`~hcsfed.features.gc_shared.SharedCompression` keeps the place at the same size. The
    text leaves the order of the centres to chance, which would make two clients' vectors incomparable; here they are
    sorted.

    Parameters
    ----------
    ratio
        R = d′/d.
    centres
        d′ itself; 0 means: by ``ratio``.
    start
        ``density`` (a start close to the optimum), ``quantile``, or ``random``: d′ of the numbers, as printed.
    exact
        The optimal grouping in place of Lloyd's iterations; for d up to some 10⁵.
    form
        ``sort`` works on the sorted numbers, ``histogram`` on bins that are a given share of their value; ``auto``
        takes the second from half a million numbers on, for up to 4,000 centres: there it is several times faster and
        its inertia within 3 % of the first's.
    """

    ratio: float = 0.1
    centres: int = 0
    start: Start = "density"
    exact: bool = False
    form: Literal["auto", "sort", "histogram"] = "auto"

    name: ClassVar[str] = "gc"
    privacy: ClassVar[str] = (
        "Shows how large the numbers of a client's update are, not which parameter each belongs to."
    )

    def __post_init__(self) -> None:
        check_size(self.name, self.ratio, self.centres)
        if self.start not in STARTS:
            raise bad("start", self.name, "one of " + ", ".join(STARTS), self.start)
        if self.form not in ("auto", "sort", "histogram"):
            raise bad("form", self.name, "one of auto, sort, histogram", self.form)

    def encode(self, updates: Any, context: Context) -> Features:
        width = size_of(self.ratio, self.centres, updates.shape[1])
        clients = iter(range(updates.shape[0]) if context.ids is None else context.ids.tolist())
        return encode_rows(updates, width, lambda row: self.compress(row, width, context, next(clients)), checked=True)

    def compress(self, row: NDArray[np.float32], width: int, context: Context, client: int) -> Floats:
        """The ``width`` centres of one client's update; NaN where a number is not finite."""
        points: NDArray[Any]
        masses: NDArray[Any] | None
        few = self.form == "auto" and len(row) >= _HISTOGRAM_FROM and width <= _HISTOGRAM_GROUPS
        if not self.exact and (self.form == "histogram" or few):
            points, masses = histogram(row, width)
        else:
            points, masses = np.sort(row), None
        if not np.isfinite(points[[0, -1]]).all():  # sorted, what is not finite stands at an end
            return np.full(width, np.nan)
        if self.exact:
            return optimal(points, width)
        if masses is None:
            points, masses = runs(points, width)
        # Alg. 3 runs at each client by itself, so a random start is the client's own.
        return group(points, masses, width, self.start, stream(context.seed, "gc", context.round, client))

    def nbytes(self, k: int) -> int:
        return float_bytes(k)


def as_published(ratio: float = 0.1, centres: int = 0) -> GradientCompression:
    """GC with the start that Alg. 3 prints: d′ of the client's own numbers, at random.

    Parameters
    ----------
    ratio, centres
        As in :class:`GradientCompression`.
    """
    return GradientCompression(ratio, centres, start="random")


def check_size(owner: str, ratio: float, centres: int) -> None:
    """Refuse an R or a d′ that means nothing."""
    if not 0 < ratio <= 1:
        raise bad("ratio", owner, "a number in (0, 1]", ratio)
    if centres < 0:
        raise bad("centres", owner, "an int >= 0", centres)


def size_of(ratio: float, centres: int, dimension: int) -> int:
    """d′ of an update of ``dimension`` numbers."""
    return min(centres or max(1, round(ratio * dimension)), dimension)
