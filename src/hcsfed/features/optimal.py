"""The best grouping of numbers on a line: an exact dynamic programme, to compare others with.

With C[j, i] the least inertia of the first i numbers in j groups, C[j, i] = min over s of C[j−1, s] + inertia(s … i),
and the best s grows with i: dividing and conquering over i takes O(j·i·log i) steps (as in Wang & Song,
"Ckmeans.1d.dp", The R Journal 2011, and Grønlund et al., arXiv:1701.07204).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.jit import compiled
from hcsfed.types import Floats

_CELLS = 500_000_000


def optimal(ordered: NDArray[Any], groups: int) -> Floats:
    """Centres of the grouping of least inertia of ascending numbers, ascending."""
    n = len(ordered)
    if n <= groups:
        return np.append(ordered, np.full(groups - n, ordered[-1])).astype(np.float64)
    if n * groups > _CELLS:
        raise bad("exact", "gc", f"False where d·d′ > {_CELLS:,}", True, "the usual start is within 8 % of it")
    middle = float(np.median(ordered))  # sums around the middle keep their digits
    values = ordered.astype(np.float64) - middle
    moment = np.concatenate([[0.0], np.cumsum(values)])
    square = np.concatenate([[0.0], np.cumsum(values**2)])
    firsts = np.zeros((groups, n + 1), np.int32)
    compiled(_programme)(moment, square, firsts)
    edges = [n]
    for row in firsts[::-1]:
        edges.append(int(row[edges[-1]]))
    cut = np.array(edges[::-1])
    return np.asarray(np.diff(moment[cut]) / np.diff(cut) + middle)


def _programme(moment: Any, square: Any, firsts: Any) -> None:
    """Fill ``firsts[j, i]``: where the last of j + 1 groups over the first i numbers begins."""
    groups, n = firsts.shape[0], firsts.shape[1] - 1
    cost = np.zeros(n + 1)
    for i in range(1, n + 1):
        cost[i] = square[i] - moment[i] * moment[i] / i
    stack = np.empty((256, 4), np.int64)
    for j in range(1, groups):
        better = np.full(n + 1, np.inf)
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = j + 1, n, j, n - 1
        top = 1
        while top > 0:
            top -= 1
            low, high, left, right = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
            i = (low + high) // 2
            first = left
            for s in range(left, min(right, i - 1) + 1):
                sum_ = moment[i] - moment[s]
                total = cost[s] + square[i] - square[s] - sum_ * sum_ / (i - s)
                if total < better[i]:
                    better[i] = total
                    first = s
            firsts[j, i] = first
            if low < i:
                stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = low, i - 1, left, first
                top += 1
            if i < high:
                stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = i + 1, high, first, right
                top += 1
        cost = better
