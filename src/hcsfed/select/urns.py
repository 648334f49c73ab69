"""Urns in whole tokens: the integer arithmetic under both of Fraboni's algorithms.

There are m urns of M tokens each, laid end to end on a line of M·m tokens. A client of n_k tokens owns m·n_k of them,
in one piece or several, so that one token drawn uniformly from each urn names client k with probability r_{i,k}/M in
urn i, and Σ_i r_{i,k} = m·n_k holds exactly. Each draw counts 1/m, hence E[weight_k] = n_k/M for every n, m and
sizes, also where a client fills whole urns.

Published code keeps the r_{i,k} as float fractions and looks for sums that reach 1; rounding then runs past the last
urn (uniform sizes, n = 10, m = 3, 6, 7).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hcsfed.errors import bad
from hcsfed.types import Floats, Ints, Selection, View

_RESOLUTION = 2**40


class Pieces(NamedTuple):
    """Stretches of the line in their order: whose they are and how many tokens they hold."""

    clients: Ints
    tokens: Ints


def whole_sizes(view: View, m: int) -> Ints:
    """Integers n_k with n_k/Σn = ω_k: the clients' sizes, or, where the weights are others, ω_k in units of 2⁻⁴⁰."""
    sizes = view.sizes
    if not (sizes > 0).all() or not np.allclose(view.weights, sizes / sizes.sum(), rtol=1e-12, atol=0):
        sizes = np.maximum(np.rint(view.weights * _RESOLUTION).astype(np.int64), 1)
    if int(sizes.sum()) > np.iinfo(np.int64).max // m:
        raise bad("cohort size", "clustered selection", f"at most 2⁶³ / {sizes.sum()} tokens", m)
    return sizes


def draw(pieces: Pieces, m: int, total: int, n: int, rng: np.random.Generator, **info: Any) -> Selection:
    """One token from each of the m urns of ``total`` tokens that the pieces fill.

    A client may be drawn from several urns; it then stands once, with the sum of its draws as weight.
    """
    ends = np.cumsum(pieces.tokens)
    drawn = np.arange(m) * total + rng.integers(0, total, m)
    times = np.bincount(pieces.clients[np.searchsorted(ends, drawn, side="right")], minlength=n)
    ids = np.flatnonzero(times)
    return Selection(ids, times[ids] / m, _inclusion(pieces, total, n), {"draws": times[ids], **info})


def _inclusion(pieces: Pieces, total: int, n: int) -> Floats:
    """1 − Π_i (1 − r_{i,k}/M). A piece has at most a partial first urn, whole urns between, and a partial last one."""
    ends = np.cumsum(pieces.tokens)
    starts = ends - pieces.tokens
    first, last = starts // total, (ends - 1) // total
    head = np.where(first == last, pieces.tokens, (first + 1) * total - starts)
    tail = np.where(first == last, 0, ends - last * total)
    with np.errstate(divide="ignore"):
        missed = np.log1p(-head / total) + np.log1p(-tail / total)
    missed[last > first + 1] = -np.inf
    return -np.expm1(np.bincount(pieces.clients, missed, minlength=n))
