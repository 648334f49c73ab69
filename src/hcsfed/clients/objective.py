"""What a client minimises: a loss per row, whose mean over a minibatch is what a step descends."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from hcsfed.types import Task

RowLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(outputs, targets) of some rows → one loss per row."""


def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Classes on the last axis of ``outputs``; a row with several targets (a sequence) counts their mean."""
    losses = functional.cross_entropy(outputs.float().flatten(0, -2), targets.flatten(), reduction="none")
    return losses if targets.ndim == 1 else losses.view(targets.shape).flatten(1).mean(1)


def half_squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """½‖output − target‖² of each row."""
    difference = outputs.float().reshape(targets.shape) - targets
    return 0.5 * difference.square().flatten(1).sum(1) if targets.ndim > 1 else 0.5 * difference.square()


def row_loss(task: Task) -> RowLoss:
    return cross_entropy if task == "classification" else half_squared_error


def hits(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The share of right answers in each row."""
    right = (outputs.argmax(-1) == targets).float()
    return right if right.ndim == 1 else right.flatten(1).mean(1)
