"""Local training of one client after another, with as little as possible between PyTorch's kernels: for convolutions.

On a CPU one client's convolution already fills the cores, and running several clients' side by side as grouped
convolutions is slower; so is a recurrence written out for many clients. Images stand in channels_last, the layout in
which convolutions are fastest.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from hcsfed.clients.sgd import descend
from hcsfed.clients.trainer import Task, TorchTrainer

_CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


class OneByOne(TorchTrainer):
    """One client after another, on tensors that are updated together."""

    engine: ClassVar[str] = "one-by-one"
    widest: ClassVar[int] = 64

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._images = any(isinstance(m, _CONVOLUTIONS) for m in self.module.modules())
        if self._images:
            self.module = self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _train(self, start: torch.Tensor, task: Task) -> tuple[torch.Tensor, torch.Tensor]:
        vectors = torch.empty(len(task), self.dimension, device=self.device)
        losses = torch.empty(len(task), device=self.device)
        with self._seeded():
            for i in range(len(task)):
                losses[i] = self._client(start, task, i)
                torch.sub(self.layout.flatten(self.module), start, out=vectors[i])
        return vectors, losses

    def _client(self, start: torch.Tensor, task: Task, i: int) -> torch.Tensor:
        """Train the module as one client; its mean loss."""
        self.layout.load(self.module, start)
        self._reset_counters()
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        tensors = [p.detach() for p in parameters]
        origin = list(self.layout.parameter_views(start).values())
        correction = None if task.correction is None else list(self.layout.parameter_views(task.correction[i]).values())
        velocity = [torch.zeros_like(t) for t in tensors] if self.work.momentum else None
        total = torch.zeros((), device=self.device)
        count = int(task.plan.steps[i])
        for s in range(count):
            self._seed(task.keys[i, s])
            x, y = self.rows.take(task.rows[i, s, : task.plan.counts[i, s]])
            if self._images and x.ndim == 4:
                x = x.contiguous(memory_format=torch.channels_last)
            loss = self._mean_loss(x, y, task.ids[i])
            gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
            descend(self.work, task.lr, tensors, gradients, origin=origin, correction=correction, velocity=velocity)
            total += loss.detach()
        return total / count if count else total * torch.nan
