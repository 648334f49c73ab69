"""What an estimator is: the picked clients' updates → what full participation's mean update would have been."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import WeightedSum
from hcsfed.types import Floats, Selection, State, View
from hcsfed.updates import Updates, Vectors


class Total(Protocol):
    """The estimate of one round in the making."""

    def add(self, updates: Updates, weights: Floats) -> None:
        """Take in some of the picked, with their weights in the selection."""
        ...

    def value(self) -> Vectors:
        """The estimate, once all of the picked are in; what was learned from them holds from now on."""
        ...


class Estimator(Protocol):
    """Orthogonal to selector and algorithm. Its memory is a dict of arrays; large ones are written in place."""

    @property
    def name(self) -> str: ...

    @property
    def compares(self) -> bool:
        """Whether it needs a feature of every client."""
        ...

    @property
    def everyone_first(self) -> bool:
        """Whether the first round is one of full participation."""
        ...

    def start(self, setup: Setup) -> State:
        """The memory before the first round."""
        ...

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        """Between rounds, clients have joined behind those who had the weights ``before``, or weights have changed."""
        ...

    def open(self, setup: Setup, state: State, view: View, selection: Selection) -> Total:
        """Begin a round."""
        ...


@dataclass(frozen=True)
class Weighted:
    """Σ_{i∈S} weights_i·u_i, by the selection's own weights."""

    name: ClassVar[str] = "weighted"
    compares: ClassVar[bool] = False
    everyone_first: ClassVar[bool] = False

    def start(self, setup: Setup) -> State:
        return {}

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        pass

    def open(self, setup: Setup, state: State, view: View, selection: Selection) -> Total:
        return _Sum(WeightedSum(setup.dimension, setup.device))


@dataclass(frozen=True, eq=False)
class _Sum:
    total: WeightedSum

    def add(self, updates: Updates, weights: Floats) -> None:
        self.total.add(updates.vectors, weights)

    def value(self) -> Vectors:
        return self.total.value()
