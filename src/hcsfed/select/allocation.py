"""How many of the m places each cluster gets: eq. 6 of the HCSFed paper, and what it leaves open.

=============  ===================  ==================================================================================
proportional   m_h ∝ N_h            as in App. B for plain clustering
eq6            m_h ∝ N_h·S_h        S_h the mean squared distance between two members, as eq. 6 prints it
neyman         m_h ∝ N_h·√(S_h/2)   the standard deviation, as the proof in App. B needs it (Neyman 1934)
=============  ===================  ==================================================================================
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hcsfed.errors import bad
from hcsfed.types import Floats, Ints

Rule = Literal["proportional", "eq6", "neyman"]
RULES: tuple[Rule, ...] = ("proportional", "eq6", "neyman")

_ROWS = 8192


def places(rule: Rule, x: NDArray[Any], labels: Ints, m: int) -> Ints:
    """m_h for the clusters of ``labels`` over the feature vectors ``x`` (one row per client)."""
    members = np.bincount(labels)
    if rule == "proportional":
        return allocate(members, members, m)
    s = variability(x, labels)
    return allocate(members * (s if rule == "eq6" else np.sqrt(s / 2)), members, m)


def variability(x: NDArray[Any], labels: Ints) -> Floats:
    """S_h of eq. 6: the mean of ‖X_i − X_j‖² over the pairs of a cluster; 0 for a single member.

    Eq. 6 leaves i open; over all i the mean is twice the variance, 2·Σ‖X_i − X̄_h‖²/(N_h − 1), in one pass.
    """
    members = np.bincount(labels)
    means = group_sums(x, labels, len(members)) / np.maximum(members, 1)[:, None]
    deviation = np.zeros(len(members))
    for start in range(0, len(labels), _ROWS):
        rows = slice(start, start + _ROWS)
        gap = x[rows] - means[labels[rows]]  # in doubles: squares of what a float32 may hold don't overflow
        deviation += np.bincount(labels[rows], np.einsum("ij,ij->i", gap, gap), len(members))
    return 2 * deviation / np.maximum(members - 1, 1)


def group_sums(x: NDArray[Any], labels: Ints, groups: int) -> Floats:
    """The sum of the rows of each group, a block of rows at a time, without a copy of ``x``."""
    total = np.zeros((groups, x.shape[1]))
    for start in range(0, len(labels), _ROWS):
        of = labels[start : start + _ROWS]
        member = sparse.csc_array((np.ones(len(of)), of, np.arange(len(of) + 1)), shape=(groups, len(of)))
        total += member @ x[start : start + _ROWS]
    return total


def allocate(shares: ArrayLike, capacity: ArrayLike, m: int) -> Ints:
    """Integers m_h ∝ shares with Σm_h = m and m_h ≤ capacity_h, by largest remainder.

    Every cluster that has members gets at least one place while m allows: one that is skipped can't be weighted for, so
    skipping it would be bias (a cluster of one client has S_h = 0 and would be skipped always). Shares that are all 0
    count as the capacities.
    """
    capacity = np.asarray(capacity, np.int64)
    asked = np.asarray(shares, np.float64)
    if not 0 <= m <= capacity.sum():
        raise bad("m", "the allocation", f"in [0, {capacity.sum()}]", m)
    if not np.isfinite(asked).all() or (asked < 0).any():
        raise bad("shares", "the allocation", "finite and >= 0", "others")
    wish = np.where(capacity > 0, asked / max(float(asked.max(initial=0.0)), np.finfo(float).tiny), 0.0)
    if not wish.any():
        wish = capacity / max(int(capacity.sum()), 1)
    floor = (capacity > 0).astype(np.int64) if np.count_nonzero(capacity) <= m else np.zeros_like(capacity)
    wanted = _between(wish, floor, capacity, m)
    whole = np.floor(wanted + 1e-9).astype(np.int64)
    missing = m - int(whole.sum())
    remainder = np.where(whole < capacity, wanted - whole, -1.0)
    whole[np.argsort(-remainder, kind="stable")[:missing]] += 1
    return whole


def _between(shares: Floats, low: Ints, high: Ints, m: int) -> Floats:
    """c·shares cut to [low, high], with the c for which the sum is m; clusters without a share fill up last."""
    wanted = low.astype(np.float64)
    free = np.ones(len(shares), bool)
    while free.any():
        left = m - wanted[~free].sum()
        scale = shares[free].sum()
        # Without a share left to go by, room decides.
        base = shares[free] if scale > 0 else (high - low)[free].astype(np.float64)
        trial = left * base / max(base.sum(), np.finfo(float).tiny)
        cut = np.clip(trial, low[free], high[free])
        excess = cut.sum() - left
        # Those cut on the heavier side are settled; the others share again (Michelot's argument for projections).
        settled = cut > trial if excess > 0 else cut < trial
        ids = np.flatnonzero(free)
        if abs(excess) < 1e-9 or not settled.any():
            wanted[ids] = cut
            break
        wanted[ids[settled]] = cut[settled]
        free[ids[settled]] = False
    return wanted
