"""HCSFed: each option does what it says, and what claims to be unbiased is."""

from dataclasses import replace

import numpy as np
import pytest

from hcsfed.errors import SettingError
from hcsfed.select import Cluster, ClusterRealloc, Hybrid, Published, pick
from hcsfed.types import View


def population(n=40, groups=4, seed=0, equal=True):
    rng = np.random.default_rng(seed)
    x = (5 * rng.normal(size=(groups, 6)))[np.arange(n) % groups] + rng.normal(size=(n, 6))
    x *= rng.lognormal(0, 0.5, n)[:, None]
    weights = np.full(n, 1 / n) if equal else rng.dirichlet(np.ones(n))
    norms = np.linalg.norm(x, axis=1)
    return x, View(np.full(n, 10), weights, np.ones(n, bool), features=x.astype(np.float32), norms=norms)


def estimates(selector, view, updates, m, runs=3000):
    """Estimates and inclusions over many seeds, each with clusters of its own."""
    out, pi = np.empty((runs, updates.shape[1])), np.empty((runs, view.clients))
    for s in range(runs):
        p = pick(selector, view, m, np.random.default_rng(s))
        out[s], pi[s] = p.weights @ updates[p.ids], p.inclusion
    return out, pi


@pytest.mark.parametrize(
    "selector",
    [
        Cluster(clusters=4),
        ClusterRealloc(clusters=4),
        Hybrid(clusters=4),
        Hybrid(clusters=4, allocation="eq6", importance="feature", max_share=1.0),
        Hybrid(clusters=30, within="uniform", refresh="stale"),
    ],
)
@pytest.mark.parametrize("m", [1, 5])
def test_claimed_unbiased_is_unbiased(selector, m):
    assert selector.claims.unbiased
    _, view = population(12, 3, equal=False)
    updates = np.random.default_rng(9).normal(size=(12, 2)) + 1  # not what the features say
    out, pi = estimates(selector, view, updates, m, 600)
    full = view.weights @ updates
    assert pi.sum(axis=1) == pytest.approx(m)
    assert (pi > 0).all()
    assert (np.abs(out.mean(axis=0) - full) < 4.5 * out.std(axis=0) / np.sqrt(len(out))).all()


def test_published_weights_are_those_of_eq_3_and_biased():
    x, view = population()
    selector = Published(clusters=4)
    assert not selector.claims.unbiased
    p = pick(selector, view, 8, np.random.default_rng(0))
    assert p.weights == pytest.approx(np.full(8, 1 / 8))
    out, _ = estimates(selector, view, x, 8, 500)
    full = view.weights @ x
    assert (np.abs(out.mean(axis=0) - full) > 6 * out.std(axis=0) / np.sqrt(len(out))).any()


def test_published_is_the_text_to_the_letter():
    _, view = population()
    p = pick(Published(clusters=4), view, 8, np.random.default_rng(0))
    labels, m_h = p.info["labels"], p.info["m_h"]
    norms = np.linalg.norm(view.features, axis=1)
    for h, m in enumerate(m_h):
        members = labels == h
        expected = m * norms[members] / norms[members].sum()
        if expected.max() < 1:
            assert p.inclusion[members] == pytest.approx(expected, rel=1e-5)
    assert Published().claims.trains == "all"
    assert Published().features == "gc-published"


def test_clusters_lower_the_error():
    x, view = population(100, 10)
    full = view.weights @ x

    def error(selector):
        return ((estimates(selector, view, x, 10, 200)[0] - full) ** 2).sum(axis=1).mean()

    one = error(Hybrid(clusters=1, within="uniform"))
    assert error(Cluster()) < 0.6 * one
    assert error(Hybrid()) < 0.6 * one


def test_max_share_bounds_what_a_claimed_norm_buys():
    _, view = population(20, 1)
    claimed = view.norms.copy()
    claimed[3] = 1e12

    def chance(**options):
        selector = Hybrid(clusters=1, **options)
        return pick(selector, replace(view, norms=claimed), 2, np.random.default_rng(0)).inclusion[3]

    assert chance(max_share=1.0, min_share=0.0) == 1.0
    assert chance(max_share=0.1, min_share=0.0) == pytest.approx(0.2)
    assert chance(max_share=0.01, min_share=0.0) == pytest.approx(0.1)  # an even share is always allowed


def test_min_share_keeps_silent_clients_reachable():
    _, view = population(20, 1)
    silent = replace(view, norms=np.where(np.arange(20) < 5, 0.0, view.norms))
    p = pick(Hybrid(clusters=1, min_share=0.2), silent, 4, np.random.default_rng(0))
    assert p.inclusion[:5] == pytest.approx(np.full(5, 4 * 0.2 / 20), rel=0.3)
    assert not Hybrid(min_share=0.0).claims.unbiased
    assert Hybrid(min_share=0.0, within="uniform").claims.unbiased


@pytest.mark.parametrize("selector", [Hybrid(), Published(), Cluster(), ClusterRealloc()])
@pytest.mark.parametrize("change", ["equal", "zero", "one_huge", "single", "all"])
def test_edges(selector, change):
    _, view = population(12, 3)
    m = 4
    if change == "equal":
        view = replace(view, features=np.ones((12, 6), np.float32), norms=np.full(12, 6**0.5))
    elif change == "zero":
        view = replace(view, features=np.zeros((12, 6), np.float32), norms=np.zeros(12))
    elif change == "one_huge":
        features = view.features.copy()
        features[2] = 1e30
        view = replace(view, features=features, norms=np.linalg.norm(features.astype(float), axis=1))
    elif change == "single":
        view, m = view.only(np.array([0])), 1
    else:
        m = 12
    p = pick(selector, view, m, np.random.default_rng(0))
    assert len(p) == len(np.unique(p.ids)) == m
    assert np.isfinite(p.weights).all()
    assert p.inclusion.sum() == pytest.approx(m)
    if m == view.clients:
        assert p.weights == pytest.approx(view.weights)


def test_settings_are_checked():
    for options, message in [
        ({"clusters": 0}, "clusters of hcsfed must be an int >= 1, got 0"),
        ({"allocation": "even"}, "allocation of hcsfed must be one of proportional, eq6, neyman, got 'even'"),
        ({"within": "x"}, "within of hcsfed"),
        ({"weights": "x"}, "weights of hcsfed"),
        ({"refresh": "x"}, "refresh of hcsfed"),
        ({"max_share": 0.0}, "max_share of hcsfed"),
        ({"min_share": 2.0}, "min_share of hcsfed"),
    ]:
        with pytest.raises(SettingError, match=message):
            Hybrid(**options)
    with pytest.raises(SettingError, match="given with features"):
        Hybrid().select(View(np.ones(2, int), np.full(2, 0.5), np.ones(2, bool)), 1, np.random.default_rng(0))
