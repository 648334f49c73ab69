"""What clients minimise and what the server does with the estimate, whoever was selected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch

from hcsfed.errors import bad
from hcsfed.registry import Registry
from hcsfed.settings import LocalTraining


class Algorithm(Protocol):
    """A federated algorithm: orthogonal to the selector."""

    name: ClassVar[str]

    def local(self, work: LocalTraining) -> LocalTraining:
        """How clients train under this algorithm."""
        ...

    def step(self, parameters: torch.Tensor, estimate: torch.Tensor) -> torch.Tensor:
        """The global parameters of the next round."""
        ...


@dataclass(frozen=True)
class FedAvg:
    """The server adds the estimated mean update (McMahan et al., AISTATS 2017), times ``server_lr``."""

    server_lr: float = 1.0

    name: ClassVar[str] = "fedavg"

    def __post_init__(self) -> None:
        if not self.server_lr > 0:
            raise bad("server_lr", self.name, "a number > 0", self.server_lr)

    def local(self, work: LocalTraining) -> LocalTraining:
        return work

    def step(self, parameters: torch.Tensor, estimate: torch.Tensor) -> torch.Tensor:
        return parameters + self.server_lr * estimate


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg whose clients are held near the global model by (μ/2)·‖w − w_global‖² (Li et al., MLSys 2020)."""

    mu: float = 0.01

    name: ClassVar[str] = "fedprox"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mu >= 0:
            raise bad("mu", self.name, "a number ≥ 0", self.mu)

    def local(self, work: LocalTraining) -> LocalTraining:
        return replace(work, mu=self.mu)


ALGORITHMS: Registry[Algorithm] = Registry("algorithm")
ALGORITHMS.add("fedavg", FedAvg)
ALGORITHMS.add("fedprox", FedProx)
