"""Draws: given inclusion probabilities π, who is in the cohort?

Every draw keeps its π exactly. Σπ is the cohort size m, an integer up to rounding wherever the size is fixed. What
tells the draws apart is which pairs may come together:

==========================  ==========  =====================================================================
draw                        fixed size  pairs
==========================  ==========  =====================================================================
:func:`poisson`             no          independent
:func:`systematic`          yes         neighbours in the order given never come together while π is small
:func:`pivotal`             yes         as systematic along an order, with more randomness
:func:`conditional_poisson` yes         as random as π allows (largest entropy); pairs known, :func:`pairs`
==========================  ==========  =====================================================================

Y. Tillé, *Sampling Algorithms*, Springer 2006, describes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.jit import compiled
from hcsfed.types import Bools, Floats, Ints

SURE = 1e-10
"""A probability this close to 0 or 1 is 0 or 1: rounding errors stay far below, real probabilities above."""

_INTERPRETED = 2000
"""Below this many units a plain loop is done before a compiled one is loaded."""

_ENTROPY_UNITS = 500
"""Up to here the draw of largest entropy mostly takes about a millisecond."""

_CLOSE = 1e-10
"""How far the probabilities of a draw may be from what they should be."""


def inclusion(sizes: Floats, m: float) -> Floats:
    """Probabilities π_k = min(1, c·sizes_k) with Σπ = m: proportional to size as far as 1 allows.

    Where fewer than m sizes are positive, those are sure and the rest share what is left evenly; sizes that are all 0
    count as all equal. ``m`` need not be an integer.
    """
    given = sizes = np.asarray(sizes, np.float64)
    n = len(sizes)
    if not 0 <= m <= n:
        raise bad("m", "inclusion probabilities", f"in [0, {n}]", m)
    if not np.isfinite(sizes).all() or (sizes < 0).any():
        raise bad("sizes", "inclusion probabilities", "finite and >= 0", "others")
    largest = float(sizes.max(initial=0.0))
    positive = int(np.count_nonzero(sizes))
    if positive <= m:
        rest = (m - positive) / max(n - positive, 1)
        return np.where(sizes > 0, 1.0, rest)
    sizes = sizes / largest
    # Only the m largest can reach 1. Sums run from the smallest up: taking them off the total would cancel.
    top = min(int(np.ceil(m)), n - 1)
    ordered = np.partition(sizes, n - top - 1)
    head = np.sort(ordered[n - top :])[::-1]
    tail = np.append(np.cumsum(head[::-1])[::-1], 0.0) + ordered[: n - top].sum()
    biggest = np.append(head, ordered[n - top - 1])
    left = m - np.arange(top + 1)
    fits = (left * biggest <= tail) | (left <= 0)
    sure = int(np.argmax(fits))
    if tail[sure] <= m * np.finfo(float).tiny:  # too small to be told from 0 beside the largest: measured by itself
        small = sizes < biggest[max(sure - 1, 0)]
        pi = np.ones(n)
        pi[small] = inclusion(given[small], m - (n - int(small.sum())))
        return pi
    return np.asarray(np.minimum(sizes * (max(float(left[sure]), 0.0) / tail[sure]), 1.0))


def capped(sizes: Floats, max_share: float) -> Floats:
    """Sizes, but for their scale, with none above ``max_share`` of the sum (or an even share, if that is more).

    min(1, c·s) summing to 1/max_share is s cut where it reaches that share. Where too few are positive to share the sum
    out, the rest takes part evenly: a share that nobody else claims still can't be had by claiming.
    """
    return inclusion(sizes, min(1 / max_share, len(sizes))) if max_share < 1 else sizes


def check_share(owner: str, max_share: float) -> None:
    """Refuse what is no share."""
    if not 0 < max_share <= 1:
        raise bad("max_share", owner, "a number in (0, 1]", max_share)


def poisson(pi: Floats, rng: np.random.Generator) -> Ints:
    """Each unit on its own; the cohort's size varies around Σπ."""
    return np.flatnonzero(rng.random(len(pi)) < pi)


def multinomial(shares: Floats, m: int, rng: np.random.Generator) -> Ints:
    """How often each unit comes in m draws with replacement, by ``shares`` (any scale)."""
    edges = np.cumsum(shares)
    hits = np.searchsorted(edges, rng.random(m) * edges[-1], side="right")
    return np.bincount(np.minimum(hits, len(shares) - 1), minlength=len(shares))


def systematic(pi: Floats, rng: np.random.Generator) -> Ints:
    """Points at distance 1 from a random start, along the units laid end to end (Madow 1949), in the order given.

    The ends are rounded to integers, 2⁴⁰ or so to the unit: exactly m distinct units come, whatever floats would do.
    """
    sure = pi >= 1 - SURE
    ends = np.cumsum(np.where(sure, 0.0, pi))
    m = round(float(ends[-1])) if len(ends) else 0
    ids = np.flatnonzero(sure)
    if m == 0:
        return ids
    unit = 1 << min(40, 52 - m.bit_length())
    marks = np.floor(ends * (m * unit / ends[-1])).astype(np.int64)
    marks[-1] = m * unit
    marks[np.flatnonzero(np.diff(ends, prepend=0.0))[-1] :] = m * unit
    points = rng.integers(unit) + unit * np.arange(m, dtype=np.int64)
    return np.union1d(ids, np.searchsorted(marks, points, side="right"))


def pivotal(pi: Floats, rng: np.random.Generator, order: Ints | None = None) -> Ints:
    """Duels between neighbours along ``order`` (a random one by default), until all is decided (Deville & Tillé 1998).

    In a duel two units pool their probabilities: one of them takes all, or is picked and leaves the excess to the
    other. Of a Σπ that is not an integer the fraction decides over one more unit.
    """
    order = rng.permutation(len(pi)) if order is None else order
    chances = np.clip(np.asarray(pi, np.float64), 0.0, 1.0)
    luck = rng.random(len(order))
    if len(order) < _INTERPRETED:
        plain = chances.tolist()
        duels(plain, order.tolist(), luck.tolist(), SURE, len(order))
        chances = np.array(plain)
    else:
        compiled(duels)(chances, order, luck, SURE, len(order))
    return settle(chances, rng)


def settle(chances: Floats, rng: np.random.Generator) -> Ints:
    """Who is in, once at most one is undecided: rounding leaves a hair beside 0 or 1; a fraction is drawn for."""
    hair = 1e-6
    open_ = np.flatnonzero((chances > hair) & (chances < 1 - hair))
    if len(open_):
        chances[open_] = rng.random(len(open_)) < chances[open_]
    return np.flatnonzero(chances > 0.5)


def duels(
    chances: MutableSequence[float], order: Sequence[int], luck: Sequence[float], sure: float, length: int
) -> None:
    """Set chances along ``order`` to 0 or 1, but for at most one in every stretch of ``length`` units."""
    holder = -1
    for step in range(len(order)):
        if step % length == 0:
            holder = -1
        unit = order[step]
        if chances[unit] <= sure or chances[unit] >= 1 - sure:
            continue
        if holder < 0:
            holder = unit
            continue
        a, b = chances[holder], chances[unit]
        pooled = a + b
        if pooled < 1:
            if luck[step] * pooled < a:
                winner, loser = holder, unit
            else:
                winner, loser = unit, holder
            chances[winner] = pooled
            chances[loser] = 0.0
            holder = winner
        else:
            if luck[step] * (2 - pooled) < 1 - b:
                winner, loser = holder, unit
            else:
                winner, loser = unit, holder
            chances[winner] = 1.0
            chances[loser] = pooled - 1
            holder = loser
        if chances[holder] <= sure or chances[holder] >= 1 - sure:
            holder = -1


def conditional_poisson(pi: Floats, rng: np.random.Generator) -> Ints:
    """The design of largest entropy with these π: Poisson draws with other odds until the size fits (Hájek 1964)."""
    ids, m = _undecided(pi)
    sure = np.flatnonzero(pi >= 1 - SURE)
    if m == 0:
        return sure
    chances = _working_chances(pi[ids], m)
    while True:
        tries = rng.random((16, len(ids))) < chances
        fits = np.flatnonzero(tries.sum(axis=1) == m)
        if len(fits):
            return np.union1d(sure, ids[tries[fits[0]]])


def without_replacement(pi: Floats, rng: np.random.Generator) -> Ints:
    """A fixed-size draw for everyday use: largest entropy for up to 500 units, beyond that pivotal in random order."""
    ids, m = _undecided(pi)
    if m == 1:  # every fixed-size design is this one
        edges = np.cumsum(pi[ids])
        hit = min(int(np.searchsorted(edges, rng.random() * edges[-1], side="right")), len(ids) - 1)
        return np.union1d(np.flatnonzero(pi >= 1 - SURE), ids[[hit]])
    if len(ids) and np.ptp(pi[ids]) < SURE:
        chosen = rng.choice(ids, m, replace=False, shuffle=False)
        return np.union1d(np.flatnonzero(pi >= 1 - SURE), chosen)
    return conditional_poisson(pi, rng) if len(ids) <= _ENTROPY_UNITS else pivotal(pi, rng)


def pairs(pi: Floats) -> NDArray[np.float64]:
    """π_kl of :func:`conditional_poisson`: N × N, with π on the diagonal. Takes N²·m steps; meant for small N.

    π_kl = π_k·P(l | k), and with k in, the others are a draw of the same kind with one place less.
    """
    pi = np.asarray(pi, np.float64)
    joint = np.outer(pi, pi)
    ids, m = _undecided(pi)
    if m:
        chances = _working_chances(pi[ids], m)
        both = np.array([np.insert(_exactly(np.delete(chances, k), m - 1), k, 0.0) for k in range(len(ids))])
        both *= pi[ids][:, None]
        joint[np.ix_(ids, ids)] = (both + both.T) / 2
    np.fill_diagonal(joint, pi)
    return joint


def _undecided(pi: Floats) -> tuple[Ints, int]:
    """Units that are neither sure nor out, and how many of them are to come."""
    open_: Bools = (pi > SURE) & (pi < 1 - SURE)
    return np.flatnonzero(open_), round(float(pi[open_].sum()))


def _working_chances(pi: Floats, m: int) -> Floats:
    """The Poisson probabilities which, given size m, come out as π; they sum to m, so that this size is no rare one."""
    if 2 * m > len(pi):  # the complement is drawn by the same law, and has fewer places to count
        return 1 - _working_chances(1 - pi, len(pi) - m)
    chances, gap = _fitted(pi, m, _nearly, 30)
    return chances if gap < _CLOSE else _fitted(pi, m, _exactly, 1000)[0]


def _fitted(pi: Floats, m: int, given_size: Callable[[Floats, int], Floats], most: int) -> tuple[Floats, float]:
    """A fixed point (Tillé 2006, section 5.6), and how far the probabilities that it gives are from π."""
    chances, closest = pi.copy(), np.inf
    for _ in range(most):
        gap = pi - given_size(chances, m)
        far = float(np.abs(gap).max())
        if not far < 1 or (closest < _CLOSE and far >= closest):  # no probability, or as close as rounding lets it
            break
        closest = far
        chances = np.clip(chances + gap, 1e-12, 1 - 1e-12)
    return chances, closest


def _nearly(chances: Floats, m: int) -> Floats:
    """Inclusion probabilities of a Poisson draw, given its size m (Chen, Dempster & Liu 1994).

    The recursion takes differences of numbers near 1: quick, and worth nothing where chances differ by orders of
    magnitude or m is large.
    """
    odds = chances / (1 - chances)
    pi = np.zeros(len(odds))
    for size in range(1, m + 1):
        rising = odds * (1 - pi)
        pi = size * rising / rising.sum()
    return pi


def _exactly(chances: Floats, m: int) -> Floats:
    """The same from the laws of how many come before a unit and after it: sums of positive numbers, so always right."""
    if m == 0:
        return np.zeros(len(chances))
    before, after = _sizes(chances, m), _sizes(chances[::-1], m)[::-1]
    rest = np.einsum("ij,ij->i", before[:-1, :m], after[1:, m - 1 :: -1])
    without = np.einsum("ij,ij->i", before[:-1], after[1:, ::-1])
    return np.asarray(chances * rest / (chances * rest + (1 - chances) * without))


def _sizes(chances: Floats, most: int) -> NDArray[np.float64]:
    """P(k of the first i come) for k up to ``most``, a row for each i."""
    rows = np.zeros((len(chances) + 1, most + 1))
    rows[0, 0] = 1.0
    for i, chance in enumerate(chances):
        np.multiply(rows[i], 1 - chance, out=rows[i + 1])
        rows[i + 1, 1:] += rows[i, :-1] * chance
    return rows
