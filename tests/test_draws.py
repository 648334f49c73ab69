"""Each draw keeps its inclusion probabilities, exactly."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed.errors import SettingError
from hcsfed.select.draws import (
    SURE,
    conditional_poisson,
    duels,
    given_size,
    inclusion,
    multinomial,
    pairs,
    pivotal,
    poisson,
    systematic,
    without_replacement,
    working_chances,
)

FIXED = [systematic, pivotal, conditional_poisson, without_replacement]
sizes = st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e12)), min_size=1, max_size=30)


@given(sizes, st.data())
@settings(deadline=None, max_examples=100)
def test_inclusion_is_proportional_up_to_one(values, data):
    s = np.array(values)
    m = data.draw(st.integers(1, len(s)))
    pi = inclusion(s, m)
    assert pi.sum() == pytest.approx(m, rel=1e-9)
    assert ((pi >= 0) & (pi <= 1)).all()
    if (s > 0).sum() > m:
        assert (pi[s == 0] == 0).all()
        below = (pi > 0) & (pi < 1)
        if below.any():
            ratio = pi[below] / s[below]
            assert ratio == pytest.approx(ratio[0], rel=1e-9)
            assert (s[pi >= 1] * ratio[0] >= 1 - 1e-9).all()


def test_inclusion_at_the_edges():
    assert inclusion(np.array([1e300, 1.0, 1.0, 0.0]), 2) == pytest.approx([1.0, 0.5, 0.5, 0.0])
    assert inclusion(np.zeros(4), 1).tolist() == [0.25] * 4
    assert inclusion(np.array([3.0, 0.0, 0.0]), 2).tolist() == [1.0, 0.5, 0.5]
    assert inclusion(np.array([2.0, 1.0, 1.0]), 1.5) == pytest.approx([0.75, 0.375, 0.375])
    assert inclusion(np.array([5.0]), 1).tolist() == [1.0]
    with pytest.raises(SettingError, match="m of inclusion probabilities"):
        inclusion(np.ones(3), 4)
    with pytest.raises(SettingError, match="finite"):
        inclusion(np.array([1.0, np.nan]), 1)


@pytest.mark.parametrize("draw", FIXED)
@given(sizes, st.data())
@settings(deadline=None, max_examples=40)
def test_exactly_m_distinct_units_come(draw, values, data):
    s = np.array(values)
    m = data.draw(st.integers(1, len(s)))
    pi = inclusion(s, m)
    ids = draw(pi, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert len(ids) == len(np.unique(ids)) == m
    assert set(np.flatnonzero(pi >= 1)) <= set(ids)
    assert (pi[ids] > SURE).all()


@pytest.mark.parametrize(("n", "m"), [(10, 3), (10, 6), (10, 7), (100, 7), (100, 14), (100, 17)])
def test_uniform_weights_where_float_book_keeping_is_known_to_fail(n, m):
    for draw in FIXED:
        assert len(draw(np.full(n, m / n), np.random.default_rng(0))) == m


@pytest.mark.parametrize("draw", FIXED)
def test_frequencies(draw):
    pi = inclusion(np.array([9.0, 1.0, 2.0, 3.0, 0.5, 4.0, 0.0, 2.5]), 3)
    rng = np.random.default_rng(5)
    count, runs = np.zeros(8), 2500
    for _ in range(runs):
        count[draw(pi, rng)] += 1
    assert (np.abs(count / runs - pi) <= 4.5 * np.sqrt(pi * (1 - pi) / runs)).all()


def test_a_systematic_draw_by_every_start():
    class Start:
        def __init__(self, at):
            self.at = at

        def integers(self, unit):
            return int(self.at * unit)

    pi = inclusion(np.array([9.0, 1.0, 2.0, 3.0, 0.5, 4.0]), 3)
    starts = (np.arange(20_000) + 0.5) / 20_000
    count = sum(np.bincount(systematic(pi, Start(u)), minlength=6) for u in starts)
    assert count / len(starts) == pytest.approx(pi, abs=2e-4)


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.2), (0.3, 0.7), (0.9, 0.6), (0.1, 0.95)])
def test_a_duel_keeps_both_chances_in_the_mean(a, b):
    total = np.zeros(2)
    lucks = (np.arange(2000) + 0.5) / 2000
    for luck in lucks:
        chances = [a, b]
        duels(chances, [0, 1], [0.0, luck], SURE, 2)
        assert sum(chances) == pytest.approx(a + b)
        assert min(chances) <= SURE or max(chances) >= 1 - SURE
        total += chances
    assert total / len(lucks) == pytest.approx([a, b], abs=1e-3)


def test_pairs_of_conditional_poisson_against_every_cohort():
    pi = inclusion(np.array([4.0, 1.0, 2.0, 3.0, 0.5, 2.5]), 3)
    joint = pairs(pi)
    # The law is a product of odds over the cohort: fit the odds to the pairs' single probabilities by brute force.
    cohorts = np.array([[k in c for k in range(6)] for c in combinations(range(6), 3)])
    odds = pi.copy()
    for _ in range(2000):
        law = np.where(cohorts, odds, 1).prod(axis=1)
        law /= law.sum()
        odds *= pi / (law @ cohorts)
    assert joint == pytest.approx((cohorts * law[:, None]).T @ cohorts, abs=1e-9)
    assert joint.sum(axis=1) == pytest.approx(3 * pi)
    assert pairs(np.full(7, 3 / 7))[0, 1] == pytest.approx(3 * 2 / (7 * 6))


@given(
    sizes=st.lists(st.floats(0.1, 10.0), min_size=3, max_size=60),
    giants=st.integers(0, 20),
    factor=st.sampled_from([1.0, 10.0, 1e3, 1e6, 1e9]),
    share=st.floats(0.02, 0.98),
)
@settings(deadline=None, max_examples=60)
def test_the_law_of_largest_entropy_has_its_probabilities_however_unequal_they_are(sizes, giants, factor, share):
    """By the sum over one unit of the probabilities of pairs, which its working chances alone determine."""
    sizes = np.array(sizes)
    sizes[:giants] *= factor
    m = max(1, round(share * len(sizes)))
    pi = inclusion(sizes, m)
    joint = pairs(pi)
    assert joint.sum(axis=1) == pytest.approx(m * pi, rel=1e-6, abs=1e-9)
    assert (joint <= np.minimum.outer(pi, pi) + 1e-9).all()
    assert (joint >= -1e-12).all()
    assert len(conditional_poisson(pi, np.random.default_rng(0))) == m


def test_half_of_a_hundred_and_ten_who_claim_a_hundredfold_are_drawn_as_they_should_be():
    """Where differences of numbers near 1 are taken, both come out as nonsense, and no draw ever has the right size."""
    rng = np.random.default_rng(0)
    for sizes, m in ((rng.gamma(2.0, size=100), 50), (np.append(rng.gamma(9, size=90), rng.gamma(900, size=10)), 10)):
        pi = inclusion(sizes, m)
        runs = 400
        count = sum(np.bincount(conditional_poisson(pi, rng), minlength=100) for _ in range(runs))
        assert (np.abs(count / runs - pi) <= 4.5 * np.sqrt(pi * (1 - pi) / runs) + 1e-9).all()


@given(st.lists(st.floats(1e-9, 1 - 1e-9), min_size=2, max_size=9))
@settings(deadline=None, max_examples=200)
def test_who_comes_given_how_many_against_every_cohort(chances):
    odds = np.array(chances) / (1 - np.array(chances))
    m = min(max(round(sum(chances)), 1), len(odds) - 1)
    cohorts = np.array([[k in c for k in range(len(odds))] for c in combinations(range(len(odds)), m)])
    law = np.where(cohorts, odds, 1.0).prod(axis=1)
    inside, outside = law @ cohorts, law @ ~cohorts
    found = given_size(odds, m)
    assert found == pytest.approx(inside / outside, rel=1e-6)
    assert found / (1 + found) == pytest.approx(inside / law.sum(), abs=1e-11)


@given(sizes, st.data())
@settings(deadline=None, max_examples=200)
def test_working_chances_give_the_chances_wanted(values, data):
    s = np.array(values)
    pi = inclusion(s, data.draw(st.integers(1, len(s))))
    open_ = (pi > SURE) & (pi < 1 - SURE)
    m = round(float(pi[open_].sum()))
    assert len(conditional_poisson(pi, np.random.default_rng(0))) == round(pi.sum())
    if 0 < m < open_.sum():
        chances = working_chances(pi[open_], m)
        found = given_size(chances / (1 - chances), m)
        assert found / (1 + found) == pytest.approx(pi[open_], abs=1e-8)
        assert abs(chances.sum() - m) < 1.5, "so that a size of m is likely"


@pytest.mark.parametrize(("n", "m", "spread"), [(100, 10, 2.0), (100, 50, 1.0), (100, 90, 3.0), (500, 250, 1.0)])
def test_chances_near_one_are_drawn_and_in_time(n, m, spread):
    """Recursions that take a unit's odds out again lose their digits where these are large: the draw never ended."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        pi = inclusion(np.exp(rng.normal(0, spread, n)), m)
        assert len(conditional_poisson(pi, rng)) == m


def test_the_draw_of_a_run_that_never_ended():
    """π of `importance` in round 13 of a federation in which one client holds half of all rows."""
    pi = np.concatenate([[1.0, 0.99501288, 0.71873992, 0.68463636, 0.67724963], np.full(95, 5.92436121 / 95)])
    chances = working_chances(pi[1:], 9)
    found = given_size(chances / (1 - chances), 9)
    assert found / (1 + found) == pytest.approx(pi[1:], abs=1e-9)
    rng = np.random.default_rng(0)
    count = sum(np.bincount(conditional_poisson(pi, rng), minlength=100) for _ in range(1500))
    assert (np.abs(count / 1500 - pi) <= 4.5 * np.sqrt(pi * (1 - pi) / 1500) + 1e-9).all()


@pytest.mark.parametrize("m", [1, 2, 4, 5])
def test_pairs_with_chances_near_one_against_every_cohort(m):
    pi = inclusion(np.array([200.0, 30.0, 4.0, 1.0, 0.5, 0.01]), m)
    open_ = (pi > SURE) & (pi < 1 - SURE)
    left = round(float(pi[open_].sum()))
    joint = pairs(pi)
    expected = np.outer(pi, pi)
    if 0 < left < open_.sum():
        chances = working_chances(pi[open_], left)
        ids = np.flatnonzero(open_)
        cohorts = np.array([[k in c for k in range(len(ids))] for c in combinations(range(len(ids)), left)])
        law = np.where(cohorts, chances, 1 - chances).prod(axis=1)
        expected[np.ix_(ids, ids)] = (cohorts * (law / law.sum())[:, None]).T @ cohorts
    np.fill_diagonal(expected, pi)
    assert joint == pytest.approx(expected, abs=1e-9)


def test_compiled_and_plain_duels_agree():
    rng = np.random.default_rng(1)
    pi = inclusion(rng.random(5000), 50)
    order, luck = rng.permutation(5000), rng.random(5000)
    plain, fast = pi.tolist(), pi.copy()
    duels(plain, order.tolist(), luck.tolist(), SURE, 5000)
    from hcsfed.jit import compiled

    compiled(duels)(fast, order, luck, SURE, 5000)
    assert plain == fast.tolist()


def test_draws_of_varying_size():
    rng = np.random.default_rng(0)
    pi = np.array([0.0, 1.0, 0.5, 0.25])
    came = sum(np.bincount(poisson(pi, rng), minlength=4) for _ in range(2000))
    assert came[:2].tolist() == [0, 2000]
    assert came[2:] / 2000 == pytest.approx([0.5, 0.25], abs=0.05)
    times = multinomial(np.array([1.0, 0.0, 3.0]), 4000, rng)
    assert times.sum() == 4000
    assert times[1] == 0
    assert times[2] / 4000 == pytest.approx(0.75, abs=0.03)
