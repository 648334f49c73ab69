"""What do the fast forms of the balanced designs lose against the exact ones, which compare all pairs of clients?"""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot

import numpy as np
from numpy.typing import NDArray

from hcsfed.cli.bench.selection.finding import Finding
from hcsfed.rng import stream
from hcsfed.select import Cube, LocalPivotal, Selector
from hcsfed.theory import measured
from hcsfed.types import View

VARIANCE = "Variance of the fast forms against the exact ones"
_WIDTH, _SKETCH = 300, 64


def population(clients: int, kind: str) -> tuple[View, NDArray[np.float32]]:
    """Updates, and a sketch of them as features: 50 kinds of client, or one cloud that is longer one way than others.

    In ``cloud`` the standard deviations along the axes fall as 1/√j, as the spectra of real updates do.
    """
    rng = stream(0, kind)
    updates = rng.standard_normal((clients, _WIDTH), dtype=np.float32)
    if kind == "kinds":
        updates += 2 * rng.standard_normal((50, _WIDTH), dtype=np.float32)[rng.integers(50, size=clients)]
    else:
        updates /= np.sqrt(np.arange(1, _WIDTH + 1, dtype=np.float32))
    updates += updates.std() / 2  # not about zero, so that errors are relative to something
    projection = rng.standard_normal((_WIDTH, _SKETCH), dtype=np.float32) / np.float32(np.sqrt(_SKETCH))
    sizes = rng.integers(10, 100, clients)
    view = View(sizes, sizes / sizes.sum(), np.ones(clients, bool), features=updates @ projection)
    return view, updates


def pairs_of(clients: int, fast_from: int) -> dict[str, tuple[Selector, Selector]]:
    """(exact, fast): the same design with its hand-over above and below N."""
    return {
        "pivotal": (LocalPivotal(exact=clients), LocalPivotal(exact=fast_from)),
        "cube, local": (Cube(local=True, exact=clients), Cube(local=True, exact=fast_from)),
    }


def findings(quick: bool) -> Iterator[Finding]:
    clients, size, draws = (200, 20, 60) if quick else (1_000, 50, 1_500)
    for kind in ("kinds", "cloud"):
        view, updates = population(clients, kind)
        for name, (exact, fast) in pairs_of(clients, clients // 10).items():
            a, b = (measured(s, view, updates, size, draws, stream(0, name)) for s in (exact, fast))
            quotient = b.variance / a.variance
            error = quotient * hypot(a.spread / a.total, b.spread / b.total)
            what = f"N = {clients:,}, m = {size}, fast above {clients // 10} clients, {draws:,} draws each: ratio"
            note = f"± {error:.3f} (standard error)"
            yield Finding(VARIANCE, what, f"{name}, {kind}", quotient, None if quick else 1.1, note=note)
