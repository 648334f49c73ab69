"""Chen, Horváth and Richtárik's optimal probabilities, and the schemes that borrow their form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed.errors import SettingError
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, DataVariability, Importance, ImportanceIndependent, LossImportance, pick
from hcsfed.select.importance import chances
from hcsfed.types import View


def view_of(scores, weights=None, **more):
    n = len(scores)
    weights = np.full(n, 1 / n) if weights is None else np.asarray(weights)
    scores = np.asarray(scores, float)
    with np.errstate(over="ignore"):
        variances = scores**2
    return View(np.ones(n, int), weights, np.ones(n, bool), norms=scores, losses=scores, variances=variances, **more)


@pytest.mark.parametrize(
    ("norms", "m", "wanted"),
    [
        ([1, 2, 3, 4], 1, [0.1, 0.2, 0.3, 0.4]),  # nobody at the cap
        ([1, 1, 1, 9], 2, [1 / 3, 1 / 3, 1 / 3, 1]),  # one capped, the others share m − 1
        ([1, 2, 7, 9], 3, [1 / 3, 2 / 3, 1, 1]),  # capping one caps the next
        ([5, 5, 5, 5], 3, [0.75] * 4),
        ([0, 0, 3, 1], 3, [0.5, 0.5, 1, 1]),  # fewer moved than are wanted
        ([0, 0, 0, 0], 1, [0.25] * 4),
    ],
)
def test_water_filling_by_hand(norms, m, wanted):
    np.testing.assert_allclose(chances("x", np.full(4, 0.25), np.array(norms, float), m, 0.0), wanted)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=12), st.data())
def test_no_other_probabilities_have_less_variance(norms, data):
    # What the source solves: least Σ (ω‖u‖)²·(1 − π)/π, the variance of independent draws, under Σπ = m and π ≤ 1.
    n = len(norms)
    m = data.draw(st.integers(1, n - 1))
    rng = stream(data.draw(st.integers(0, 1000)), "weights")
    weights = rng.dirichlet(np.ones(n)) + 1e-3
    size = weights * np.array(norms)
    pi = chances("x", weights, np.array(norms), m, 0.0)
    assert pi.sum() == pytest.approx(m)
    least = (size**2 * (1 - pi) / pi).sum()
    for _ in range(20):
        a, b = rng.choice(n, 2, replace=False)
        step = rng.random() * min(1 - pi[a], pi[b] / 2)
        other = pi.copy()
        other[a] += step
        other[b] -= step
        assert (size**2 * (1 - other) / other).sum() >= least * (1 - 1e-9)


@pytest.mark.parametrize("selector", [Importance(), LossImportance(), DataVariability()])
def test_weights_are_those_of_horvitz_and_thompson(selector):
    view = view_of(stream(0, "norms").gamma(1.0, size=20), stream(0, "w").dirichlet(np.ones(20)))
    for seed in range(20):
        selection = pick(selector, view, 6, stream(seed, "ht"))
        np.testing.assert_allclose(selection.weights, view.weights[selection.ids] / selection.inclusion[selection.ids])
        assert selection.inclusion.sum() == pytest.approx(6)


@pytest.mark.parametrize("selector", [LossImportance(floor=0.2), DataVariability(floor=0.2)])
def test_chances_follow_the_criterion_above_an_even_floor(selector):
    # Scores ω·s with shares (0.1, 0.3, 0.6); no cap at m = 1.
    view = view_of([1, 3, 6])
    np.testing.assert_allclose(
        pick(selector, view, 1, stream(0, "f")).inclusion, 0.8 * np.array([0.1, 0.3, 0.6]) + 0.2 / 3
    )


def test_a_client_without_loss_still_speaks_for_itself():
    view = view_of([0, 1, 1, 1])
    assert pick(LossImportance(), view, 2, stream(0, "zero")).inclusion[0] == pytest.approx(0.1 * 2 / 4)


def test_independent_draws_answer_m_on_average():
    view = view_of([0.1, 1, 1, 2, 3, 9])
    sizes = [len(pick(ImportanceIndependent(), view, 3, stream(i, "independent"))) for i in range(2000)]
    assert np.mean(sizes) == pytest.approx(3, abs=0.06)
    assert np.std(sizes) > 0.5


@pytest.mark.parametrize("name", ["importance", "importance-independent"])
def test_a_false_claim_buys_no_more_than_its_share(name):
    honest, m = np.ones(50), 5
    liar = honest.copy()
    liar[7] = 1e200
    certain = pick(SELECTORS.build(name), view_of(liar), m, stream(0, "liar"))
    assert certain.inclusion[7] == 1
    bounded = pick(SELECTORS.build(name, max_share=0.05), view_of(liar), m, stream(0, "liar"))
    assert bounded.inclusion[7] == pytest.approx(0.05 * m)
    others = np.delete(bounded.inclusion, 7)
    np.testing.assert_allclose(others, (m - 0.05 * m) / 49)
    same = pick(SELECTORS.build(name, max_share=0.05), view_of(honest), m, stream(0, "liar"))
    np.testing.assert_allclose(same.inclusion, m / 50)


@pytest.mark.parametrize(
    ("selector", "parameter"),
    [
        (Importance(floor=-0.1), "floor"),
        (Importance(max_share=0), "max_share"),
        (ImportanceIndependent(floor=1.1), "floor"),
        (LossImportance(floor=0), "floor"),
        (DataVariability(floor=0), "floor"),
    ],
)
def test_bad_settings_are_named(selector, parameter):
    with pytest.raises(SettingError, match=f"{parameter} of {selector.name} must be"):
        pick(selector, view_of([1, 2, 3]), 2, stream(0, "bad"))
