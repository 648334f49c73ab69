"""Power of choice: of some candidates, those with the highest loss.

Cho, Wang, Joshi, "Client Selection in Federated Learning: Convergence Analysis and Power-of-Choice Selection
Strategies", arXiv:2010.01243, 2020 (π_pow-d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.best import best, one_by_one
from hcsfed.select.contract import Claims
from hcsfed.types import Selection, View


@dataclass(frozen=True)
class PowerOfChoice:
    """d candidates drawn by ω_k without replacement; the m of highest F_k(w) among them answer, weighing 1/m each.

    Needs the losses of the current global model (the source asks the candidates alone; in a simulation whoever supplies
    ``losses`` decides what they cost). The picked alone train. Biased on purpose, towards clients that fare badly.

    Parameters
    ----------
    candidates
        d ≥ m; 0, which is ours, stands for 3·m. d = m is sampling by ω; d = N is greedy. More than N means N.
    """

    candidates: int = 0

    name: ClassVar[str] = "power-of-choice"
    claims: ClassVar[Claims] = Claims(unbiased=False, fixed_size=True, needs=frozenset({"losses"}))

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.losses is None:
            raise bad("view", self.name, "given with losses", None)
        if self.candidates and self.candidates < size and self.candidates < view.clients:
            raise bad("candidates", self.name, f"0 or at least the cohort size {size}", self.candidates)
        asked = one_by_one(view.weights, min(self.candidates or 3 * size, view.clients), rng)
        ids = asked[best(view.losses[asked], size, rng)]
        return Selection(ids, np.full(size, 1 / size), None, {"candidates": view.ids[asked]})
