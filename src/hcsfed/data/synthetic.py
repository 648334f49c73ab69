"""Synthetic clients whose models and inputs differ by as much as is asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.partition import offsets_of
from hcsfed.data.source import Source
from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Ints

_FEATURES = 60
_CLASSES = 10
_CHUNK = 1024  # clients generated at a time; part of what the numbers are, so never to be changed


def synthetic(
    *,
    clients: int,
    seed: int,
    alpha: float = 1.0,
    beta: float = 1.0,
    iid: bool = False,
    samples_per_client: int | None = None,
    test_rows: int = 2000,
) -> Source:
    """Logistic models of 60 inputs and 10 classes, one per client.

    T. Li et al., "Federated optimization in heterogeneous networks" (FedProx), MLSys 2020, section 5.1: client k has
    y = argmax(W_k·x + b_k) with W_k, b_k ~ N(u_k, 1), u_k ~ N(0, α), and x ~ N(v_k, Σ) with v_k ~ N(B_k, 1),
    B_k ~ N(0, β), Σ diagonal, Σ_jj = j^(−1.2). As in the authors' code, α and β are standard deviations.

    Departure: the test set is drawn anew from the same clients, each in proportion to its size.

    Parameters
    ----------
    alpha
        How much the clients' models differ.
    beta
        How much their inputs differ.
    iid
        One model for all, and v_k = 0.
    samples_per_client
        All clients the same; by default sizes are 50 + ⌊lognormal(4, 2)⌋, as in the authors' code.
    test_rows
        Rows of the test set.
    """
    owner = "data 'synthetic'"
    for name, value in (("alpha", alpha), ("beta", beta)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
            raise bad(name, owner, "a number >= 0", value)
    if not isinstance(iid, bool):
        raise bad("iid", owner, "true or false", iid)
    check_count("clients", owner, clients)
    check_count("test_rows", owner, test_rows)
    rng = stream(seed, "synthetic sizes")
    if samples_per_client is None:
        sizes = 50 + rng.lognormal(4, 2, clients).astype(np.int64)
    else:
        sizes = np.full(clients, check_count("samples_per_client", owner, samples_per_client))
    train, test = offsets_of(sizes), offsets_of(rng.multinomial(test_rows, sizes / sizes.sum()))
    x, y = _empty(train)
    test_x, test_y = _empty(test)
    shared = _model(stream(seed, "synthetic model"), np.zeros(1)) if iid else None
    for chunk, first in enumerate(range(0, clients, _CHUNK)):
        ids = np.arange(first, min(first + _CHUNK, clients))
        rng = stream(seed, "synthetic clients", 0, chunk)
        models = shared or _model(rng, rng.normal(0, alpha, len(ids)))
        middle = rng.normal(0, beta, len(ids))[:, None] + rng.standard_normal((len(ids), _FEATURES))
        means = np.zeros_like(middle, np.float32) if iid else middle.astype(np.float32)
        _fill(rng, x, y, train, ids, models, means)
        _fill(rng, test_x, test_y, test, ids, models, means)
    return Source("synthetic", x, y, test_x, test_y, classes=_CLASSES, offsets=train, owned=True)


Models = tuple[NDArray[np.float32], NDArray[np.float32]]


def check_count(name: str, owner: str, value: object) -> int:
    """A whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise bad(name, owner, "an int >= 1", value)
    return int(value)


def _empty(offsets: Ints) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    return np.empty((offsets[-1], _FEATURES), np.float32), np.empty(offsets[-1], np.uint8)


def _model(rng: np.random.Generator, u: NDArray[np.float64]) -> Models:
    """W and b of each client, around its u."""
    centre = u.astype(np.float32)[:, None]
    w = rng.standard_normal((len(u), _FEATURES * _CLASSES), np.float32) + centre
    b = rng.standard_normal((len(u), _CLASSES), np.float32) + centre
    return w.reshape(len(u), _FEATURES, _CLASSES), b


def _fill(
    rng: np.random.Generator,
    x: NDArray[np.float32],
    y: NDArray[np.uint8],
    offsets: Ints,
    ids: Ints,
    models: Models,
    means: NDArray[np.float32],
) -> None:
    """Draw these clients' rows straight into their place."""
    spread = (np.arange(1, _FEATURES + 1) ** -0.6).astype(np.float32)  # √Σ_jj
    w, b = models
    for i, k in enumerate(ids):
        rows = slice(offsets[k], offsets[k + 1])
        mine = x[rows]
        rng.standard_normal(out=mine, dtype=np.float32)
        mine *= spread
        mine += means[i]
        of = i % len(w)  # one model for all, or one each
        y[rows] = (mine @ w[of] + b[of]).argmax(1)
