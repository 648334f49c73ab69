"""What local training is asked for and what it gives back: one contract for every backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from numpy.typing import NDArray

from hcsfed.settings import LocalTraining, steps_of
from hcsfed.types import Floats, Ints
from hcsfed.updates import Updates

__all__ = ["LocalTraining", "Trainer", "Updates", "steps_of"]


class Trainer(Protocol):
    """Clients that can be asked to train.

    A parameter vector is float32, trainable entries first, then float buffers. ``engine`` names the way of training.
    """

    dimension: int
    device: torch.device

    @property
    def engine(self) -> str: ...

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

        ``steps`` overrides the number of steps per client; ``correction`` (one row per client) is added to every
        gradient.
        """
        ...

    def evaluate(self, parameters: torch.Tensor, x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        """Mean loss and accuracy (NaN for regression) on these rows, in evaluation mode."""
        ...

    def local_losses(self, parameters: torch.Tensor, ids: Ints) -> Floats:
        """The loss of these parameters on each client's own rows."""
        ...
