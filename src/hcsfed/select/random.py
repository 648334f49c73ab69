"""Simple random selection, unbiased and as it is often run.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017, pick m
clients uniformly without replacement. What is then done with their answers makes two different schemes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.select.contract import Claims
from hcsfed.types import Ints, Selection, View


def _uniform(n: int, size: int, rng: np.random.Generator) -> Ints:
    return np.sort(rng.choice(n, size, replace=False, shuffle=False)).astype(np.int64)


@dataclass(frozen=True)
class Random:
    """m of N uniformly without replacement, weighted (N/m)·ω_k (eq. 3 of the HCSFed paper), hence unbiased."""

    name: ClassVar[str] = "random"
    claims: ClassVar[Claims] = Claims(unbiased=True, fixed_size=True)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        ids = _uniform(view.clients, size, rng)
        share = size / view.clients
        return Selection(ids, view.weights[ids] / share, np.full(view.clients, share))


@dataclass(frozen=True)
class RandomShrunk:
    """The same draw with the weights ω_k left as they are: every step is scaled by Σ_{k∈S} ω_k, about m/N.

    This is the Random of the HCSFed paper's tables: in the code that its set-up descends from, the share of the model
    which no picked client accounts for stays at the current global model. The slow-down is a smaller step, not worse
    sampling; hence a baseline of its own, apart from :class:`Random`.
    """

    name: ClassVar[str] = "random-shrunk"
    claims: ClassVar[Claims] = Claims(unbiased=False, fixed_size=True)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        ids = _uniform(view.clients, size, rng)
        return Selection(ids, view.weights[ids].copy(), np.full(view.clients, size / view.clients))
