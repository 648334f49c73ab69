"""Which rows stand in which minibatch, for every backend alike.

A client's draws are counted off from its own key (see :mod:`hcsfed.rng`), so they depend on seed, round and client
alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from hcsfed.clients.contract import LocalTraining, steps_of
from hcsfed.rng import keys
from hcsfed.types import Ints


@dataclass(frozen=True, eq=False)
class Plan:
    """Minibatches of some clients.

    Parameters
    ----------
    rows
        int32[clients, steps, batch], row numbers inside the client; entries past ``counts`` are 0 and mean nothing.
    counts
        int32[clients, steps], rows in that minibatch; 0 where the client has no such step.
    steps
        Steps that each client takes.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.int32]
    steps: Ints


def plan(work: LocalTraining, seed: int, round: int, ids: Ints, sizes: Ints, steps: Ints | None = None) -> Plan:
    """The minibatches of clients ``ids`` (of ``sizes`` rows) in one round."""
    steps = steps_of(work, sizes) if steps is None else np.asarray(steps, np.int64)
    longest = int(steps.max(initial=0))
    batch = int(min(work.batch, sizes.max(initial=1)))
    rows = np.zeros((len(ids), longest, batch), np.int32)
    counts = np.zeros((len(ids), longest), np.int32)
    walk = work.epochs > 0 or work.draw == "permutation"
    _fill(keys(seed, "minibatch", round, ids), sizes, steps, work.batch, walk, rows, counts)
    return Plan(rows, counts, steps)


@numba.njit(cache=True)
def _below(key, counter, bound):
    """A number in [0, bound): splitmix64 of the counter, then Lemire's multiply-and-shift."""
    z = key + counter * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.int64(((z >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@numba.njit(cache=True, nogil=True)
def minibatch(key, counter, order, at, n, batch, walk):
    """Shuffle the client's next minibatch into place: ``order[at:at + count]``, returned as (counter, at, count).

    ``at`` comes in as the end of the minibatch before; at first it is n, ``counter`` 0 and ``order`` 0 … n − 1.
    """
    if not walk or at >= n:  # a walk that has come to the end of its permutation starts a new one
        at = 0
    count = min(batch, n - at)
    # A partial Fisher-Yates shuffle, from whatever order the last one left: still uniform.
    for j in range(at, at + count):
        counter += np.uint64(1)
        other = j + _below(key, counter, n - j)
        order[j], order[other] = order[other], order[j]
    return counter, at, count


@numba.njit(cache=True)
def _fill(client_keys, sizes, steps, batch, walk, rows, counts):
    order = np.empty(sizes.max() if len(sizes) else 0, np.int32)
    for i in range(len(client_keys)):
        n = sizes[i]
        order[:n] = np.arange(n)
        counter, at, count = np.uint64(0), n, 0
        for s in range(steps[i]):
            counter, at, count = minibatch(client_keys[i], counter, order, at + count, n, batch, walk)
            rows[i, s, :count] = order[at : at + count]
            counts[i, s] = count
