"""Selection by an event trigger: only clients that moved far enough in their local rounds speak.

Singh, Data, George, Diggavi, "SPARQ-SGD: Event-Triggered and Compressed Communication in Decentralized Optimization",
IEEE Transactions on Automatic Control 68(2), 2023 (arXiv:1910.14280).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.best import best
from hcsfed.select.contract import Claims
from hcsfed.select.draws import capped, check_share
from hcsfed.types import Floats, Selection, View


@dataclass(frozen=True)
class LocalRounds:
    """Whoever has ‖u_k‖ > c·r speaks, with weight ω_k; r is the ω-weighted root mean square of all norms.

    Needs norms, and everyone trains. What the silent have learned is lost, so the step is too short: biased.

    The source has no server and no cohort size; it compares ‖u_k‖² with c_t·η_t², a schedule tuned per problem. Ours: a
    threshold relative to the round's own norms, which needs no schedule; at most m speak, the largest first; if nobody
    passes, the one furthest away does, so that no round is empty.

    Parameters
    ----------
    threshold
        c ≥ 0.
    max_share
        No client counts for more than this share of the mean square (ours): else one false claim silences all others.
    """

    threshold: float = 1.0
    max_share: float = 0.1

    name: ClassVar[str] = "local-rounds"
    claims: ClassVar[Claims] = Claims(unbiased=False, fixed_size=False, needs=frozenset({"norms"}), trains="all")

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.norms is None:
            raise bad("view", self.name, "given with norms", None)
        if not self.threshold >= 0:
            raise bad("threshold", self.name, "a number >= 0", self.threshold)
        check_share(self.name, self.max_share)
        unit = float(np.median(view.norms)) or float(view.norms.max()) or 1.0
        with np.errstate(over="ignore"):
            norms = np.minimum(view.norms / unit, 1e150)  # squares of huge claims must not overflow
        root_mean_square = np.sqrt(cut(view.weights * norms**2, self.max_share).sum())
        passing = int((norms > self.threshold * root_mean_square).sum())
        ids = best(norms, min(size, max(passing, 1)), rng)
        return Selection(ids, view.weights[ids].copy(), None, {"passing": passing})


def cut(sizes: Floats, max_share: float) -> Floats:
    """Sizes cut where they reach this share of the sum of what is left; as they are where too few are positive."""
    shares = capped(sizes, max_share)
    below = np.flatnonzero((sizes > 0) & (shares < 1))
    if max_share == 1 or not len(below):
        return sizes
    largest = below[np.argmax(sizes[below])]
    return np.asarray(np.minimum(sizes, sizes[largest] / shares[largest]))
