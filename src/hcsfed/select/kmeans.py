"""Lloyd's k-means (Alg. 1 of the HCSFed paper), for a hundred clients in a millisecond and a million within a second.

Departures from the text: the start is greedy k-means++ (Arthur & Vassilvitskii 2007) in place of H random clients; a
cluster that runs empty takes the client that lies farthest from its centre; of many clients a random sample finds the
centres and the rest are assigned to them (as faiss does by default). All of it is two matrix products in NumPy: at the
paper's sizes a library call costs more than the clustering, at a million clients the product is what takes the time.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.jit import compiled
from hcsfed.select.allocation import group_sums
from hcsfed.types import Floats, Ints

_SAMPLE = 256
"""Clients per cluster that find the centres; more of them move the centres by less than the spread of a cluster."""

_SAMPLE_ITERATIONS = 12
"""Later ones lower the inertia of the sample by under 1 %, which the other clients don't notice."""

_SMALL = 20_000
"""Up to this many clients all take part in finding the centres."""

_ROWS = 4096

_COMPILED = 1 << 27
"""Below so many products a library call is done before a kernel is loaded."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """A partition: ``labels[k]`` in 0 … H−1, every cluster with at least one member, and the H centres."""

    labels: Ints
    centres: NDArray[Any]
    inertia: float

    @property
    def count(self) -> int:
        """H as found: at most the number of distinct clients."""
        return len(self.centres)


def kmeans(
    x: NDArray[Any], clusters: int, rng: np.random.Generator, *, restarts: int = 2, iterations: int = 50
) -> Clusters:
    """Partition the rows of ``x`` into at most ``clusters`` clusters; the best of ``restarts`` starts.

    Fewer come out where fewer rows are distinct.
    """
    n = len(x)
    if n == 0 or clusters < 1:
        raise bad("clusters", "k-means", "an int >= 1, of at least one client", (clusters, n))
    small = n <= max(_SMALL, _SAMPLE * clusters)
    sample = x if small else x[np.sort(rng.choice(n, _SAMPLE * clusters, replace=False, shuffle=False))]
    middle = sample.mean(axis=0, dtype=np.float64)
    # Distances are taken as ‖x‖² − 2x·c + ‖c‖²: around the middle, and in doubles while that is cheap, nothing cancels.
    dtype = np.float64 if sample.size <= 1 << 20 else np.float32
    points = (sample - middle).astype(dtype)
    largest = float(np.abs(points).max(initial=0.0))
    if largest > 0:
        points /= largest  # squares of huge or tiny features neither overflow nor vanish
    tries = 2 + int(np.log(clusters)) if small else 1
    runs = [
        _lloyd(points, _start(points, min(clusters, n), tries, rng), iterations if small else _SAMPLE_ITERATIONS)
        for _ in range(restarts if small else 1)
    ]
    labels, centres, inertia = min(runs, key=lambda run: run[2])
    unit = largest if largest > 0 else 1.0
    centres = centres * unit + middle
    if small:
        return Clusters(labels, centres, inertia * unit**2)
    labels, gaps = _nearest(x, centres.astype(x.dtype))
    used, labels = np.unique(labels, return_inverse=True)
    return Clusters(labels, centres[used], float(gaps.sum(dtype=np.float64)))


def _start(x: NDArray[Any], clusters: int, tries: int, rng: np.random.Generator) -> NDArray[Any]:
    """k-means++: each centre is the best of a few rows drawn by their squared distance to the centres so far."""
    square = np.einsum("ij,ij->i", x, x)
    first = int(rng.integers(len(x)))
    chosen = [first]
    gap = _gap(x, square, x[[first]])[:, 0]
    gap[first] = 0.0
    noise = 1e-12 if x.dtype == np.float64 else 1e-6
    while len(chosen) < clusters:
        gap[gap <= noise * square.max()] = 0.0  # rows equal to a centre, up to rounding
        edges = np.cumsum(gap)
        if edges[-1] <= 0:
            break  # no distinct row is left
        drawn = np.minimum(np.searchsorted(edges, rng.random(tries) * edges[-1], side="right"), len(x) - 1)
        closer = np.minimum(gap[:, None], _gap(x, square, x[drawn]))
        best = int(np.argmin(closer.sum(axis=0)))
        chosen.append(int(drawn[best]))
        gap = closer[:, best]
        gap[chosen] = 0.0
    return x[chosen]


def _gap(x: NDArray[Any], square: NDArray[Any], centres: NDArray[Any]) -> NDArray[Any]:
    gap = square[:, None] - 2 * (x @ centres.T) + np.einsum("ij,ij->i", centres, centres)
    return np.asarray(np.maximum(gap, 0, out=gap))


def _lloyd(x: NDArray[Any], centres: NDArray[Any], iterations: int) -> tuple[Ints, NDArray[Any], float]:
    labels = np.full(len(x), -1)
    for _ in range(iterations):
        before = labels
        labels, gaps = _nearest(x, centres)
        members = np.bincount(labels, minlength=len(centres))
        for empty in np.flatnonzero(members == 0):
            far = int(np.argmax(np.where(members[labels] > 1, gaps, -1)))
            members[labels[far]] -= 1
            labels[far], gaps[far], members[empty] = empty, 0, 1
        if (labels == before).all():
            break
        centres = (group_sums(x, labels, len(centres)) / members[:, None]).astype(x.dtype)
    return labels, centres, float(gaps.sum(dtype=np.float64))


def _nearest(x: NDArray[Any], centres: NDArray[Any]) -> tuple[Ints, Floats]:
    """The nearest centre of each row and the squared distance to it."""
    labels, gaps = np.empty(len(x), np.int64), np.empty(len(x), x.dtype)
    half = (np.einsum("ij,ij->i", centres, centres) / 2).astype(x.dtype)
    assign = compiled(_assign)
    if assign is _assign or len(x) * centres.size < _COMPILED:
        _assign_by_products(x, centres, half, labels, gaps)
    else:
        turned = np.ascontiguousarray(centres.T)
        blocks = range(0, len(x), max(_ROWS, -(-len(x) // (os.cpu_count() or 1))))
        with ThreadPoolExecutor(len(blocks)) as pool:
            ends = [slice(start, start + blocks.step) for start in blocks]
            list(pool.map(lambda rows: assign(x[rows], turned, half, labels[rows], gaps[rows]), ends))
    return labels, np.maximum(gaps, 0)


def _assign_by_products(
    x: NDArray[Any], centres: NDArray[Any], half: NDArray[Any], labels: Ints, gaps: NDArray[Any]
) -> None:
    """By NumPy alone, a block of rows at a time."""
    turned = np.ascontiguousarray(centres.T)
    for start in range(0, len(x), _ROWS):
        rows = x[start : start + _ROWS]
        score = half - rows @ turned
        best = score.argmin(axis=1)
        labels[start : start + _ROWS] = best
        gaps[start : start + _ROWS] = 2 * score[np.arange(len(rows)), best] + np.einsum("ij,ij->i", rows, rows)


def _assign(x: Any, turned: Any, half: Any, labels: Any, gaps: Any) -> None:
    """Row by row, the scores never leaving the nearest cache: twice as fast as products that write them out."""
    width, count = turned.shape
    score = np.empty(count, x.dtype)
    for i in range(len(x)):
        square = x[i, 0] * 0
        for c in range(count):
            score[c] = half[c]
        for j in range(0, width - 3, 4):
            p, q, r, s = x[i, j], x[i, j + 1], x[i, j + 2], x[i, j + 3]
            square += p * p + q * q + r * r + s * s
            for c in range(count):
                score[c] -= p * turned[j, c] + q * turned[j + 1, c] + r * turned[j + 2, c] + s * turned[j + 3, c]
        for j in range(width - width % 4, width):
            p = x[i, j]
            square += p * p
            for c in range(count):
                score[c] -= p * turned[j, c]
        best = 0
        for c in range(1, count):
            if score[c] < score[best]:
                best = c
        labels[i] = best
        gaps[i] = 2 * score[best] + square
