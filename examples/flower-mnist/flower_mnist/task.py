"""The model, the data, and how a client trains: plain PyTorch, nothing of hcsfed but its data sets."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn

from hcsfed.data import load
from hcsfed.types import Federation


@cache
def shares(data: str, clients: int, seed: int) -> Federation:
    """The training rows, dealt out by class: every client has some digits more than others."""
    return load(data, clients=clients, seed=seed, partition="dirichlet", partition_options={"alpha": 0.5})


def tensors(federation: Federation, x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows as the model takes them."""
    rows = torch.tensor(x).float() * federation.scale + federation.shift
    return rows.flatten(1), torch.tensor(y).long()


def build(federation: Federation, seed: int = 0) -> nn.Module:
    """One hidden layer; the same parameters for the same seed, and nobody else's random state is touched."""
    inputs = federation.test_x[0].size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, 50), nn.ReLU(), nn.Linear(50, federation.classes))


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, batch: int, lr: float, seed: int) -> float:
    """SGD on minibatches drawn by this seed; gives the mean loss on the way."""
    draw = torch.Generator().manual_seed(seed)
    optimizer, total = torch.optim.SGD(model.parameters(), lr=lr), 0.0
    for _ in range(steps):
        rows = torch.randint(len(x), (min(batch, len(x)),), generator=draw)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / steps


@torch.no_grad()
def test(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Mean loss and accuracy."""
    scores = model(x)
    return float(nn.functional.cross_entropy(scores, y)), float((scores.argmax(1) == y).float().mean())
