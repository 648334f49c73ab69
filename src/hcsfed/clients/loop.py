"""Local training as a textbook has it: a module, an optimiser, one client after another. The oracle of the rest."""

from __future__ import annotations

from typing import ClassVar

import torch

from hcsfed.clients.trainer import Task, TorchTrainer


class LoopTrainer(TorchTrainer):
    """Plain SGD, client by client. Trains whatever a module may do, at the price of Python's pace."""

    engine: ClassVar[str] = "loop"
    widest: ClassVar[int] = 64

    def _train(self, start: torch.Tensor, task: Task) -> tuple[torch.Tensor, torch.Tensor]:
        vectors = torch.empty(len(task), self.dimension, device=self.device)
        losses = torch.empty(len(task), device=self.device)
        with self._seeded():
            for i in range(len(task)):
                vectors[i], losses[i] = self._client(start, task, i)
        return vectors, losses

    def _client(self, start: torch.Tensor, task: Task, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        """One client's update and mean loss."""
        module, layout, work = self.module, self.layout, self.work
        layout.load(module, start)
        self._reset_counters()
        parameters = [p for p in module.parameters() if p.requires_grad]
        origin = list(layout.parameter_views(start).values())
        push = None if task.correction is None else list(layout.parameter_views(task.correction[i]).values())
        optimiser = torch.optim.SGD(parameters, task.lr, momentum=work.momentum, weight_decay=work.weight_decay)
        losses = []
        for s in range(int(task.plan.steps[i])):
            self._seed(task.keys[i, s])
            x, y = self.rows.take(task.rows[i, s, : task.plan.counts[i, s]])
            loss = self._mean_loss(x, y, task.ids[i])
            optimiser.zero_grad(set_to_none=False)
            torch.autograd.backward(loss)
            for j, p in enumerate(parameters):
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                if work.mu:
                    p.grad += work.mu * (p.detach() - origin[j])
                if push is not None:
                    p.grad += push[j]
            optimiser.step()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean() if losses else torch.tensor(torch.nan)
        return layout.flatten(module) - start, mean
