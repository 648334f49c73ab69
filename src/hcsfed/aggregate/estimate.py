"""The estimate Σ_i weights_i · u_i of what full participation would have given."""

from __future__ import annotations

import torch

from hcsfed.types import Floats


class WeightedSum:
    """A running Σ weights·updates.

    It is summed in float64, one client after another, so that not even the last digit depends on how the clients were
    chunked. The weights are used as they come: what a design intends must not be renormalised here.
    """

    def __init__(self, dimension: int, device: torch.device) -> None:
        self._sum = torch.zeros(dimension, dtype=torch.float64, device=device)

    def add(self, vectors: torch.Tensor, weights: Floats) -> None:
        for vector, weight in zip(vectors.double(), weights.tolist(), strict=True):
            self._sum.add_(vector, alpha=weight)

    def value(self) -> torch.Tensor:
        return self._sum.float()
