"""Lloyd's k-means (Alg. 1 of the HCSFed paper), for a hundred clients in a millisecond and a million within a second.

Departures from the text: the start is greedy k-means++ (Arthur & Vassilvitskii 2007) in place of H random clients; a
cluster that runs empty takes the client that lies farthest from its centre; of many clients a random sample finds the
centres and the rest are assigned to them (as faiss does by default). All of it is two matrix products in NumPy: at the
paper's sizes a library call costs more than the clustering, at a million clients the product is what takes the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.select.allocation import group_sums
from hcsfed.types import Floats, Ints

_SAMPLE = 256
"""Clients per cluster that find the centres; more of them move the centres by less than the spread of a cluster."""

_SAMPLE_ITERATIONS = 12
"""Later ones lower the inertia of the sample by under 1 %, which the other clients don't notice."""

_SMALL = 20_000
"""Up to this many clients all take part in finding the centres."""

_ROWS = 4096


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
    """The nearest centre of each row and the squared distance to it, a block of rows at a time."""
    labels = np.empty(len(x), np.int64)
    gaps = np.empty(len(x), x.dtype)
    half = np.einsum("ij,ij->i", centres, centres) / 2
    turned = np.ascontiguousarray(centres.T)
    for start in range(0, len(x), _ROWS):
        rows = x[start : start + _ROWS]
        score = half - rows @ turned
        best = score.argmin(axis=1)
        labels[start : start + _ROWS] = best
        gaps[start : start + _ROWS] = 2 * score[np.arange(len(rows)), best] + np.einsum("ij,ij->i", rows, rows)
    return labels, np.maximum(gaps, 0)
