"""What a federated algorithm is: how clients train, and what both sides remember from round to round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from numpy.typing import NDArray

from hcsfed.settings import LocalTraining
from hcsfed.types import Floats, Ints, State
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
    """

    train: Train
    gradients: Callable[[Vectors, Ints], Iterator[Updates]]
    dimension: int
    device: torch.device | None
    weights: Floats
    sizes: Ints
    steps: Ints
    work: LocalTraining

    @property
    def clients(self) -> int:
        """N."""
        return len(self.weights)

    def rate(self, round: int) -> float:
        """η of that round."""
        return self.work.lr * self.work.lr_decay**round


class Algorithm(Protocol):
    """A federated algorithm: what clients do in a round, orthogonal to who is selected and how answers are weighted.

    Its memory is a dict of arrays that travels with the checkpoint. Large arrays in it are written in place.
    """

    name: ClassVar[str]
    vectors: ClassVar[int]
    """How many vectors of the model's size go down to a client that trains, and up with its answer."""

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

    def learn(self, setup: Setup, state: State, parameters: Vectors, updates: Updates, round: int) -> None:
        """Remember what the picked have sent, a chunk at a time."""
        ...

    def close(self, state: State) -> None:
        """The round is over: what was learned in it holds from now on."""
        ...

    def extra_steps(self, setup: Setup, ids: Ints) -> int:
        """Minibatches that these clients compute besides their local steps."""
        ...
