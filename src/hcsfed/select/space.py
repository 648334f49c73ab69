"""Clients in space: the directions in which they differ most, and cells of neighbours, for up to millions of them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.jit import compiled
from hcsfed.types import Features, Floats, Ints

_SAMPLE = 4096
_GAPS = 1024
_PARTS = 16


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
        basis = _directions(spread)[:, :count]
    else:
        basis = rng.normal(size=(k, min(count + 8, k)))
        for _ in range(4):
            basis = np.linalg.qr(spread.T @ (spread @ basis))[0]
        turn = np.linalg.svd(spread @ basis, full_matrices=False)[2]
        basis = basis @ turn[:count].T
    basis = basis / largest
    return np.asarray(x @ basis.astype(x.dtype) - (middle @ basis).astype(x.dtype))


def _directions(spread: NDArray[Any]) -> NDArray[Any]:
    """All directions, by the eigenvectors of the smaller of the two Gram matrices: a tenth of the time of the SVD."""
    rows, width = spread.shape
    if width <= rows:
        return np.asarray(np.linalg.eigh(spread.T @ spread)[1][:, ::-1])
    values, vectors = np.linalg.eigh(spread @ spread.T)
    told = values > 1e-14 * values[-1]  # the rest is rounding
    return np.asarray((spread.T @ (vectors[:, told] / np.sqrt(values[told])))[:, ::-1])


def cells(points: NDArray[Any], size: int) -> tuple[Ints, int]:
    """An order of the points in which every stretch of the returned length is a cell of at most ``size`` neighbours.

    Cells are cut along their widest coordinate until they are small enough (a k-d tree, Bentley 1975): large ones at
    the median, small ones at the widest gap about it, which goes round clusters rather than through. Cells that lie
    next to each other in the order share most of the tree. Cells shorter than the longest are filled up with −1.
    """
    n = len(points)
    points = np.ascontiguousarray(points if points.shape[1] else np.zeros((n, 1)))
    order, begins = np.arange(n), np.zeros(n + 1, np.bool_)
    begins[[0, n]] = True
    cut = compiled(_cut)
    cut(points, order, begins[:-1], max(size, n // _PARTS), _GAPS)
    # The same tree, in parts that cores share; a part is cut as it would be alone.
    coarse = np.flatnonzero(begins)
    parts = [slice(a, b) for a, b in pairwise(coarse.tolist())]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda part: cut(points, order[part], begins[:-1][part], size, _GAPS), parts))
    edges = np.flatnonzero(begins)
    lengths = np.diff(edges)
    length = int(lengths.max())
    filled = np.full(len(lengths) * length, -1)
    filled[np.arange(n) + np.repeat(np.arange(len(lengths)) * length - edges[:-1], lengths)] = order
    return filled, length


def _cut(points: Any, order: Any, begins: Any, size: int, gaps: int) -> None:
    """Put ``order`` into cells in place, and mark where each begins; ``order`` names the points of this part."""
    n, width = len(order), points.shape[1]
    waiting = [(0, n)]
    while len(waiting) > 0:
        low, high = waiting.pop()
        begins[low] = True
        count = high - low
        if count <= size:
            continue
        axis, widest = 0, -1.0
        stride = max(1, count // 1024)  # of many points, some tell the widest coordinate
        for j in range(width):
            least = most = points[order[low], j]
            for i in range(low, high, stride):
                value = points[order[i], j]
                least = min(least, value)
                most = max(most, value)
            if most - least > widest:
                axis, widest = j, most - least
        values = np.empty(count, points.dtype)
        for i in range(count):
            values[i] = points[order[low + i], axis]
        if count > gaps:
            middle = count // 2
            left, right = 0, count - 1
            while left < right:  # Hoare's selection
                pivot = values[(left + right) // 2]
                i, j = left, right
                while i <= j:
                    while values[i] < pivot:
                        i += 1
                    while values[j] > pivot:
                        j -= 1
                    if i <= j:
                        values[i], values[j] = values[j], values[i]
                        order[low + i], order[low + j] = order[low + j], order[low + i]
                        i += 1
                        j -= 1
                if middle <= j:
                    right = j
                elif middle >= i:
                    left = i
                else:
                    break
        else:
            by_value = np.argsort(values)
            held = order[low:high].copy()
            for i in range(count):
                order[low + i] = held[by_value[i]]
            fewest = max(1, count // 4)
            middle, gap = fewest, -1.0
            for i in range(fewest, count - fewest + 1):
                apart = values[by_value[i]] - values[by_value[i - 1]]
                if apart > gap:
                    middle, gap = i, apart
        waiting.append((low + middle, high))
        waiting.append((low, low + middle))


def chances_of(kind: str, weights: Floats, norms: Floats | None) -> Floats:
    """What a balanced design's inclusion probabilities are proportional to."""
    if kind == "equal":
        return np.ones(len(weights))
    if kind == "weight" or norms is None:
        return weights
    # No client is left with less than a tenth of an even share: its weight would be without bound.
    telling = weights * (norms / (float(norms.max()) or 1.0))  # sums of huge claims must not overflow
    return telling + 0.1 * weights * max(float(telling.sum()), np.finfo(float).tiny)
