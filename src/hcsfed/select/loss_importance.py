"""Loss importance: clients with a high loss are picked more often, and count less when they are.

The criterion is that of Goetz et al., "Active Federated Learning", arXiv:1909.12641, 2019, and of Cho, Wang, Joshi,
arXiv:2010.01243, 2020. Both let it bias the average; the correction is that of importance sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.contract import Claims
from hcsfed.select.draws import without_replacement
from hcsfed.select.importance import chances, horvitz_thompson
from hcsfed.types import Selection, View


@dataclass(frozen=True)
class LossImportance:
    """π_k ∝ ω_k·F_k(w) as far as 1 allows, exactly m distinct clients, weights ω_k/π_k.

    Needs the losses of the current global model; the picked alone train. Losses below 0 count as 0.

    Parameters
    ----------
    floor
        Share of the cohort that is spread evenly over all (ours): a small loss doesn't make an update small, so without
        it weights have no bound, and a client without loss would be missing from the average.
    max_share
        No client's ω_k·F_k counts for more than this share of the sum: π_k ≤ m·max_share, see
        :class:`~hcsfed.select.importance.Importance`.
    """

    floor: float = 0.1
    max_share: float = 1.0

    name: ClassVar[str] = "loss-importance"
    claims: ClassVar[Claims] = Claims(unbiased=True, fixed_size=True, needs=frozenset({"losses"}))

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.losses is None:
            raise bad("view", self.name, "given with losses", None)
        if not 0 < self.floor <= 1:
            raise bad("floor", self.name, "a number in (0, 1]", self.floor)
        pi = chances(self.name, view.weights, np.maximum(view.losses, 0), size, self.floor, self.max_share)
        return horvitz_thompson(without_replacement(pi, rng), view.weights, pi)
