"""Least squares per client: every optimum is known in closed form, which makes claims about convergence testable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.partition import offsets_of
from hcsfed.data.source import Source
from hcsfed.data.synthetic import check_count
from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Federation, Floats


def quadratic(
    *,
    clients: int,
    seed: int,
    dimension: int = 10,
    samples_per_client: int = 20,
    heterogeneity: float = 1.0,
    condition: float = 10.0,
    noise: float = 0.1,
    test_rows: int = 200,
) -> Source:
    """Client k has y = x·w_k + noise with an optimum w_k and a Hessian E[x·xᵀ] of its own.

    Parameters
    ----------
    dimension
        Inputs, d.
    samples_per_client
        Rows of each client.
    heterogeneity
        Standard deviation of the clients' w_k around the common one.
    condition
        Condition number of each client's E[x·xᵀ]; its axes are drawn per client.
    noise
        Standard deviation of the noise on y.
    test_rows
        Rows of the test set, from clients drawn at random.
    """
    owner = "data 'quadratic'"
    counts = {"clients": clients, "dimension": dimension, "samples_per_client": samples_per_client}
    for name, value in {**counts, "test_rows": test_rows}.items():
        check_count(name, owner, value)
    for name, number, least in (
        ("heterogeneity", heterogeneity, 0),
        ("condition", condition, 1),
        ("noise", noise, 0),
    ):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not least <= number < np.inf:
            raise bad(name, owner, f"a number >= {least}", number)
    rng = stream(seed, "quadratic")
    train = offsets_of(np.full(clients, samples_per_client))
    test = offsets_of(rng.multinomial(test_rows, np.full(clients, 1 / clients)))
    common = rng.standard_normal(dimension)
    scales = np.geomspace(1, condition**-0.5, dimension)
    x, y = np.empty((train[-1], dimension), np.float32), np.empty((train[-1], 1), np.float32)
    test_x, test_y = np.empty((test[-1], dimension), np.float32), np.empty((test[-1], 1), np.float32)
    for k in range(clients):
        rng = stream(seed, "quadratic", 0, k + 1)
        w = common + heterogeneity * rng.standard_normal(dimension)
        axes = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0] * scales
        for a, b, offsets in ((x, y, train), (test_x, test_y, test)):
            rows = slice(offsets[k], offsets[k + 1])
            a[rows] = rng.standard_normal((offsets[k + 1] - offsets[k], dimension)) @ axes.T
            b[rows, 0] = a[rows] @ w + noise * rng.standard_normal(offsets[k + 1] - offsets[k])
    return Source("quadratic", x, y, test_x, test_y, classes=0, task="regression", offsets=train, owned=True)


def client_optimum(federation: Federation, k: int, *, bias: bool = False) -> Floats:
    """The w that minimises client k's mean squared error; with ``bias`` a constant is the last entry.

    Where several do (fewer rows than inputs) the shortest.
    """
    inputs, targets = _rows(federation, k, bias)
    solution = np.asarray(np.linalg.lstsq(inputs, targets, rcond=None)[0], np.float64)
    return solution[:, 0] if targets.shape[1] == 1 else solution


def optimum(federation: Federation, *, bias: bool = False) -> Floats:
    """The w that minimises Σ_k ω_k·(mean squared error of client k), by the weighted normal equations."""
    hessian, slope = 0.0, 0.0
    for k in range(federation.clients):
        inputs, targets = _rows(federation, k, bias)
        share = federation.weights[k] / len(inputs)
        hessian = hessian + share * (inputs.T @ inputs)
        slope = slope + share * (inputs.T @ targets)
    solution = np.asarray(np.linalg.lstsq(np.asarray(hessian), np.asarray(slope), rcond=None)[0], np.float64)
    return solution[:, 0] if solution.shape[1] == 1 else solution


def _rows(federation: Federation, k: int, bias: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = federation.client(k)
    inputs = x.reshape(len(x), -1) * np.float64(federation.scale) + federation.shift
    constant = np.ones((len(x), int(bias)))
    return np.hstack([inputs, constant]), y.reshape(len(y), -1).astype(np.float64)
