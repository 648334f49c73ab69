"""Class proportions drawn per client from a Dirichlet distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.partition import Partition, check_clients, class_rows, offsets_of
from hcsfed.data.sizes import resolve_sizes
from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Floats, Ints


def dirichlet(
    labels: NDArray[Any],
    clients: int,
    *,
    seed: int,
    alpha: float = 0.1,
    samples_per_client: int | None = None,
    sizes: str | Sequence[int] | None = None,
    replace: bool = False,
) -> Partition:
    """Give client k rows whose classes are drawn with probabilities p_k ~ Dir(α, …, α).

    The smaller α, the fewer classes a client has: at 0.001 it is practically one; as α grows, clients become alike. The
    sizes are fixed beforehand, only the mixture is random (Hsu, Qi and Brown 2019, arXiv:1909.06335).

    Parameters
    ----------
    alpha
        α > 0.
    samples_per_client, sizes
        Rows of each client: all the same, a list, or ``"paper"`` (N = 100: 10 clients of 100 rows, 30 of 250, 30 of
        500, 20 of 750, 10 of 1,000). By default as many rows as there are, dealt evenly.
    replace
        True: rows of a class are drawn with replacement, as in the paper's CIFAR-10 experiments, so clients may share
        rows, and classes follow p_k whatever the stock. False: no row is dealt twice; a class that runs out leaves its
        share to the classes that still have rows, so clients served last (in a drawn order) stray from their p_k.
    """
    owner = "partition 'dirichlet'"
    clients = check_clients(clients, owner, len(labels))
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < math.inf:
        raise bad("alpha", owner, "a number > 0", alpha)
    if not isinstance(replace, bool):
        raise bad("replace", owner, "true or false", replace)
    n = resolve_sizes(sizes, samples_per_client, clients, len(labels), owner, replace=replace)
    rng = stream(seed, "partition dirichlet")
    rows = class_rows(labels, owner, rng)
    log_p = log_dirichlet(float(alpha), (clients, len(rows)), rng)
    if replace:
        mixture = [rng.multinomial(n[k], _softmax(log_p[k])) for k in range(clients)]
        index = [r[rng.integers(len(r), size=c)] for counts in mixture for r, c in zip(rows, counts, strict=True)]
        return Partition(np.concatenate(index), offsets_of(n))
    return Partition(_deal(n, log_p, rows, rng), offsets_of(n))


def log_dirichlet(alpha: float, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """The logarithms of Dirichlet draws, up to a constant per row.

    Γ(α) variates underflow to 0 for small α, and a row of zeros has no proportions. If g ~ Γ(α+1) and u is uniform,
    then g·u^(1/α) ~ Γ(α) (Marsaglia and Tsang 2000, section 6); the logarithm of that never underflows.
    """
    log_p: Floats = np.log(rng.standard_gamma(alpha + 1, shape)) + np.log1p(-rng.random(shape)) / alpha
    return log_p


def _softmax(log_p: Floats) -> Floats:
    p: Floats = np.exp(log_p - log_p.max())
    p /= p.sum()
    return p


def _deal(n: Ints, log_p: Floats, rows: list[Ints], rng: np.random.Generator) -> Ints:
    """Without replacement: draw class counts; where a class runs out, draw the rest among the classes that are left."""
    stock = np.array([len(r) for r in rows])
    parts: list[Ints] = [np.zeros(0, np.int64)] * len(n)
    for k in rng.permutation(len(n)):
        taken: list[Ints] = []
        missing = int(n[k])
        while missing:
            left = np.flatnonzero(stock)
            counts = np.minimum(rng.multinomial(missing, _softmax(log_p[k, left])), stock[left])
            for c, count in zip(left, counts, strict=True):
                taken.append(rows[c][stock[c] - count : stock[c]])
            stock[left] -= counts
            missing -= int(counts.sum())
        parts[k] = np.concatenate(taken)
    return np.concatenate(parts)
