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

from collections.abc import MutableSequence, Sequence

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
"""Up to here the draw of largest entropy takes some milliseconds."""


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
    if m in (0, len(ids)):  # one that is all but sure may be the only one left
        return np.union1d(sure, ids[:m])
    chances = working_chances(pi[ids], m)
    while True:  # one in 2.5·√Σp(1 − p) or so fits
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
    """π_kl of :func:`conditional_poisson`: N × N, with π on the diagonal; meant for small N.

    Given that k is in, the others are drawn by the same law with one place less.
    """
    pi = np.asarray(pi, np.float64)
    joint = np.outer(pi, pi)
    ids, m = _undecided(pi)
    if 0 < m < len(ids):
        chances = working_chances(pi[ids], m)
        odds = chances / (1 - chances)
        both = np.zeros((len(ids), len(ids)))
        for k in range(len(ids)) if m > 1 else ():
            others = np.arange(len(ids)) != k
            given = given_size(odds[others], m - 1)
            both[k, others] = pi[ids[k]] * given / (1 + given)
        joint[np.ix_(ids, ids)] = (both + both.T) / 2  # equal but for rounding
    np.fill_diagonal(joint, pi)
    return joint


def _undecided(pi: Floats) -> tuple[Ints, int]:
    """Units that are neither sure nor out, and how many of them are to come."""
    open_: Bools = (pi > SURE) & (pi < 1 - SURE)
    return np.flatnonzero(open_), round(float(pi[open_].sum()))


def working_chances(pi: Floats, m: int) -> Floats:
    """The Poisson probabilities which, given size m < N, come out as π, all of them between 0 and 1.

    Odds are multiplied by what they come out short of, to a power: 1 − 1/N is right at once where all are equal, and no
    power from ½ on can lead away, which is where it goes when fewer units than N matter. π itself is near, so the sum
    stays about m, where a size of m is likely.
    """
    if 2 * m > len(pi):  # the complement is drawn by the same law, and needs fewer steps
        return 1 - working_chances(1 - pi, len(pi) - m)
    wanted = pi / (1 - pi)
    odds, power, before = wanted.copy(), 1 - 1 / len(pi), np.inf
    near = 1e-13 + 2 * abs(float(pi.sum()) - m)  # no law has a π that does not sum to m
    for _ in range(500):
        found = given_size(odds, m)
        gap = float(np.abs(found / (1 + found) - pi).max())
        if gap < near:
            break
        if gap > 0.5 * before:
            power = max(0.8 * power, 0.5)
        odds, before = odds * (wanted / found) ** power, gap
    return odds / (1 + odds)


def given_size(odds: Floats, m: int) -> Floats:
    """The odds of each unit to be among m, where all come independently by their own odds and m happen to come.

    For unit k these are odds_k·e(m − 1)/e(m), with e(s) the sum over all cohorts of s of the others, of the product of
    their odds. Units of odds up to 1 and those above are summed up apart: dividing a unit out again, which is quick,
    keeps its digits for the former alone.
    """
    small = odds <= 1
    few, without_few = _sums(odds[small], m)
    many, without_many = _sums_of_large(odds[~small], m)
    out = np.empty(len(odds))
    for which, without, others in ((small, without_few, many), (~small, without_many, few)):
        fewer, as_many = (others[j::-1] @ without[: j + 1] for j in (m - 1, m))
        out[which] = odds[which] * fewer / as_many
    return out


def _sums(odds: Floats, m: int) -> tuple[Floats, Floats]:
    """e(s) of all units, and of all but each (a column), for s = 0 … m; for odds of at most 1."""
    whole, without = np.zeros(m + 1), np.zeros((m + 1, len(odds)))
    whole[0], without[0] = 1.0, 1.0
    for size in range(1, m + 1):
        whole[size] = odds @ without[size - 1] / size
        without[size] = np.maximum(whole[size] - odds * without[size - 1], 0.0)
    return whole, without


def _sums_of_large(odds: Floats, m: int) -> tuple[Floats, Floats]:
    """The same for large odds, times the probability of none: from both sides, nothing being taken away."""
    outside = 1 / (1 + odds)
    inside = odds * outside
    first, last = np.zeros((2, len(odds) + 1, m + 1))
    first[0, 0] = last[len(odds), 0] = 1.0
    for k in range(len(odds)):
        first[k + 1] = outside[k] * first[k]
        first[k + 1, 1:] += inside[k] * first[k, :-1]
    for k in range(len(odds) - 1, -1, -1):
        last[k] = outside[k] * last[k + 1]
        last[k, 1:] += inside[k] * last[k + 1, :-1]
    without = np.zeros((m + 1, len(odds)))
    for size in range(m + 1):
        without[size] = np.einsum("ks,ks->k", first[:-1, : size + 1], last[1:, size::-1])
    return first[-1], without
