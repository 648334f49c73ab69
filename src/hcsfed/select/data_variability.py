"""Importance by data variability: clients whose own gradients scatter are picked more often, and count less.

Rizk, Vlaski, Sayed, "Federated Learning under Importance Sampling", IEEE Transactions on Signal Processing 70, 2022
(arXiv:2012.07383), and "Optimal Importance Sampling for Federated Learning", ICASSP 2021.
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
class DataVariability:
    """π_k ∝ ω_k·σ_k as far as 1 allows, exactly m distinct clients, weights ω_k/π_k.

    Needs variances: σ_k² is the mean squared distance of a client's minibatch gradient from its mean gradient, at the
    current global model. The picked alone train, but everyone takes a few gradients to tell σ_k.

    The source's optimum joins two terms, this one and the distance of the client's gradient from 0 at the optimum, and
    measures the second by norms. That part alone is ``importance``; this one is the criterion which the HCSFed paper
    quotes from it. The source samples inside the client by importance, too; that is a client's affair, not done here.

    Parameters
    ----------
    floor
        Share of the cohort that is spread evenly over all (ours): a client without scatter still has an update.
    max_share
        No client's ω_k·σ_k counts for more than this share of the sum: π_k ≤ m·max_share, see
        :class:`~hcsfed.select.importance.Importance`.
    """

    floor: float = 0.1
    max_share: float = 1.0

    name: ClassVar[str] = "data-variability"
    claims: ClassVar[Claims] = Claims(unbiased=True, fixed_size=True, needs=frozenset({"variances"}))

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.variances is None:
            raise bad("view", self.name, "given with variances", None)
        if not 0 < self.floor <= 1:
            raise bad("floor", self.name, "a number in (0, 1]", self.floor)
        pi = chances(self.name, view.weights, np.sqrt(view.variances), size, self.floor, self.max_share)
        return horvitz_thompson(without_replacement(pi, rng), view.weights, pi)
