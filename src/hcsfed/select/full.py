"""Everybody answers: what all the others stand in for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.select.contract import Claims
from hcsfed.types import Selection, View


@dataclass(frozen=True)
class Full:
    """All N clients with their own weight ω_k, whatever cohort size is asked for."""

    name: ClassVar[str] = "full"
    claims: ClassVar[Claims] = Claims(unbiased=True, fixed_size=False)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        return Selection(np.arange(view.clients), view.weights.copy(), np.ones(view.clients))
