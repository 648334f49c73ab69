"""What comes back from local training: the one record between stages that holds tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hcsfed.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Updates:
    """What clients have learned: ``vectors[i] = w_k − w_global`` of client ``ids[i]``.

    ``losses`` is the mean minibatch loss over the local steps, each taken before its step.
    """

    ids: Ints
    vectors: torch.Tensor
    losses: Floats
    steps: Ints
