"""Which way of local training fits a model and a device: chosen here, never by the user."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from hcsfed.clients.build import Model, build_module
from hcsfed.clients.contract import LocalTraining, Trainer
from hcsfed.clients.loop import LoopTrainer
from hcsfed.clients.objective import RowLoss
from hcsfed.clients.one_by_one import OneByOne
from hcsfed.clients.trainer import TorchTrainer
from hcsfed.clients.vmapped import VmapTrainer
from hcsfed.errors import bad
from hcsfed.types import Federation

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_RECURRENCES = (nn.RNN, nn.LSTM, nn.GRU)


def make_trainer(
    federation: Federation,
    model: Model,
    work: LocalTraining,
    *,
    seed: int = 0,
    backend: str = "auto",
    device: str = "auto",
    dtype: str = "float32",
    loss: RowLoss | None = None,
    **options: Any,
) -> Trainer:
    """The trainer of these clients.

    Parameters
    ----------
    model
        A name in :data:`~hcsfed.clients.models.MODELS`, ``"package.module:factory"``, a factory, or a module, which
        then starts as it stands.
    backend
        ``loop``: the plain oracle; ``batched``, and ``auto``: the fast way that fits.
    device
        ``auto`` is CUDA where there is one.
    dtype
        ``bfloat16``: products in bfloat16 where autocast deems that safe.
    loss
        (outputs, targets) → one loss per row, in place of the task's own.
    options
        Of the model, such as ``hidden``.
    """
    for name, value, allowed in (
        ("backend", backend, ("auto", "loop", "batched")),
        ("dtype", dtype, ("float32", "bfloat16")),
    ):
        if value not in allowed:
            raise bad(name, "local training", "one of " + ", ".join(allowed), value)
    where = pick_device(device)
    module = build_module(federation, model, seed, **options)
    if backend != "loop" and dtype == "float32" and loss is None:
        fused = _fused(federation, module, work, where, seed)
        if fused is not None:
            return fused
    common: dict[str, Any] = {"seed": seed, "device": where, "dtype": dtype, "loss": loss}
    if backend == "loop":
        return LoopTrainer(federation, module, work, **common)
    if _fills_the_device(module, where):
        return OneByOne(federation, module, work, **common)
    return _vmapped(federation, module, work, common)


def _fused(
    federation: Federation, module: nn.Module, work: LocalTraining, device: torch.device, seed: int
) -> Trainer | None:
    from hcsfed.clients import fused

    if not fused.supports(module, federation, work, device):
        return None
    return fused.FusedTrainer(federation, module, work, seed=seed)


def _fills_the_device(module: nn.Module, device: torch.device) -> bool:
    """Whether one client at a time is fastest: PyTorch's recurrent kernels, and convolutions on a CPU."""
    kinds = _RECURRENCES if device.type == "cuda" else _RECURRENCES + _CONVOLUTIONS
    return any(isinstance(m, kinds) for m in module.modules())


def _vmapped(federation: Federation, module: nn.Module, work: LocalTraining, common: dict[str, Any]) -> TorchTrainer:
    """All clients at once if that gives what one by one gives, else one by one."""
    slow = OneByOne(federation, module, work, **common)
    try:
        fast = VmapTrainer(federation, module, work, **common)
        tolerance = 0.01 if common["dtype"] == "float32" else 0.1
        reason = "" if _agree(fast, slow, tolerance) else "the results differ"
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if not reason:
        return fast
    warnings.warn(
        f"clients are trained one after another: {type(module).__name__} can't be trained for many at once ({reason})",
        stacklevel=3,
    )
    return slow


def _agree(fast: TorchTrainer, slow: TorchTrainer, tolerance: float) -> bool:
    """Whether both train two clients alike, for two steps and for one."""
    sizes = fast.federation.sizes
    ids = np.argsort(-sizes, kind="stable")[:2]
    vectors = [
        torch.cat([u.vectors for u in trainer.train(trainer.initial(), ids, 0, steps=np.arange(len(ids), 0, -1))])
        for trainer in (fast, slow)
    ]
    difference, length = (vectors[0] - vectors[1]).norm(dim=1), vectors[1].norm(dim=1)
    # NaN agrees with NaN: that a rate is too high is for the round loop to say.
    return bool(((difference <= tolerance * length) | ~length.isfinite()).all())


def pick_device(device: str) -> torch.device:
    """``auto``, ``cpu`` or ``cuda`` → the device."""
    if device not in ("auto", "cpu", "cuda"):
        raise bad("device", "local training", "one of auto, cpu, cuda", device)
    if device == "cuda" and not torch.cuda.is_available():
        raise bad("device", "local training", "one that PyTorch finds here", device, "use auto or cpu")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
