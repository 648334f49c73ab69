"""FedAvg and FedProx: clients descend, and their updates are averaged as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hcsfed.aggregate.contract import Setup
from hcsfed.errors import bad
from hcsfed.settings import LocalTraining
from hcsfed.types import Ints, State
from hcsfed.updates import Updates


@dataclass(frozen=True)
class FedAvg:
    """Clients take SGD steps, and the server moves by the mean update (McMahan et al., AISTATS 2017)."""

    name: ClassVar[str] = "fedavg"
    vectors: ClassVar[int] = 1

    def local(self, work: LocalTraining) -> LocalTraining:
        return work

    def start(self, setup: Setup) -> State:
        return {}

    def train(self, setup: Setup, state: State, parameters: torch.Tensor, ids: Ints, round: int) -> Iterator[Updates]:
        return setup.train(parameters, ids, round)

    def learn(self, setup: Setup, state: State, parameters: torch.Tensor, updates: Updates, round: int) -> None:
        pass

    def close(self, state: State) -> None:
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
