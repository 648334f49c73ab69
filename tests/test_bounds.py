"""Whatever one client claims, its chance and its weight stay within the bounds that are promised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed.errors import SettingError
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, pick
from hcsfed.select.draws import capped, inclusion
from hcsfed.select.local_rounds import cut
from hcsfed.types import Answers, View

CLAIMS = {
    "importance": "norms",
    "importance-independent": "norms",
    "loss-importance": "losses",
    "data-variability": "variances",
    "pivotal": "norms",
    "cube": "norms",
}
CLUSTERED = {"hcsfed": "norms", "hcsfed-published": "features"}

claim = st.one_of(st.sampled_from([0.0, 1e-300, 1e-30, 1.0, 1e30, 1e300]), st.floats(0, 1e308))


def population(n, seed, equal):
    rng = stream(seed, "bounds")
    sizes = np.full(n, 10) if equal else rng.integers(1, 41, n)
    return View(
        sizes=sizes,
        weights=sizes / sizes.sum(),
        available=np.ones(n, bool),
        features=rng.normal(size=(n, 4)).astype(np.float32),
        norms=rng.gamma(1.0, size=n) * (rng.random(n) < 0.9),
        losses=rng.gamma(1.0, size=n),
        variances=rng.gamma(1.0, size=n),
        ages=rng.integers(0, 5, n),
    )


def options(name):
    return {"chances": "norm"} if name in ("pivotal", "cube") else {}


def lied(view, need, value, k=2):
    values = np.array(getattr(view, need))
    values[k] = min(value, 1e30) if need == "features" else value
    return replace(view, **{need: values})


@pytest.mark.parametrize("name", list(CLAIMS))
@given(
    value=claim,
    n=st.integers(3, 25),
    m=st.integers(1, 6),
    share=st.floats(0.02, 1.0),
    seed=st.integers(0, 99),
    equal=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_no_claim_buys_more_than_the_share(name, value, n, m, share, seed, equal):
    m = min(m, n)
    selector = SELECTORS.build(name, max_share=share, **options(name))
    selection = pick(selector, lied(population(n, seed, equal), CLAIMS[name], value), m, stream(seed, "pick"))
    assert selection.inclusion[2] <= min(1, m * max(share, 1 / n)) + 1e-9
    assert selection.inclusion.sum() == pytest.approx(m)


@pytest.mark.parametrize("name", list(CLUSTERED))
@given(value=claim, n=st.integers(4, 25), m=st.integers(1, 6), share=st.floats(0.02, 1.0), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_no_claim_buys_more_than_the_share_of_its_cluster(name, value, n, m, share, seed):
    m = min(m, n)
    selector = SELECTORS.build(name, max_share=share, clusters=3)
    selection = pick(selector, lied(population(n, seed, True), CLUSTERED[name], value), m, stream(seed, "pick"))
    labels, m_h = selection.info["labels"], selection.info["m_h"]
    own = labels[2]
    assert selection.inclusion[2] <= min(1, m_h[own] * max(share, 1 / (labels == own).sum())) + 1e-9


@pytest.mark.parametrize("name", [*CLAIMS, "hcsfed"])
@given(value=claim, m=st.integers(1, 6), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_no_claim_makes_a_weight_explode(name, value, m, seed):
    """Whoever claims little is picked seldom and then counts for much: a floor bounds how much."""
    n, floor = 12, 0.1
    given_floor = {"floor": floor} if "importance" in name or name == "data-variability" else {}
    selector = SELECTORS.build(name, **given_floor, **options(name))
    view = lied(population(n, seed, True), CLAIMS.get(name, "norms"), value)
    pi = pick(selector, view, m, stream(seed, "pick")).inclusion
    # pivotal and cube mix a tenth in before they scale, hence 1.1; a cluster of hcsfed has a place for up to n - m + 1
    places = 1 / (n - min(m, 10) + 1) if name == "hcsfed" else m / n
    assert pi[2] >= floor * places / 1.1 - 1e-12


def test_capped_shares():
    assert capped(np.array([8.0, 1, 1]), 1.0).tolist() == [8, 1, 1]
    shares = capped(np.array([8.0, 1, 1, 1, 1]), 0.25)
    assert shares / shares.sum() == pytest.approx([0.25] + [0.75 / 4] * 4)
    alone = capped(np.array([1e300, 0, 0, 0]), 0.4)
    assert alone / alone.sum() == pytest.approx([0.4, 0.2, 0.2, 0.2])
    assert capped(np.ones(3), 0.01) == pytest.approx([1, 1, 1])


def test_one_size_beyond_measure_leaves_the_others_their_places():
    for huge in (1e300, 1.7e308):
        pi = inclusion(np.array([huge, 1e-5, 2e-5, 3e-5, 4e-5]), 3)
        assert pi == pytest.approx([1, 0.2, 0.4, 0.6, 0.8])


def test_cut_sizes_keep_their_unit():
    found = cut(np.array([100.0, 1, 2, 3]), 0.5)
    assert found == pytest.approx([6, 1, 2, 3])
    assert cut(np.array([100.0, 1, 2, 3]), 1.0).tolist() == [100, 1, 2, 3]
    assert cut(np.array([7.0, 0, 0]), 0.5).tolist() == [7, 0, 0]


def test_one_false_norm_does_not_silence_the_others():
    n = 20
    view = replace(population(n, 0, True), norms=np.linspace(1, 2, n))
    for value in (1e3, 1e300):
        false = lied(view, "norms", value)
        spoke = pick(SELECTORS.build("local-rounds"), false, 10, stream(0, "pick")).info["passing"]
        alone = pick(SELECTORS.build("local-rounds", max_share=1.0), false, 10, stream(0, "pick")).info["passing"]
        assert spoke > 1
        assert alone == 1


def test_one_false_loss_counts_for_no_more_than_the_next():
    n = 10
    oort = SELECTORS.build("oort", explore=0.0, explore_least=0.0)
    view = population(n, 0, True)
    fair, false = oort.start(n), oort.start(n)
    everyone = pick(SELECTORS.build("full"), view, n, stream(0, "all"))
    everyone.info["sizes"] = view.sizes
    losses = np.linspace(1, 2, n)
    heard = Answers(np.arange(n), np.ones(n), losses, np.ones(n, int))
    fair = oort.observe(fair, everyone, heard)
    false = oort.observe(false, everyone, replace(heard, losses=np.where(np.arange(n) == 9, 1e300, losses)))
    np.testing.assert_array_equal(oort._utility(false, view), oort._utility(fair, view))


@pytest.mark.parametrize("name", [*CLAIMS, *CLUSTERED, "local-rounds"])
@pytest.mark.parametrize("share", [0.0, 1.5, -1.0])
def test_a_share_that_makes_no_sense(name, share):
    with pytest.raises(SettingError, match="max_share of"):
        pick(SELECTORS.build(name, max_share=share, **options(name)), population(9, 0, True), 3, stream(0, "pick"))
