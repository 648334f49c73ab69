"""The models that have a name. Every factory is called with a row's shape and the number of outputs."""

from __future__ import annotations

from math import prod

import torch
from torch import nn
from torch.nn import functional

from hcsfed.errors import SettingError, bad
from hcsfed.registry import Registry

Shape = tuple[int, ...]
MODELS: Registry[nn.Module] = Registry("model")


def logistic(input_shape: Shape, classes: int) -> nn.Module:
    """Multinomial logistic regression, with PyTorch's own random start as in the paper's experiments."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), classes))


def linear(input_shape: Shape, classes: int) -> nn.Module:
    """Least squares without a constant, started at 0; ``classes`` is the number of targets."""
    layer = nn.Linear(prod(input_shape), classes, bias=False)
    nn.init.zeros_(layer.weight)
    return nn.Sequential(nn.Flatten(), layer)


def mlp(input_shape: Shape, classes: int, hidden: int = 50) -> nn.Module:
    """One hidden layer of ReLU."""
    _positive("hidden", "mlp", hidden)
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), hidden), nn.ReLU(), nn.Linear(hidden, classes))


class Cnn(nn.Module):
    """Three 3×3 convolutions of 32, 64 and 64 filters, two max-pools, two fully connected layers.

    1,024 → 64 → classes on CIFAR-10's 3×32×32, as in the paper. Dropout follows both pools and the third convolution,
    and that convolution has no ReLU of its own, as in the public code from which the paper's experiments descend.
    Images under 18 pixels, too small for that, are padded by 1 before each convolution.
    """

    def __init__(self, input_shape: Shape, classes: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.image = input_shape if len(input_shape) == 3 else (1, *input_shape)
        channels, *sides = self.image
        padding = 0 if min(sides) >= 18 else 1
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=padding)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=padding)
        self.conv3 = nn.Conv2d(64, 64, 3, padding=padding)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(dropout)
        trim = 2 - 2 * padding
        left = [((side - trim) // 2 - trim) // 2 - trim for side in sides]
        self.full1 = nn.Linear(64 * prod(left), 64)
        self.full2 = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(-1, *self.image)
        # ReLU after the pool gives what it gives before it, from a quarter of the work.
        x = self.dropout(functional.relu(self.pool(self.conv1(x))))
        x = self.dropout(functional.relu(self.pool(self.conv2(x))))
        x = self.dropout(self.conv3(x))
        logits: torch.Tensor = self.full2(functional.relu(self.full1(x.flatten(1))))
        return logits


def cnn(input_shape: Shape, classes: int, dropout: float = 0.2) -> nn.Module:
    """The paper's convolutional network for CIFAR-10."""
    if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < 4:
        raise SettingError(
            f"model 'cnn' needs images of shape (height, width) or (channels, height, width) of at least 4 pixels, "
            f"got rows of shape {input_shape}"
        )
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise bad("dropout", "model 'cnn'", "a number in [0, 1)", dropout)
    return Cnn(input_shape, classes, float(dropout))


class CharLstm(nn.Module):
    """Characters → logits of the next character at every position."""

    def __init__(self, classes: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(classes, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embed(x))
        logits: torch.Tensor = self.out(states)
        return logits


def char_lstm(input_shape: Shape, classes: int, hidden: int = 100, embedding: int = 8) -> nn.Module:
    """One LSTM layer over character embeddings: next character at every position."""
    _positive("hidden", "char-lstm", hidden)
    _positive("embedding", "char-lstm", embedding)
    if len(input_shape) != 1:
        raise SettingError(f"model 'char-lstm' needs rows that are sequences of characters, got shape {input_shape}")
    return CharLstm(classes, embedding, hidden)


def _positive(option: str, model: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise bad(option, f"model {model!r}", "an int ≥ 1", value)


MODELS.add("logistic", logistic)
MODELS.add("linear", linear)
MODELS.add("mlp", mlp)
MODELS.add("cnn", cnn)
MODELS.add("char-lstm", char_lstm)
