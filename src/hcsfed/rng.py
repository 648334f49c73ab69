"""The one birthplace of randomness.

Everything random is a function of (seed, purpose, round, client) and of nothing else: not of the order in which clients
are computed, nor of how they are chunked, nor of what ran before. Global generators are never touched.

Two forms: :func:`stream` gives a NumPy generator for server-side draws; :func:`keys` gives one 64-bit key per client,
from which client-side draws (minibatches, dropout) are counted off by a hash, in any order and in any language.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _word(purpose: str) -> int:
    return zlib.crc32(purpose.encode())


def stream(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """A generator of its own for one purpose in one round, for one client where that matters."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, _word(purpose), round, client])))


def mix64(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): a bijection of words that scatters their bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def keys(seed: int, purpose: str, round: int, clients: ArrayLike) -> NDArray[np.uint64]:
    """One 64-bit key per client: the start of that client's own counter-based stream."""
    key = np.zeros(np.shape(clients), np.uint64)
    with np.errstate(over="ignore"):  # wrapping around is what is meant
        for word in (seed, _word(purpose), round, clients):
            key = mix64((key ^ np.asarray(word).astype(np.uint64)) + _GOLDEN)
    return key
