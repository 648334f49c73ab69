"""k-means of numbers on a line: the inner part of gradient compression, for up to tens of millions of them.

Sorted numbers need no distances: a group is a stretch between two edges, and prefix sums give its mean at once. A
million numbers are first put into some ten thousand bins that follow the tails, either runs of the sorted numbers or a
histogram over the leading bits of a float; from there on bins and single numbers are treated alike, as points with
masses.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.features.band import refine
from hcsfed.jit import compiled
from hcsfed.types import Floats, Ints

Start = Literal["density", "quantile", "random"]
STARTS: tuple[Start, ...] = ("density", "quantile", "random")

_RUNS = 4
"""Runs per group, per factor e of the distance from the end of the sorted numbers: 20 or more runs in every group."""

_FEW = 40
"""Numbers per group up to which each is a point of its own."""

_KNOTS = 16
"""Knots per group at which the density of the points is taken for the start."""

_SHIFT, _GROUPS = 14, 1_000
"""Bits of a float32 that a bin does without where so many groups are wanted: bins are then no wider than 1/512 of their
value, whatever the tails. For twice as many groups, one bit fewer."""

_SHARED = 1 << 20
"""From so many numbers on, all cores count."""

_EXCHANGES = 4

_REFINED = 500_000
"""Up to so many numbers the last percents are sought; beyond, that would take longer than sorting them."""


def group(
    points: NDArray[Any], masses: NDArray[Any] | None, groups: int, start: Start, rng: np.random.Generator
) -> Floats:
    """Centres of ``groups`` groups of ascending ``points``, ascending.

    ``start`` is where Lloyd's iterations begin: at random points (as Alg. 3 prints it), at even quantiles, or with as
    many centres to a stretch as the cube root of its density says, the best for many groups (Panter & Dite 1951). The
    first two stop in a poor place when tails are long. After the third, groups are joined and taken apart as long as it
    pays.
    """
    if len(points) <= groups:
        return np.append(points, np.full(groups - len(points), points[-1])).astype(np.float64)
    below = np.zeros(len(points) + 1)
    moment = np.zeros(len(points) + 1)
    if masses is None:
        below[1:] = np.arange(1, len(points) + 1)
        np.cumsum(points, dtype=np.float64, out=moment[1:])
    else:
        np.cumsum(masses, out=below[1:])
        np.cumsum(points * masses, dtype=np.float64, out=moment[1:])
    lloyd = compiled(_lloyd)
    if start != "density":
        ranks = np.sort(rng.choice(int(below[-1]), groups, replace=False, shuffle=False)) if start == "random" else None
        centres = _at_ranks(points, below, groups, ranks)
        lloyd(points, below, moment, centres, 50)
        return _held(points, centres)
    centres = _by_density(points, below, groups)
    for _ in range(_EXCHANGES):
        lloyd(points, below, moment, centres, 5)
        exchanged = _exchange(points, below, moment, centres)
        if exchanged is None:
            break
        centres = exchanged
    lloyd(points, below, moment, centres, 5)
    if below[-1] <= _REFINED:
        centres = refine(points, below, moment, centres)
    return _held(points, centres)


def _held(points: NDArray[Any], centres: Floats) -> Floats:
    """The centres, those without points (of numbers that are often equal) put where the one below them is."""
    edges = np.concatenate([[0], np.searchsorted(points, (centres[1:] + centres[:-1]) / 2), [len(points)]])
    held = np.flatnonzero(np.diff(edges) > 0)
    return np.asarray(centres[held[np.maximum(np.searchsorted(held, np.arange(len(centres)), "right") - 1, 0)]])


def _at_ranks(points: NDArray[Any], below: Floats, groups: int, ranks: Ints | None) -> Floats:
    """The points at these ranks, or at evenly spread ones."""
    at = (np.arange(groups) + 0.5) / groups * below[-1] if ranks is None else ranks
    return np.asarray(points[np.searchsorted(below, at, side="right") - 1], np.float64)


def _by_density(points: NDArray[Any], below: Floats, groups: int) -> Floats:
    n = len(points)
    step, ends = max(1, n // (_KNOTS * groups)), min(n // 2, groups)
    knots = np.concatenate([np.arange(ends), np.arange(ends, n - ends, step), np.arange(n - ends, n)])
    at = points[knots].astype(np.float64)
    wish = np.cbrt(np.diff(below[knots + 1]) * np.diff(at) ** 2)  # density^⅓ · width
    room = np.diff(knots).astype(np.float64)  # points further out than their neighbours need one centre, not many
    share = np.zeros_like(wish)
    for _ in range(20):
        free = share < room
        left = groups - room[~free].sum()
        if left <= 0 or not wish[free].any():
            break
        before, share = share, np.minimum(np.where(free, wish * (left / wish[free].sum()), room), room)
        if (share == before).all():
            break
    climb = np.concatenate([[0.0], np.cumsum(share)])
    if climb[-1] <= 0:
        return np.full(groups, at[0])
    return np.asarray(np.interp((np.arange(groups) + 0.5) / groups * climb[-1], climb, at))


def _lloyd(points: Any, below: Any, moment: Any, centres: Any, iterations: int) -> None:
    """Move each centre to the mean of the points nearer to it than to its neighbours; one without points stays."""
    n, groups = len(points), len(centres)
    for _ in range(iterations):
        moved = False
        first = 0
        for j in range(groups):
            last = n
            if j + 1 < groups:
                middle = (centres[j] + centres[j + 1]) / 2
                # The next edge is seldom far: leap in doubling steps, then halve.
                low, leap = first, 1
                while low + leap <= n and points[low + leap - 1] < middle:
                    low += leap
                    leap *= 2
                high = min(low + leap, n)
                while low < high:
                    half = (low + high) // 2
                    if points[half] < middle:
                        low = half + 1
                    else:
                        high = half
                last = low
            if last > first:
                mean = (moment[last] - moment[first]) / (below[last] - below[first])
                if mean != centres[j]:
                    moved = True
                    centres[j] = mean
            first = last
        if not moved:
            break


def _exchange(points: NDArray[Any], below: Floats, moment: Floats, centres: Floats) -> Floats | None:
    """Join neighbouring groups where that costs less than taking another apart gains; None where nothing pays."""
    edges = np.concatenate([[0], np.searchsorted(points, (centres[1:] + centres[:-1]) / 2), [len(points)]])
    inner = np.clip(np.searchsorted(points, centres), edges[:-1], edges[1:])
    left, right = below[inner] - below[edges[:-1]], below[edges[1:]] - below[inner]
    mass = left + right
    low = (moment[inner] - moment[edges[:-1]]) / np.maximum(left, 1)
    high = (moment[edges[1:]] - moment[inner]) / np.maximum(right, 1)
    gain = left * right / np.maximum(mass, 1) * (high - low) ** 2
    pooled = np.maximum(mass[1:] + mass[:-1], 1)
    cost = mass[1:] * mass[:-1] / pooled * np.diff(centres) ** 2
    fence = np.concatenate([[np.inf], cost, [np.inf]])
    cheap = np.flatnonzero((cost < fence[:-2]) & (cost <= fence[2:]))  # no two of these share a group
    cheap = cheap[np.argsort(cost[cheap], kind="stable")]
    rich = np.argsort(-gain, kind="stable")[: len(cheap)]
    joined = cheap[: int(np.argmin(np.append(gain[rich] > cost[cheap], False)))]
    busy = np.zeros(len(centres), bool)
    busy[joined] = busy[joined + 1] = True
    apart = rich[: len(joined)]
    apart = apart[~busy[apart]]
    if not len(apart):
        return None
    joined = joined[: len(apart)]
    means = (mass[joined] * centres[joined] + mass[joined + 1] * centres[joined + 1]) / pooled[joined]
    means = np.where(mass[joined] + mass[joined + 1] > 0, means, centres[joined])
    stay = np.ones(len(centres), bool)
    stay[joined] = stay[joined + 1] = stay[apart] = False
    return np.sort(np.concatenate([centres[stay], means, low[apart], high[apart]]))


def runs(ordered: NDArray[Any], groups: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Sorted numbers as means and lengths of runs: one number each at both ends, longer ones inwards.

    A run is 1/(4·groups) as long as its distance from the nearer end, so that a group in the tails, where a few numbers
    decide the inertia, is resolved like one in the middle. Few numbers are left as they are.
    """
    n = len(ordered)
    scale = _RUNS * groups
    steps = int(scale * np.log1p(n / 2 / scale))
    if n < max(4 * steps, _FEW * groups):
        return ordered, None
    half = (scale * np.expm1(np.arange(steps) / scale)).astype(np.int64)
    firsts = np.concatenate([half[half <= n // 2], n - 1 - half[::-1]])
    firsts = firsts[np.diff(firsts, prepend=-1) > 0]
    lengths = np.diff(np.append(firsts, n))
    means = np.empty(len(firsts))
    compiled(_means)(ordered, np.append(firsts, n), means)
    return means, lengths


def _means(ordered: Any, edges: Any, means: Any) -> None:
    for j in range(len(means)):
        total = 0.0
        for i in range(edges[j], edges[j + 1]):
            total += ordered[i]
        means[j] = total / (edges[j + 1] - edges[j])


def histogram(values: NDArray[np.float32], groups: int = 2 * _GROUPS) -> tuple[Floats, Ints]:
    """Midpoints and counts of the bins that hold a number, ascending; no sort, no search for the range.

    The leading bits of a float are its sign, exponent and first digits: read as an integer they number bins that are
    even within a power of two and so follow any tails. Bins are fine enough for so many ``groups``. Where a number is
    not finite, neither is the first or the last midpoint.
    """
    shift = np.uint32(_SHIFT - min(max(groups - 1, 0) // _GROUPS, 4).bit_length())
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    counts = _counts(bits, shift)
    full = np.flatnonzero(counts)
    signs = np.searchsorted(full, len(counts) // 2)  # negative numbers stand last, the smallest at the very end
    full = np.concatenate([full[signs:][::-1], full[:signs]])
    low = full.astype(np.uint32) << shift
    high = low | (np.uint32(1 << int(shift)) - np.uint32(1))
    with np.errstate(invalid="ignore"):
        ends = low.view(np.float32).astype(np.float64), high.view(np.float32).astype(np.float64)
        points = np.where(ends[0] == 0, 0.0, (ends[0] + ends[1]) / 2)
    return points, counts[full].astype(np.int64)


def _counts(bits: NDArray[np.uint32], shift: np.uint32) -> NDArray[np.int32]:
    def part(some: NDArray[np.uint32]) -> NDArray[np.int32]:
        counts = np.zeros(1 << (32 - int(shift)), np.int32)
        compiled(_count)(some, counts, shift)
        return counts

    cores = min(os.cpu_count() or 1, 8)
    if cores == 1 or len(bits) < _SHARED:
        return part(bits)
    with ThreadPoolExecutor(cores) as pool:
        return np.asarray(np.sum(list(pool.map(part, np.array_split(bits, cores))), axis=0, dtype=np.int32))


def _count(bits: Any, counts: Any, shift: Any) -> None:
    for i in range(len(bits)):
        counts[bits[i] >> shift] += 1
