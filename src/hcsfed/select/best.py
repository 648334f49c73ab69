"""The m best of N, ties broken by coin: a client's number must not decide who is picked."""

from __future__ import annotations

import numpy as np

from hcsfed.types import Floats, Ints


def best(scores: Floats, count: int, rng: np.random.Generator) -> Ints:
    """The ``count`` clients of highest score, in ascending order of their numbers."""
    order = np.lexsort((rng.random(len(scores)), -scores))
    return np.sort(order[:count])


def one_by_one(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Draws without replacement, each by weight among those that are left (all weights > 0).

    By the Gumbel trick, Σ-free and in one pass: the largest of log w + Gumbel noise are such a sample. The inclusion
    probabilities have no closed form; where weights 1/π are wanted, draw with :mod:`hcsfed.select.draws` instead.
    """
    return best(np.log(weights) + rng.gumbel(size=len(weights)), count, rng)
