"""Balanced designs keep their inclusion probabilities and spread or balance the cohort; fast forms are as good."""

from dataclasses import replace

import numpy as np
import pytest

from hcsfed.errors import SettingError
from hcsfed.jit import compiled
from hcsfed.rng import stream
from hcsfed.select import Cube, LocalPivotal, Random, pick
from hcsfed.select.cube import _fly, cube
from hcsfed.select.draws import SURE, inclusion
from hcsfed.select.pivotal import local_pivotal
from hcsfed.select.space import cells, leading
from hcsfed.types import View

DESIGNS = [
    LocalPivotal(),
    LocalPivotal(mutual=True),
    LocalPivotal(exact=5),
    LocalPivotal(chances="norm"),
    Cube(),
    Cube(local=True, directions=2),
    Cube(local=True, directions=2, exact=5),
    Cube(chances="equal"),
]


def population(n=40, k=6, groups=4, seed=0, equal=True):
    rng = np.random.default_rng(seed)
    x = (3 * rng.normal(size=(groups, k)))[np.arange(n) % groups] + rng.normal(size=(n, k))
    weights = np.full(n, 1 / n) if equal else rng.dirichlet(np.full(n, 3.0))
    view = View(np.full(n, 10), weights, np.ones(n, bool), features=x.astype(np.float32))
    return x, replace(view, norms=np.linalg.norm(x, axis=1))


def error(selector, view, x, m, runs):
    full = view.weights @ x
    picks = [pick(selector, view, m, np.random.default_rng(s)) for s in range(runs)]
    return float(np.mean([((p.weights @ x[p.ids] - full) ** 2).sum() for p in picks]))


@pytest.mark.parametrize("selector", DESIGNS, ids=str)
def test_inclusion_probabilities_are_kept(selector):
    _, view = population(14, equal=False)
    count, runs = np.zeros(14), 700
    for s in range(runs):
        p = pick(selector, view, 5, np.random.default_rng(s))
        assert len(p) == len(np.unique(p.ids)) == 5
        count[p.ids] += 1
    pi = p.inclusion
    assert pi.sum() == pytest.approx(5)
    assert (np.abs(count / runs - pi) <= 4.5 * np.sqrt(pi * (1 - pi) / runs) + 1e-9).all()
    assert p.weights == pytest.approx(view.weights[p.ids] / pi[p.ids])


@pytest.mark.parametrize("selector", DESIGNS, ids=str)
@pytest.mark.parametrize("change", ["equal", "one_huge", "single", "all", "one_of_many"])
def test_edges(selector, change):
    _, view = population(12)
    m = 4
    if change == "equal":
        view = replace(view, features=np.zeros((12, 6), np.float32), norms=np.zeros(12))
    elif change == "one_huge":
        features = view.features.copy()
        features[2] = 1e30
        view = replace(view, features=features)
    elif change == "single":
        view, m = view.only(np.array([0])), 1
    else:
        m = 12 if change == "all" else 1
    p = pick(selector, view, m, np.random.default_rng(0))
    assert len(p) == m
    assert np.isfinite(p.weights).all()


def test_neighbours_do_not_come_together():
    x = np.repeat(np.arange(10.0), 2)[:, None] * 10 + np.tile([0.0, 1.0], 10)[:, None]
    for s in range(50):
        ids = local_pivotal(x.astype(np.float32), np.full(20, 0.5), np.random.default_rng(s))
        assert sorted(ids // 2) == list(range(10))  # one of each pair of neighbours


def test_the_flight_keeps_every_sum():
    rng = np.random.default_rng(0)
    sums = np.column_stack([np.ones(5000), rng.normal(size=(5000, 7)), np.zeros(5000)])
    sums[:, 6] = 2 * sums[:, 5]  # a sum that says nothing new
    pi = inclusion(rng.random(5000), 300)
    total, order = sums.T @ pi, rng.permutation(5000)
    compiled(_fly)(sums, pi, order, rng.random(5000), SURE)
    assert sums.T @ pi == pytest.approx(total, abs=1e-6)
    assert ((pi > SURE) & (pi < 1 - SURE)).sum() <= 7
    assert ((pi >= 0) & (pi <= 1)).all()


@pytest.mark.parametrize(("n", "k", "m"), [(40, 8, 4), (60, 16, 10), (100, 16, 10)])
def test_the_size_is_kept_where_the_basis_loses_its_digits(n, k, m):
    """Features and weights whose sizes differ by many powers of ten: one draw in ten had one client too many or few."""
    for seed in range(150):
        rng = stream(seed, "wild")
        x = (rng.normal(size=(n, k)) * np.exp(rng.normal(0, 10, (n, 1)))).astype(np.float32)
        weights = np.exp(rng.normal(0, 2.5, n))
        ids = cube(x, weights / weights.sum(), inclusion(weights, m), min(k, 16), rng)
        assert len(ids) == m


def test_the_cube_balances_what_is_linear():
    rng = np.random.default_rng(1)
    low = rng.normal(size=(200, 3))
    x = low @ rng.normal(size=(3, 20))  # three directions say it all
    view = View(np.full(200, 1), np.full(200, 1 / 200), np.ones(200, bool), features=x.astype(np.float32))
    plain = error(Random(), view, x, 40, 60)
    assert error(Cube(directions=3), view, x, 40, 60) < 0.1 * plain
    assert error(LocalPivotal(), view, x, 40, 60) < 0.3 * plain


@pytest.mark.slow
@pytest.mark.parametrize("m", [30, 100])
def test_the_fast_pivotal_is_as_good_as_the_exact_one(m):
    x, view = population(1000, 32, 30)
    exact = error(LocalPivotal(), view, x, m, 120)
    assert error(LocalPivotal(exact=500), view, x, m, 120) < 1.1 * exact
    assert exact < 0.5 * error(Random(), view, x, m, 120)


def test_many_places_among_many_clients():
    _, view = population(6000)
    p = pick(LocalPivotal(exact=100), view, 3000, np.random.default_rng(0))
    assert len(p) == 3000
    p = pick(Cube(local=True, directions=3, exact=100), view, 3000, np.random.default_rng(0))
    assert len(p) == 3000


def test_space():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 200)) * np.r_[10, 5, np.full(198, 0.1)]
    y = leading(x.astype(np.float32), 2, rng)
    assert np.abs(np.corrcoef(y[:, 0], x[:, 0])[0, 1]) > 0.99
    assert np.abs(np.corrcoef(y[:, 1], x[:, 1])[0, 1]) > 0.99
    order, length = cells(y, 10)
    assert sorted(order[order >= 0]) == list(range(300))
    assert length <= 10
    inside = np.mean([np.ptp(y[c[c >= 0]], axis=0).max() for c in order.reshape(-1, length)])
    assert inside < 0.3 * np.ptp(y, axis=0).max()


def test_settings_are_checked():
    for make, message in [
        (lambda: LocalPivotal(chances="x"), "chances of pivotal must be one of weight, equal, norm, got 'x'"),
        (lambda: LocalPivotal(exact=1), "exact of pivotal"),
        (lambda: Cube(directions=-1), "directions of cube"),
        (lambda: Cube(refresh="x"), "refresh of cube"),
    ]:
        with pytest.raises(SettingError, match=message):
            make()
    assert "norms" in Cube(chances="norm").claims.needs
