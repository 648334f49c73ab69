"""FedAvg and FedProx: clients descend, and their updates are averaged as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import like
from hcsfed.errors import bad
from hcsfed.settings import LocalTraining
from hcsfed.types import Floats, Ints, State, View
from hcsfed.updates import Updates, Vectors

_BLOCK = 1 << 26  # floats of corrections made at a time


@dataclass(frozen=True)
class FedAvg:
    """Clients take SGD steps, and the server moves by the mean update (McMahan et al., AISTATS 2017)."""

    name: ClassVar[str] = "fedavg"
    vectors: ClassVar[int] = 1
    compares: ClassVar[bool] = False

    def local(self, work: LocalTraining) -> LocalTraining:
        return work

    def start(self, setup: Setup) -> State:
        return {}

    def correction(self, setup: Setup, state: State, ids: Ints) -> NDArray[Any] | None:
        return None

    def factors(self, setup: Setup, steps: Ints, round: int) -> Floats | None:
        return None

    def train(self, setup: Setup, state: State, parameters: Vectors, ids: Ints, round: int) -> Iterator[Updates]:
        corrected = self.correction(setup, state, ids[:0]) is not None
        size = max(1, _BLOCK // setup.dimension) if corrected else max(1, len(ids))
        for first in range(0, len(ids), size):
            part = ids[first : first + size]
            correction = self.correction(setup, state, part)
            push = None if correction is None else like(correction, parameters)
            for chunk in setup.train(parameters, part, round, correction=push):
                factors = self.factors(setup, chunk.steps, round)
                if factors is not None:
                    scale = like(factors.astype(np.float32), chunk.vectors)
                    chunk = replace(chunk, vectors=chunk.vectors * scale[:, None])
                yield chunk

    def open(self, setup: Setup, state: State, parameters: Vectors, view: View) -> None:
        pass

    def learn(self, setup: Setup, state: State, parameters: Vectors, updates: Updates, round: int) -> None:
        pass

    def close(self, setup: Setup, state: State) -> None:
        pass

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        pass

    def extra_steps(self, setup: Setup, ids: Ints) -> int:
        return 0


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg whose clients are held near the global model by (μ/2)·‖w − w_global‖² (Li et al., MLSys 2020)."""

    mu: float = 0.01

    name: ClassVar[str] = "fedprox"

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise bad("mu", self.name, "a number ≥ 0", self.mu)

    def local(self, work: LocalTraining) -> LocalTraining:
        return replace(work, mu=self.mu)
