"""What local training is asked for and what it gives back: one contract for every backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from hcsfed.types import Floats, Ints


@dataclass(frozen=True)
class LocalTraining:
    """How a client trains in one round.

    Parameters
    ----------
    steps
        nSGD, minibatch steps; ignored where ``epochs`` is given.
    epochs
        E, passes over the client's rows; 0 means: count steps.
    batch
        B, rows of a minibatch (a client with fewer rows uses all of them).
    lr
        η, the rate in round 0; in round t it is ``lr · lr_decay**t``.
    momentum
        of SGD; starts at zero in every round.
    weight_decay
        L2 term, added to the gradient.
    mu
        Weight of FedProx's proximal term (μ/2)·‖w − w_global‖².
    draw
        ``fresh``: every minibatch is drawn anew, without replacement inside the batch;
        ``permutation``: minibatches walk through a new permutation of the rows in every epoch.
    """

    steps: int = 50
    epochs: int = 0
    batch: int = 50
    lr: float = 0.01
    lr_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    mu: float = 0.0
    draw: Literal["fresh", "permutation"] = "fresh"


@dataclass(frozen=True, eq=False)
class Updates:
    """What clients have learned: ``vectors[i] = w_k − w_global`` of client ``ids[i]``.

    ``losses`` is the mean minibatch loss over the local steps, each taken before its step.
    """

    ids: Ints
    vectors: torch.Tensor
    losses: Floats
    steps: Ints


class Trainer(Protocol):
    """Clients that can be asked to train. A parameter vector is float32, trainable entries first, then float buffers."""

    dimension: int
    device: torch.device

    def initial(self) -> torch.Tensor:
        """The seeded parameters of round 0."""
        ...

    def train(
        self,
        parameters: torch.Tensor,
        ids: Ints,
        round: int,
        *,
        steps: Ints | None = None,
        correction: torch.Tensor | None = None,
    ) -> Iterator[Updates]:
        """Train these clients, a chunk at a time, in the order of ``ids``.

        ``steps`` overrides the number of steps per client; ``correction`` (one row per client) is added to every gradient.
        """
        ...

    def evaluate(self, parameters: torch.Tensor, x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        """Mean loss and accuracy (NaN for regression) on these rows, in evaluation mode."""
        ...

    def local_losses(self, parameters: torch.Tensor, ids: Ints) -> Floats:
        """The loss of these parameters on each client's own rows."""
        ...


def steps_of(work: LocalTraining, sizes: Ints) -> Ints:
    """How many steps each client takes."""
    if work.epochs:
        return work.epochs * -(-sizes // np.minimum(work.batch, sizes))
    return np.full(len(sizes), work.steps, np.int64)
