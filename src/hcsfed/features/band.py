"""The last percents of a grouping of numbers on a line: all edges at once, each within a few points of where it is.

Lloyd's iterations move one edge by what its two groups say and stop early: with ten numbers to a group, a tenth above
the optimum. The exact dynamic programme, with every edge kept within a band around its place, finds what many edges
have to gain by moving together, in time that grows with the number of groups alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.jit import compiled
from hcsfed.types import Floats

_WIDTH = 8
"""How many points an edge may move, either way; a power of two."""


def refine(points: NDArray[Any], below: Floats, moment: Floats, centres: Floats) -> Floats:
    """Ascending centres of less inertia; ``below`` and ``moment`` are the prefix sums of the masses and mass·point."""
    edges = np.concatenate([[0], np.searchsorted(points, (centres[1:] + centres[:-1]) / 2), [len(points)]])
    filled = np.flatnonzero(np.diff(edges))  # the others have no number to give away, and stay where they are
    edges = np.append(edges[filled], len(points))
    middle = float(points[len(points) // 2])  # sums around the middle keep their digits
    shifted = moment - middle * below
    compiled(_band)(below, shifted, edges, _WIDTH)
    better = centres.copy()
    better[filled] = np.diff(shifted[edges]) / np.diff(below[edges]) + middle
    return np.sort(better)


def _band(below: Any, moment: Any, edges: Any, width: int) -> None:
    """Move the inner edges to where the inertia is least, each by at most ``width``.

    What is least over a is Σ −(moment of a group)²/(its mass), the inertia up to a constant. The best begin of a group
    grows with its end, so ends are taken coarse to fine, each between the begins of its two neighbours.
    """
    groups, span = len(edges) - 1, 2 * width + 1
    n = edges[groups]
    came = np.zeros((groups + 1, span), np.int64)
    cost = np.full(span, np.inf)
    cost[width] = 0.0
    for j in range(1, groups + 1):
        least = np.full(span, np.inf)
        step = 2 * width
        while step >= 1:
            outermost = step == 2 * width
            for b in range(0 if outermost else step, span, step if outermost else 2 * step):
                low = 0 if outermost else came[j, b - step]
                high = span - 1 if outermost else came[j, b + step]
                end = edges[j] + b - width
                came[j, b] = high if end > n else low
                if end > n:
                    continue
                for a in range(low, high + 1):
                    begin = edges[j - 1] + a - width
                    if begin >= end:
                        break
                    if cost[a] == np.inf:
                        continue
                    held = moment[end] - moment[begin]
                    total = cost[a] - held * held / (below[end] - below[begin])
                    if total < least[b]:
                        least[b] = total
                        came[j, b] = a
            step //= 2
        cost = least
    b = width  # the last edge stays
    for j in range(groups, 0, -1):
        edges[j] += b - width
        b = came[j, b]
