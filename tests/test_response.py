"""Answers that never come: unbiased by going through every cohort and every pattern of answers."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from hcsfed.errors import SettingError
from hcsfed.rng import stream
from hcsfed.select import ResponseRates, answered, to_ask
from hcsfed.types import Selection

N, M = 5, 2
WEIGHTS = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
CHANCES = np.array([0.9, 0.2, 0.5, 1.0, 0.7])


def independent():
    """Every pattern of answers of all clients, and its probability."""
    for pattern in product([False, True], repeat=N):
        yield np.array(pattern), float(np.where(pattern, CHANCES, 1 - CHANCES).prod())


def together():
    """The same chances with as much covariance as there can be: one dice for all."""
    cuts = np.concatenate([[0], np.sort(CHANCES), [1]])
    for low, high in pairwise(cuts):
        yield high <= CHANCES, float(high - low)


def expected(updates, chances, law, **options):
    """E Σ weights·u over all cohorts of simple random selection and all patterns of answers."""
    cohorts = [np.array(c) for c in combinations(range(N), M)]
    mean = np.zeros(updates.shape[1])
    for ids in cohorts:
        asked = Selection(ids, WEIGHTS[ids] * N / M, np.full(N, M / N))
        for pattern, probability in law():
            came = answered(asked, pattern[ids], chances, **options)
            mean += probability / len(cohorts) * (came.weights @ updates[came.ids])
    return mean


@pytest.fixture
def updates():
    return np.random.default_rng(0).normal(size=(N, 3))


@pytest.mark.parametrize("law", [independent, together])
def test_unbiased_with_the_right_chances_however_answers_hang_together(updates, law):
    assert expected(updates, CHANCES, law) == pytest.approx(WEIGHTS @ updates, abs=1e-12)


@pytest.mark.parametrize("law", [independent, together])
def test_left_alone_the_rarely_heard_count_for_too_little(updates, law):
    assert expected(updates, 1.0, law) == pytest.approx((WEIGHTS * CHANCES) @ updates, abs=1e-12)
    assert np.abs(expected(updates, 1.0, law) - WEIGHTS @ updates).max() > 0.01


def test_a_floor_bounds_weights_and_biases_whom_it_touches(updates):
    shrunk = np.where(CHANCES < 0.4, CHANCES / 0.4, 1.0)
    found = expected(updates, CHANCES, independent, floor=0.4)
    assert found == pytest.approx((WEIGHTS * shrunk) @ updates, abs=1e-12)
    asked = Selection(np.array([1, 2]), np.array([0.3, 0.4]))
    assert answered(asked, np.array([True, True]), 1e-12, floor=0.1).weights.tolist() == pytest.approx([3.0, 4.0])


def test_who_came_and_who_did_not():
    asked = Selection(np.array([0, 2, 4]), np.array([0.5, 0.6, 0.7]), np.full(N, 0.6), {"m_h": 3})
    came = answered(asked, np.array([True, False, True]), CHANCES)
    assert came.ids.tolist() == [0, 4]
    assert came.weights == pytest.approx([0.5 / 0.9, 1.0])
    assert came.inclusion == pytest.approx(0.6 * CHANCES)
    assert came.info["silent"].tolist() == [2]
    assert came.info["m_h"] == 3


def test_where_nobody_came_nothing_is_made_up():
    asked = Selection(np.array([1, 3]), np.array([0.5, 0.5]), np.full(N, 0.4))
    came = answered(asked, np.zeros(2, bool), CHANCES)
    assert len(came) == 0
    assert came.weights.shape == (0,)
    assert came.info["silent"].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("came", "chances", "floor", "told"),
    [
        ([True], 1.0, 0.05, "came of answered must be a mask of the 2"),
        ([1, 0], 1.0, 0.05, "came of answered"),
        ([True, False], 1.5, 0.05, "chances of answered must be numbers in"),
        ([True, False], [0.5, 0.5, np.nan, 0.5, 0.5], 0.05, "chances of answered"),
        ([True, False], 1.0, 0.0, "floor of answered"),
    ],
)
def test_bad_input_is_told(came, chances, floor, told):
    with pytest.raises(SettingError, match=told):
        answered(Selection(np.array([0, 1]), np.ones(2)), np.array(came), chances, floor=floor)


@pytest.mark.parametrize(
    ("size", "chances", "clients", "asked"),
    [(10, 1.0, 100, 10), (10, 0.5, 100, 20), (10, [0.2, 0.4], 100, 34), (10, 0.05, 100, 100), (3, 0.0, 7, 7)],
)
def test_as_many_are_asked_as_it_takes(size, chances, clients, asked):
    assert to_ask(size, chances, clients) == asked


def test_rates_start_at_one_and_find_each_clients_own():
    rates = ResponseRates()
    state = rates.start(N)
    assert rates.chances(state).tolist() == [1.0] * N
    rng = stream(0, "answers")
    for _ in range(4000):
        asked = np.sort(rng.choice(N, M, replace=False))
        state = rates.observe(state, asked, asked[rng.random(M) < CHANCES[asked]])
    assert rates.chances(state) == pytest.approx(CHANCES, abs=0.04)


def test_rates_of_the_never_asked_are_those_of_all():
    rates = ResponseRates(strength=2.0)
    state = rates.observe(rates.start(3), np.array([0, 1]), np.array([0]))
    pool = 2 / 3  # (1 came + 1) / (2 asked + 1)
    assert rates.chances(state) == pytest.approx([(1 + 2 * pool) / 3, 2 * pool / 3, pool])


def test_what_is_forgotten_counts_no_more():
    rates, everyone, nobody = ResponseRates(forget=0.3), np.arange(3), np.zeros(0, int)
    state = rates.start(3)
    for came in [everyone] * 40 + [nobody] * 40:
        state = rates.observe(state, everyone, came)
    assert rates.chances(state).max() < 0.1
    assert all(array.dtype == np.float64 for array in state.values())


@pytest.mark.parametrize(("option", "value"), [("strength", 0), ("forget", 1.0)])
def test_rates_refuse_what_makes_no_sense(option, value):
    with pytest.raises(SettingError, match=f"{option} of response rates"):
        ResponseRates(**{option: value})
