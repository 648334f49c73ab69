"""What comes back from local training: the one record between stages that may hold tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hcsfed.types import Bools, Floats, Ints

Vectors = Any
"""A ``torch.Tensor``, or a NumPy array where there is no PyTorch, as on a server that only aggregates."""


@dataclass(frozen=True, eq=False)
class Updates:
    """What clients have learned: ``vectors[i] = w_k − w_global`` of client ``ids[i]``.

    ``losses`` is the mean minibatch loss over the local steps, each taken before its step. ``sent`` says who has sent
    its vector, where not all have: of the others it is what the server holds of them already.
    """

    ids: Ints
    vectors: Vectors
    losses: Floats
    steps: Ints
    sent: Bools | None = None

    def only(self, at: Ints) -> Updates:
        """Some of them, by their places."""
        if len(at) == len(self.ids):
            return self
        sent = None if self.sent is None else self.sent[at]
        return replace(
            self,
            ids=self.ids[at],
            vectors=self.vectors[at],
            losses=self.losses[at],
            steps=self.steps[at],
            sent=sent,
        )
