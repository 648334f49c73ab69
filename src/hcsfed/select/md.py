"""Multinomial selection: m draws with replacement, each client with probability ω_k.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020; called MD sampling by Fraboni et al., ICML
2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.select.contract import Claims
from hcsfed.types import Selection, View


@dataclass(frozen=True)
class Multinomial:
    """m independent draws by ω; a client drawn j times counts j/m. Fewer than m clients may answer."""

    name: ClassVar[str] = "md"
    claims: ClassVar[Claims] = Claims(unbiased=True, fixed_size=False)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        times = rng.multinomial(size, view.weights)
        ids = np.flatnonzero(times)
        missed = np.log1p(-np.minimum(view.weights, 1 - 1e-16)) * size
        return Selection(ids, times[ids] / size, -np.expm1(missed), {"draws": times[ids]})
