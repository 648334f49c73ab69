"""A model that takes its time where it is judged, as long as a file is there; it learns the same either way."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training and Path(os.environ.get("SLOWLY", "")).is_file():
            time.sleep(0.5)
        return self.layer(x.flatten(1))  # type: ignore[no-any-return]


def net(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return Net(int(torch.Size(input_shape).numel()), classes)
