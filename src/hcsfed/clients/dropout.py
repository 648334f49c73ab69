"""Dropout without a generator: whether an element falls is a hash of (client, step, layer, call, element).

Masks then depend on nothing else, so a client drops the same elements trained alone or among others, and the global
generator is never touched.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hcsfed.rng import keys, mix64
from hcsfed.types import Ints

_GOLDEN = 0x9E3779B97F4A7C15
_LAYERS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


def step_keys(seed: int, round: int, ids: Ints, steps: int) -> NDArray[np.int64]:
    """int64[clients, steps]: what every mask of that client's step is hashed from."""
    own = keys(seed, "dropout", round, ids)
    counter = np.arange(1, steps + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return mix64(own[:, None] + counter).view(np.int64)


class CountedDropout(nn.Module):
    """Drops elements, or whole channels, with probability ``p`` by the hash of ``key``.

    ``key`` is a buffer so that ``torch.func`` can hand each client its own.
    """

    key: torch.Tensor

    def __init__(self, p: float, layer: int, channels: bool) -> None:
        super().__init__()
        self.p = p
        self.layer = layer
        self.channels = channels
        self.calls = 0
        self.register_buffer("key", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0:
            return x
        if self.p == 1:
            return x * 0
        self.calls += 1
        shape = x.shape[:2] + (1,) * (x.ndim - 2) if self.channels else x.shape
        keep = self._keep(shape, x)
        return x * (keep.to(x.dtype) * (1 / (1 - self.p)))

    def _keep(self, shape: Any, like: torch.Tensor) -> torch.Tensor:
        key = _mix64(self.key + _signed((self.layer << 32 | self.calls) * _GOLDEN, 64))
        low, high = key.to(torch.int32), (key >> 32).to(torch.int32)
        index = torch.arange(shape.numel(), dtype=torch.int32, device=like.device).view(shape)
        return _hash32(index, low, high) >= int(self.p * 2**32) - 2**31

    def extra_repr(self) -> str:
        return f"p={self.p}"


def counted(module: nn.Module) -> nn.Module:
    """A copy of the module in which every dropout layer is a counted one."""
    whole = copy.deepcopy(module)
    found: list[CountedDropout] = []
    swapped: dict[int, CountedDropout] = {}
    for parent in list(whole.modules()):
        for name, child in list(parent._modules.items()):
            if not isinstance(child, _LAYERS) or type(child) not in _LAYERS:  # a subclass may mean something else
                continue
            if id(child) not in swapped:  # one layer used in two places stays one layer
                found.append(CountedDropout(child.p, len(found), channels=type(child) is not nn.Dropout))
                swapped[id(child)] = found[-1]
            setattr(parent, name, swapped[id(child)])

    def start_counting(_module: nn.Module, _inputs: Any) -> None:
        for layer in found:
            layer.calls = 0

    if found:
        whole.register_forward_pre_hook(start_counting)
    return whole


def key_names(module: nn.Module) -> list[str]:
    """Names of the key buffers of all counted layers."""
    return [f"{name}.key" for name, layer in module.named_modules() if isinstance(layer, CountedDropout)]


def _signed(word: int, bits: int) -> int:
    """The signed integer with the bits of this unsigned one: PyTorch computes with signed ones."""
    word &= 2**bits - 1
    return word - 2**bits if word >= 2 ** (bits - 1) else word


def _mix64(z: torch.Tensor) -> torch.Tensor:
    """:func:`hcsfed.rng.mix64` on int64, whose products wrap alike; the masks make its shifts logical."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _signed(0xBF58476D1CE4E5B9, 64)
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _signed(0x94D049BB133111EB, 64)
    return z ^ ((z >> 31) & (2**33 - 1))


def _hash32(index: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """A well-mixed int32 for each index, from 64 bits of key. 32-bit products are vectorised, 64-bit ones are not.

    The rounds are those of C. Wellons' ``lowbias32`` (2018), with half of the key put in before each.
    """
    z = index ^ low
    z = (z ^ ((z >> 16) & 0xFFFF)) * _signed(0x7FEB352D, 32)
    z = z + high
    z = (z ^ ((z >> 15) & 0x1FFFF)) * _signed(0x846CA68B, 32)
    return z ^ ((z >> 16) & 0xFFFF)
