"""A module ↔ one flat float32 vector: trainable parameters first, then float buffers.

Everything after training (selection, aggregation, checkpoints) sees vectors only. Frozen parameters and integer buffers
(batch-norm's step counter, say) are not learned and stay in the module as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import nn


@dataclass(frozen=True)
class Entry:
    """One tensor of the module, standing at ``start:stop`` of the vector."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """Where each tensor of a module stands in its vector.

    Parameters
    ----------
    parameters, buffers
        Trainable parameters and float buffers, in the module's own order.
    trainable
        Entries ``[:trainable]`` are learned by gradient steps; the rest are buffers such as running means.
    dimension
        d, length of the vector.
    """

    parameters: tuple[Entry, ...]
    buffers: tuple[Entry, ...]
    trainable: int
    dimension: int

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        parameters = tuple(_place(_trainable(module), 0))
        trainable = parameters[-1].stop if parameters else 0
        buffers = tuple(_place(_float_buffers(module), trainable))
        return cls(parameters, buffers, trainable, buffers[-1].stop if buffers else trainable)

    def flatten(self, module: nn.Module) -> torch.Tensor:
        """The module's tensors as a new vector."""
        tensors = dict([*_trainable(module), *_float_buffers(module)])
        parts = [tensors[e.name].detach().reshape(-1).float() for e in (*self.parameters, *self.buffers)]
        return torch.cat(parts) if parts else torch.zeros(0)

    def load(self, module: nn.Module, vector: torch.Tensor) -> None:
        """Write a vector into the module."""
        with torch.no_grad():
            views = {**self.parameter_views(vector), **self.buffer_views(vector)}
            for name, tensor in (*_trainable(module), *_float_buffers(module)):
                tensor.copy_(views[name])

    def parameter_views(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """The trainable tensors as views of a vector, or of a row of vectors (then each has a leading axis)."""
        return _views(self.parameters, vectors)

    def buffer_views(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """The float buffers as views of a vector, or of a row of vectors."""
        return _views(self.buffers, vectors)


def _trainable(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def _float_buffers(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, b) for name, b in module.named_buffers() if b.is_floating_point()]


def _place(named: Iterable[tuple[str, torch.Tensor]], at: int) -> Iterator[Entry]:
    for name, tensor in named:
        shape = tuple(tensor.shape)
        yield Entry(name, shape, at, at + prod(shape))
        at += prod(shape)


def _views(entries: tuple[Entry, ...], vectors: torch.Tensor) -> dict[str, torch.Tensor]:
    lead = vectors.shape[:-1]
    return {e.name: vectors[..., e.start : e.stop].view((*lead, *e.shape)) for e in entries}
