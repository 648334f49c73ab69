"""What comes back from local training: the one record between stages that may hold tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hcsfed.types import Floats, Ints

Vectors = Any
"""A ``torch.Tensor``, or a NumPy array where there is no PyTorch, as on a server that only aggregates."""


@dataclass(frozen=True, eq=False)
class Updates:
    """What clients have learned: ``vectors[i] = w_k − w_global`` of client ``ids[i]``.

    ``losses`` is the mean minibatch loss over the local steps, each taken before its step.
    """

    ids: Ints
    vectors: Vectors
    losses: Floats
    steps: Ints
