"""One step of SGD with everything that may be added to a gradient, in the order of PyTorch's optimiser."""

from __future__ import annotations

import torch

from hcsfed.clients.contract import LocalTraining

Tensors = list[torch.Tensor] | tuple[torch.Tensor, ...]


def descend(
    work: LocalTraining,
    lr: float,
    tensors: Tensors,
    gradients: Tensors,
    *,
    origin: Tensors,
    correction: Tensors | None = None,
    velocity: Tensors | None = None,
) -> None:
    """Move ``tensors``, and ``velocity`` where there is momentum, in place.

    The direction is g + λ·w + μ·(w − w_global) + correction, with λ the weight decay.
    """
    if work.weight_decay or work.mu:
        gradients = torch._foreach_add(gradients, tensors, alpha=work.weight_decay + work.mu)
    if work.mu:
        gradients = [torch.sub(g, o, alpha=work.mu) for g, o in zip(gradients, origin, strict=True)]
    if correction is not None:
        gradients = torch._foreach_add(gradients, correction)
    if velocity is not None:
        torch._foreach_mul_(velocity, work.momentum)
        torch._foreach_add_(velocity, gradients)
        gradients = velocity
    torch._foreach_add_(tensors, gradients, alpha=-lr)
