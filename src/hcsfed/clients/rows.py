"""The clients' rows as a model reads them: gathered by number, then x·scale + shift in float32, on the right device."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hcsfed.types import Federation, Ints

_NARROW = {np.dtype(np.uint16): np.int32, np.dtype(np.uint32): np.int64, np.dtype(np.uint64): np.int64}


class Rows:
    """Rows of a federation, held on the device where they fit there, else sent when they are asked for.

    Whole numbers that the federation does not scale are what an embedding looks up: they stay whole where the model has
    an embedding, or says so by an attribute ``reads_tokens = True``.
    """

    def __init__(self, federation: Federation, module: nn.Module, device: torch.device) -> None:
        self.device = device
        self.tokens = (
            federation.x.dtype.kind in "iu"
            and (federation.scale, federation.shift) == (1.0, 0.0)
            and any(isinstance(m, nn.Embedding | nn.EmbeddingBag) for m in module.modules())
        ) or bool(getattr(module, "reads_tokens", False))
        self.labels = federation.task == "classification"
        self.scale, self.shift = federation.scale, federation.shift
        self.count = len(federation.x)
        self._packed = federation.x, federation.y
        self._held: tuple[torch.Tensor, torch.Tensor] | None = None
        if device.type == "cpu":
            self._held = tensor(federation.x), tensor(federation.y)
        elif federation.x.nbytes + federation.y.nbytes < torch.cuda.mem_get_info(device)[0] // 2:
            self._held = tensor(federation.x).to(device), tensor(federation.y).to(device)

    def take(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of rows by number; ``index`` may have any shape, which becomes the leading axes."""
        flat = index.reshape(-1)
        if self._held is not None:
            x, y = (a.index_select(0, flat) for a in self._held)
        else:
            numbers = flat.cpu().numpy()
            x, y = (tensor(a[numbers]).to(self.device) for a in self._packed)
        lead = index.shape
        return self.inputs(x).view(*lead, *x.shape[1:]), self.targets(y).view(*lead, *y.shape[1:])

    def convert(self, x: Any, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Other rows of the same kind, such as the test set's."""
        x, y = (tensor(a) if isinstance(a, np.ndarray) else a for a in (x, y))
        return self.inputs(x.to(self.device)), self.targets(y.to(self.device))

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        if self.tokens:
            return x.long()
        if (self.scale, self.shift) == (1.0, 0.0):
            return x.float()
        scaled = x * self.scale if x.dtype == torch.float32 else x.float().mul_(self.scale)  # x itself stays
        return scaled.add_(self.shift) if self.shift else scaled

    def targets(self, y: torch.Tensor) -> torch.Tensor:
        return y.long() if self.labels else y.float()


def tensor(a: NDArray[Any]) -> torch.Tensor:
    """The array as a tensor, without a copy where torch knows its type; it is only ever read."""
    a = a.astype(_NARROW[a.dtype]) if a.dtype in _NARROW else a
    with warnings.catch_warnings():  # a memory-mapped array is read-only, which torch warns of
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(np.ascontiguousarray(a))


def numbers(starts: Ints, rows: NDArray[np.int32]) -> torch.Tensor:
    """Row numbers in the packed arrays, from the clients' first rows and the plan's row numbers inside a client."""
    return torch.from_numpy(starts[:, None, None] + rows)
