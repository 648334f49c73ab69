"""FedNova: clients that take more steps do not pull the model towards their own optimum.

J. Wang, Q. Liu, H. Liang, G. Joshi & H. V. Poor, "Tackling the objective inconsistency problem in heterogeneous
federated optimization", NeurIPS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hcsfed.aggregate.algorithms import FedAvg
from hcsfed.aggregate.contract import Setup
from hcsfed.errors import bad
from hcsfed.settings import LocalTraining
from hcsfed.types import Floats, Ints


@dataclass(frozen=True)
class FedNova(FedAvg):
    """Each update is divided by the gradients it is made of, ‖a_k‖₁, and all are multiplied by τ_eff = Σ_k ω_k·‖a_k‖₁.

    u_k = −η·Σ_s a_{k,s}·g_{k,s}: without momentum and proximal term a_k is a row of ones, one a step; with
    ``local.momentum`` or ``mu`` it follows from their recursion. τ_eff is that of all clients, not of the cohort, so
    that any unbiased selection gives an unbiased estimate of FedNova's step with everyone. Without unequal steps it is
    FedAvg; steps differ between clients where ``local.epochs`` are counted.

    Parameters
    ----------
    mu
        Weight of the proximal term (μ/2)·‖w − w_global‖².
    """

    mu: float = 0.0

    name: ClassVar[str] = "fednova"

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise bad("mu", self.name, "a number ≥ 0", self.mu)

    def local(self, work: LocalTraining) -> LocalTraining:
        return replace(work, mu=self.mu) if self.mu else work

    def factors(self, setup: Setup, steps: Ints, round: int) -> Floats:
        made_of = gradients_in(setup.work, setup.rate(round), int(setup.steps.max()))
        effective = float(setup.weights @ made_of[setup.steps])
        return np.asarray(effective / np.maximum(made_of[steps], np.finfo(float).tiny))


def gradients_in(work: LocalTraining, rate: float, most: int) -> Floats:
    """‖a‖₁ after 0, 1, …, ``most`` local steps: how far −u/η goes if every gradient is 1.

    With momentum ρ and proximal weight μ: v ← ρ·v + 1 − μ·x, x ← x + η·v, and ‖a‖₁ = x/η.
    """
    reached = np.zeros(most + 1)
    velocity = 0.0
    for s in range(most):
        velocity = work.momentum * velocity + 1 - work.mu * rate * reached[s]
        reached[s + 1] = reached[s] + velocity
    return reached
