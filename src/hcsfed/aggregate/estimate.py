"""The estimate Σ_i weights_i · u_i of what full participation would have given."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hcsfed.jit import compiled
from hcsfed.types import Floats


class WeightedSum:
    """A running Σ weights·updates, which measures the updates as it goes along.

    It is summed in float64, one client after another, so that not even the last digit depends on how the clients were
    chunked. The weights are used as they come: what a design intends must not be renormalised here.
    """

    def __init__(self, dimension: int, device: torch.device, start: Floats | None = None) -> None:
        self._sum = torch.zeros(dimension, dtype=torch.float64, device=device)
        if start is not None:
            self._sum += torch.from_numpy(start).to(device)

    def add(self, vectors: torch.Tensor, weights: Floats) -> None:
        if vectors.device.type == "cpu":
            # One compiled pass: PyTorch would make a float64 copy, and wake threads that get in the clients' way.
            add_rows(self._sum.numpy(), vectors.numpy(), weights)
        else:
            for vector, weight in zip(vectors.double(), weights.tolist(), strict=True):
                self._sum.add_(vector, alpha=weight)

    def value(self) -> torch.Tensor:
        return self._sum.float()


def add_rows(total: Floats, rows: NDArray[Any], weights: Floats) -> None:
    """Total += Σ weights·rows in float64, one row after another."""
    compiled(_add)(total, rows, weights)


def row_norms(vectors: torch.Tensor) -> Floats:
    """‖u_k‖ of each row, in float64."""
    if vectors.device.type == "cpu":
        norms: Floats = np.sqrt(compiled(_squares)(vectors.numpy()))
        return norms
    return np.asarray(torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64).cpu().numpy())


def _add(total: Floats, rows: NDArray[Any], weights: Floats) -> None:
    for i in range(len(rows)):
        weight, row = weights[i], rows[i]
        for j in range(len(row)):
            total[j] += weight * row[j]


def _squares(rows: NDArray[Any]) -> Floats:
    # Eight sums side by side, so that the processor need not wait for one.
    out = np.zeros(len(rows))
    for i in range(len(rows)):
        parts = np.zeros(8)
        row = rows[i]
        whole = len(row) // 8 * 8
        for j in range(0, whole, 8):
            for k in range(8):
                parts[k] += np.float64(row[j + k]) * np.float64(row[j + k])
        for j in range(whole, len(row)):
            parts[0] += np.float64(row[j]) * np.float64(row[j])
        out[i] = parts.sum()
    return out
