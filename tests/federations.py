"""Small federations by hand, for tests that are not about data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hcsfed.types import Federation


def images(sizes: Sequence[int], shape: tuple[int, ...] = (12,), classes: int = 5, seed: int = 0) -> Federation:
    """uint8 noise with labels, scaled and shifted on use."""
    draw = np.random.default_rng(seed)
    rows = sum(sizes)
    x = draw.integers(0, 256, (rows, *shape)).astype(np.uint8)
    return federation(sizes, x, draw.integers(0, classes, rows).astype(np.uint8), classes, scale=1 / 255, shift=-0.3)


def texts(sizes: Sequence[int], length: int = 7, classes: int = 9, seed: int = 0) -> Federation:
    """Rows of characters, each row's targets the next ones."""
    text = np.random.default_rng(seed).integers(0, classes, (sum(sizes), length + 1)).astype(np.uint8)
    return federation(sizes, text[:, :-1].copy(), text[:, 1:].copy(), classes)


def lines(sizes: Sequence[int], inputs: int = 4, seed: int = 0) -> Federation:
    """Least squares with noise."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(sum(sizes), inputs)).astype(np.float32)
    y = (x @ draw.normal(size=(inputs, 1)) + draw.normal(size=(len(x), 1))).astype(np.float32)
    return federation(sizes, x, y, 0, task="regression")


def federation(sizes: Sequence[int], x: Any, y: Any, classes: int, **options: Any) -> Federation:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    weights = np.diff(offsets) / len(x)
    return Federation("small", x, y, offsets, x[:40], y[:40], weights, classes, **options)
