"""The folder that every competitor reads (``benchmarks/protocol.py`` says how), and the check of what they computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Parameters = Sequence[NDArray[Any]]


def load(path: Path) -> list[NDArray[Any]]:
    """Parameters p0, p1, …: weight [out, in] and bias [out], layer by layer."""
    with np.load(path) as file:
        return [file[f"p{i}"] for i in range(len(file.files))]


def store(path: Path, parameters: Parameters) -> None:
    np.savez(path, **{f"p{i}": np.asarray(p, np.float32) for i, p in enumerate(parameters)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Score:
    """Mean cross-entropy and accuracy on the test set."""

    loss: float
    accuracy: float


def score(parameters: Parameters, x: NDArray[Any], y: NDArray[Any]) -> Score:
    """Of a stack of linear layers with ReLU between them, by NumPy alone: the same judge for everyone."""
    h = x.reshape(len(x), -1)
    for i in range(0, len(parameters), 2):
        h = h @ parameters[i].T + parameters[i + 1]
        if i + 2 < len(parameters):
            h = np.maximum(h, 0)
    h = h - h.max(axis=1, keepdims=True)
    loss = np.log(np.exp(h).sum(axis=1)) - h[np.arange(len(y)), y]
    return Score(float(loss.mean()), float((h.argmax(axis=1) == y).mean()))


def learned_alike(before: Score, ours: Score, theirs: Score, tolerance: float = 0.1) -> bool:
    """Whether a competitor's averaged model has moved as ours has.

    Minibatches differ, so the losses do too, but by far less than a round of training changes them: a competitor that
    skipped a tenth of its work, or stepped at another rate, is found out.
    """
    return abs(theirs.loss - ours.loss) <= tolerance * abs(before.loss - ours.loss)
