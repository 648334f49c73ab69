"""What a federated algorithm is: how clients train, and what both sides remember from round to round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from hcsfed.settings import LocalTraining
from hcsfed.shelf import Shelf, Shelves
from hcsfed.types import Floats, Ints, State, View
from hcsfed.updates import Updates, Vectors

if TYPE_CHECKING:
    import torch


class Train(Protocol):
    """Local training as :meth:`hcsfed.clients.Trainer.train` does it."""

    def __call__(
        self,
        parameters: Vectors,
        ids: Ints,
        round: int,
        *,
        steps: Ints | None = None,
        correction: Vectors | None = None,
    ) -> Iterator[Updates]: ...


@dataclass(frozen=True, eq=False)
class Setup:
    """What is known before the first round.

    Parameters
    ----------
    train
        Plain local training.
    gradients
        (parameters, ids) → each client's gradient over all of its rows, as the ``vectors`` of updates.
    dimension, device
        Of a parameter vector; None where vectors are NumPy arrays.
    weights
        ω_k of all clients.
    sizes, steps
        Rows of each client, and the local steps that it takes in a round.
    work
        How clients train.
    shelves
        Where rows of d numbers per client are kept.
    """

    train: Train
    gradients: Callable[[Vectors, Ints], Iterator[Updates]]
    dimension: int
    device: torch.device | None
    weights: Floats
    sizes: Ints
    steps: Ints
    work: LocalTraining
    shelves: Shelves = field(default_factory=Shelves)

    @property
    def clients(self) -> int:
        """N."""
        return len(self.weights)

    def change(self, before: Floats) -> Floats:
        """By how much the weights differ from those before, of whoever has come since from 0."""
        change = self.weights.copy()
        change[: len(before)] -= before
        return change

    def rate(self, round: int) -> float:
        """η of that round."""
        return self.work.lr * self.work.lr_decay**round

    def rows(self, state: State, name: str, owner: str) -> Shelf:
        """The rows of d numbers that ``state[name]`` stands for."""
        return self.shelves.rows(f"{owner}-{name}", state[name], self.dimension)


class Algorithm(Protocol):
    """A federated algorithm: what clients do in a round, orthogonal to who is selected and how answers are weighted.

    Its memory is a dict of arrays that travels with the checkpoint. Large arrays in it are written in place, and rows
    of the model's size per client are kept on the setup's shelves.
    """

    @property
    def name(self) -> str: ...

    @property
    def vectors(self) -> int:
        """How many vectors of the model's size go down to a client that trains, and up with its answer."""
        ...

    @property
    def compares(self) -> bool:
        """Whether it needs a feature of every client."""
        ...

    def local(self, work: LocalTraining) -> LocalTraining:
        """How clients train under this algorithm; refuses what it cannot be right with."""
        ...

    def start(self, setup: Setup) -> State:
        """The memory before the first round."""
        ...

    def correction(self, setup: Setup, state: State, ids: Ints) -> NDArray[Any] | None:
        """What is added to every gradient of these clients, a row each; None: nothing."""
        ...

    def factors(self, setup: Setup, steps: Ints, round: int) -> Floats | None:
        """What the updates of clients that took so many steps are multiplied by; None: by 1."""
        ...

    def train(self, setup: Setup, state: State, parameters: Vectors, ids: Ints, round: int) -> Iterator[Updates]:
        """The updates of these clients, whose mean Σ ω_k·u_k full participation would step by. Changes no memory."""
        ...

    def open(self, setup: Setup, state: State, parameters: Vectors, view: View) -> None:
        """The picked are known and about to answer: what is to be remembered of the round's beginning."""
        ...

    def learn(self, setup: Setup, state: State, parameters: Vectors, updates: Updates, round: int) -> None:
        """Remember what the picked have sent, a chunk at a time."""
        ...

    def close(self, setup: Setup, state: State) -> None:
        """The round is over: what was learned in it holds from now on."""
        ...

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        """Between rounds, clients have joined behind those who had the weights ``before``, or weights have changed."""
        ...

    def extra_steps(self, setup: Setup, ids: Ints) -> int:
        """Minibatches that these clients compute besides their local steps."""
        ...
