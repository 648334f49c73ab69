"""The estimate Σ_i weights_i · u_i of what full participation would have given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.jit import compiled
from hcsfed.types import Floats
from hcsfed.updates import Vectors

if TYPE_CHECKING:
    import torch


def as_array(vectors: Vectors) -> NDArray[Any]:
    """As NumPy, without a copy where the numbers are in host memory."""
    return vectors if isinstance(vectors, np.ndarray) else np.asarray(vectors.cpu().numpy())


def like(array: NDArray[Any], other: Vectors) -> Vectors:
    """The array as it is, or as a tensor beside ``other`` where that is one."""
    if isinstance(other, np.ndarray):
        return array
    import torch

    return torch.from_numpy(array).to(other.device)


class WeightedSum:
    """A running Σ weights·updates, which measures the updates as it goes along.

    It is summed in float64, one client after another, so that not even the last digit depends on how the clients were
    chunked. The weights are used as they come: what a design intends must not be renormalised here.
    """

    def __init__(self, dimension: int, device: torch.device | None, start: Floats | None = None) -> None:
        self._device = device
        self._sum: Vectors = np.zeros(dimension) if start is None else start.astype(np.float64)
        if device is not None and device.type != "cpu":
            self._sum = _on(self._sum, device)

    def add(self, vectors: Vectors, weights: Floats) -> None:
        if isinstance(self._sum, np.ndarray):
            # One compiled pass: PyTorch would make a float64 copy, and wake threads that get in the clients' way.
            add_rows(self._sum, as_array(vectors), weights)
        else:
            for vector, weight in zip(_on(vectors, self._sum.device).double(), weights.tolist(), strict=True):
                self._sum.add_(vector, alpha=weight)

    def value(self) -> Vectors:
        if self._device is None:
            return self._sum.astype(np.float32)
        return _on(self._sum, self._device).float()


def _on(vectors: Vectors, device: torch.device) -> torch.Tensor:
    import torch

    return torch.as_tensor(vectors, device=device)


def add_rows(total: Floats, rows: NDArray[Any], weights: Floats) -> None:
    """Total += Σ weights·rows in float64, one row after another."""
    compiled(_add)(total, rows, weights)


def row_norms(vectors: Vectors) -> Floats:
    """‖u_k‖ of each row, in float64."""
    if isinstance(vectors, np.ndarray) or vectors.device.type == "cpu":
        norms: Floats = np.sqrt(compiled(_squares)(as_array(vectors)))
        return norms
    import torch

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
