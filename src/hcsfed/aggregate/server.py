"""The server's step: what the estimate of the mean update does to the model.

S. J. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konečný, S. Kumar & H. B. McMahan, "Adaptive federated
optimization", ICLR 2021, Alg. 2: the estimate Δ takes the place of a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from hcsfed.aggregate.estimate import as_array, like
from hcsfed.errors import bad
from hcsfed.types import State
from hcsfed.updates import Vectors


class Server(Protocol):
    """A frozen dataclass of settings. Its memory is a dict of arrays that travels with the checkpoint."""

    name: ClassVar[str]

    def start(self, dimension: int) -> State: ...

    def step(self, parameters: Vectors, estimate: Vectors, state: State) -> tuple[Vectors, State]:
        """The global parameters of the next round, and the memory after this one."""
        ...


@dataclass(frozen=True)
class Sgd:
    """w ← w + lr·Δ; with lr = 1, federated averaging as published."""

    lr: float = 1.0

    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        _positive("lr", self.lr, self.name)

    def start(self, dimension: int) -> State:
        return {}

    def step(self, parameters: Vectors, estimate: Vectors, state: State) -> tuple[Vectors, State]:
        return parameters + self.lr * estimate, state


@dataclass(frozen=True)
class Momentum:
    """v ← beta·v + Δ, w ← w + lr·v (Hsu, Qi & Brown 2019, FedAvgM)."""

    lr: float = 1.0
    beta: float = 0.9

    name: ClassVar[str] = "momentum"

    def __post_init__(self) -> None:
        _positive("lr", self.lr, self.name)
        _share("beta", self.beta, self.name)

    def start(self, dimension: int) -> State:
        return {"velocity": np.zeros(dimension, np.float32)}

    def step(self, parameters: Vectors, estimate: Vectors, state: State) -> tuple[Vectors, State]:
        velocity = self.beta * like(state["velocity"], estimate) + estimate
        return parameters + self.lr * velocity, {"velocity": as_array(velocity)}


@dataclass(frozen=True)
class Adam:
    """m ← beta1·m + (1 − beta1)·Δ, v ← beta2·v + (1 − beta2)·Δ², w ← w + lr·m/(√v + tau), without bias correction.

    Parameters
    ----------
    lr
        Every parameter moves by up to about this much in a round.
    tau
        How much adapting is held back; v starts at tau².
    """

    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 0.001

    name: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        _positive("lr", self.lr, self.name)
        _positive("tau", self.tau, self.name)
        _share("beta1", self.beta1, self.name)
        _share("beta2", self.beta2, self.name)

    def start(self, dimension: int) -> State:
        return {"m": np.zeros(dimension, np.float32), "v": np.full(dimension, self.tau**2, np.float32)}

    def step(self, parameters: Vectors, estimate: Vectors, state: State) -> tuple[Vectors, State]:
        m = self.beta1 * like(state["m"], estimate) + (1 - self.beta1) * estimate
        v = self._second(like(state["v"], estimate), estimate**2)
        parameters = parameters + self.lr * m / (v**0.5 + self.tau)
        return parameters, {"m": as_array(m), "v": as_array(v)}

    def _second(self, v: Vectors, square: Vectors) -> Vectors:
        return self.beta2 * v + (1 - self.beta2) * square


@dataclass(frozen=True)
class Yogi(Adam):
    """Adam with v ← v − (1 − beta2)·Δ²·sign(v − Δ²), which forgets large steps more slowly."""

    name: ClassVar[str] = "yogi"

    def _second(self, v: Vectors, square: Vectors) -> Vectors:
        return v - (1 - self.beta2) * square * _sign(v - square)


def _sign(values: Vectors) -> Vectors:
    return np.sign(values) if isinstance(values, np.ndarray) else values.sign()


def _positive(parameter: str, value: float, owner: str) -> None:
    if not 0 < value < float("inf"):
        raise bad(parameter, f"server {owner!r}", "a number > 0", value)


def _share(parameter: str, value: float, owner: str) -> None:
    if not 0 <= value < 1:
        raise bad(parameter, f"server {owner!r}", "a number in [0, 1)", value)
