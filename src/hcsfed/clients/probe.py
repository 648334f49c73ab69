"""What a module is like, found by trying it on a few rows: how it may be trained follows from that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from hcsfed.clients.objective import RowLoss
from hcsfed.clients.rows import Rows
from hcsfed.errors import SettingError

_ROWS = 3


@dataclass(frozen=True)
class Traits:
    """What was found.

    Parameters
    ----------
    rows_apart
        In training, a row's output does not depend on the other rows, and no buffer changes.
    row_bytes
        What a row adds to the memory that a gradient needs.
    outputs
        Shape of the outputs for one row.
    """

    rows_apart: bool
    row_bytes: int
    outputs: tuple[int, ...]


def probe(module: nn.Module, loss: RowLoss, rows: Rows, seeded: Callable[[], AbstractContextManager[Any]]) -> Traits:
    """Try the module on the first rows of the federation. Its buffers stay as they were, its mode is training."""
    x, y = rows.take(torch.arange(_ROWS, device=rows.device) % rows.count)
    try:
        with torch.no_grad(), seeded():
            module.eval()(x)  # a lazy module has its parameters only after this
            module.train()
        before = [b.clone() for b in module.buffers()]
        with torch.no_grad(), seeded():
            whole = module(x)
        with torch.no_grad(), seeded():
            part = module(x[: _ROWS - 1])
        touched = any(not torch.equal(b, old) for b, old in zip(module.buffers(), before, strict=True))
        row_bytes = _saved_bytes(lambda: loss(module(x), y).mean(), seeded) // _ROWS
    except Exception as error:  # whatever the user's own code does
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SettingError(
            f"model {type(module).__name__} can't be trained on rows of shape {tuple(x.shape[1:])} and type "
            f"{x.dtype} with targets of shape {tuple(y.shape[1:])}: {reason}"
        ) from error
    for buffer, old in zip(module.buffers(), before, strict=True):
        buffer.copy_(old)
    apart = torch.allclose(whole[: _ROWS - 1], part, rtol=1e-3, atol=1e-5, equal_nan=True)
    norms = any(isinstance(m, _BatchNorm) for m in module.modules())  # equal rows would hide it
    return Traits(apart and not touched and not norms, row_bytes, tuple(whole.shape[1:]))


def _saved_bytes(loss: Callable[[], torch.Tensor], seeded: Callable[[], AbstractContextManager[Any]]) -> int:
    """What autograd keeps between the forward and the backward pass."""
    total = 0

    def weigh(saved: torch.Tensor) -> torch.Tensor:
        nonlocal total
        total += saved.numel() * saved.element_size()
        return saved

    with seeded(), torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(weigh, lambda saved: saved):
        loss()
    return total
