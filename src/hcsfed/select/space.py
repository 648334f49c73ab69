"""Clients in space: the directions in which they differ most, and cells of neighbours, for up to millions of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.types import Features, Floats, Ints

_SAMPLE = 4096
_GAPS = 1024


def leading(x: Features, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Coordinates of the rows along the ``count`` directions of largest variance, about the mean.

    Of many rows a sample finds the directions; subspace iteration finds them to well within what sampling blurs.
    """
    n, k = x.shape
    sample = x if n <= _SAMPLE else x[np.sort(rng.choice(n, _SAMPLE, replace=False, shuffle=False))]
    middle = sample.mean(axis=0, dtype=np.float64)
    spread = sample - middle
    largest = float(np.abs(spread).max(initial=0.0))
    if largest == 0:
        return np.zeros((n, min(count, k)), x.dtype)
    spread = spread / largest
    if min(spread.shape) <= 128:
        basis = np.linalg.svd(spread, full_matrices=False)[2][:count].T
    else:
        basis = rng.normal(size=(k, min(count + 8, k)))
        for _ in range(4):
            basis = np.linalg.qr(spread.T @ (spread @ basis))[0]
        turn = np.linalg.svd(spread @ basis, full_matrices=False)[2]
        basis = basis @ turn[:count].T
    basis = basis / largest
    return np.asarray(x @ basis.astype(x.dtype) - (middle @ basis).astype(x.dtype))


def cells(points: NDArray[Any], size: int) -> tuple[Ints, int]:
    """An order of the points in which every stretch of the returned length is a cell of at most ``size`` neighbours.

    Cells are cut along their widest coordinate until they are small enough (a k-d tree, Bentley 1975): large ones at
    the median, small ones at the widest gap about it, which goes round clusters rather than through. Cells that lie
    next to each other in the order share most of the tree. Cells shorter than the longest are filled up with −1.
    """
    done: list[Ints] = []
    waiting = [np.arange(len(points))]
    points = points if points.shape[1] else np.zeros((len(points), 1))
    while waiting:
        part = waiting.pop()
        if len(part) <= size:
            done.append(part)
            continue
        at = points[part]
        values = at[:, int(np.argmax(np.ptp(at, axis=0)))]
        if len(part) > _GAPS:
            cut = len(part) // 2
            order = np.argpartition(values, cut)
        else:
            order = np.argsort(values, kind="stable")
            least = max(1, len(part) // 4)
            cut = least + int(np.argmax(np.diff(values[order])[least - 1 : len(part) - least]))
        waiting += [part[order[cut:]], part[order[:cut]]]
    length = max(len(part) for part in done)
    filled = np.full((len(done), length), -1)
    for row, part in zip(filled, done, strict=True):
        row[: len(part)] = part
    return filled.reshape(-1), length


def chances_of(kind: str, weights: Floats, norms: Floats | None) -> Floats:
    """What a balanced design's inclusion probabilities are proportional to."""
    if kind == "equal":
        return np.ones(len(weights))
    if kind == "weight" or norms is None:
        return weights
    # No client is left with less than a tenth of an even share: its weight would be without bound.
    telling = weights * norms
    return telling + 0.1 * weights * max(float(telling.sum()), np.finfo(float).tiny)
