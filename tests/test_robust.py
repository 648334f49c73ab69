"""Robust estimators: closed forms, what they resist, and the bias that they cost."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hcsfed
from hcsfed.aggregate import ESTIMATORS, Robust, Setup
from hcsfed.aggregate.robust import middle
from hcsfed.errors import SettingError
from hcsfed.settings import LocalTraining
from hcsfed.simulate import simulate
from hcsfed.types import Selection, View
from hcsfed.updates import Updates

D = 5


def estimate(estimator, updates, weights, labels=None, torches=True, chunk=3):
    n = len(updates)
    ones = np.ones(n, np.int64)
    shares = np.full(n, 1 / max(n, 1))
    setup = Setup(
        None, None, updates.shape[1], torch.device("cpu") if torches else None, shares, ones, ones, LocalTraining()
    )
    view = View(ones, shares, np.ones(n, bool))
    selection = Selection(np.arange(n), weights, None, {} if labels is None else {"labels": labels})
    total = estimator.open(setup, {}, view, selection)
    for first in range(0, n, chunk):
        ids = np.arange(first, min(first + chunk, n))
        rows = torch.from_numpy(updates[ids]) if torches else updates[ids]
        total.add(Updates(ids, rows, np.zeros(len(ids)), ones[ids]), weights[ids])
    return np.asarray(total.value())


@pytest.fixture
def draw():
    return np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("torches", [True, False])
def test_with_equal_weights_the_median_is_numpys(draw, n, torches):
    updates = draw.normal(size=(n, D)).astype(np.float32)
    found = estimate(ESTIMATORS.build("median"), updates, np.full(n, 1 / n), torches=torches)
    np.testing.assert_allclose(found, np.median(updates, axis=0), rtol=1e-6)


def test_with_equal_weights_the_trimmed_mean_drops_as_many_at_each_end(draw):
    updates = draw.normal(size=(10, D)).astype(np.float32)
    found = estimate(ESTIMATORS.build("trimmed-mean", trim=0.2), updates, np.full(10, 0.1))
    np.testing.assert_allclose(found, np.sort(updates, axis=0)[2:8].mean(axis=0), rtol=1e-5)
    found = estimate(ESTIMATORS.build("trimmed-mean", trim=0.25), updates, np.full(10, 0.1))
    ordered = np.sort(updates, axis=0)
    half = (ordered[[2, 7]].sum(axis=0) / 2 + ordered[3:7].sum(axis=0)) / 5
    np.testing.assert_allclose(found, half, rtol=1e-5)


def test_without_trimming_it_is_the_selections_own_estimate(draw):
    updates = draw.normal(size=(9, D)).astype(np.float32)
    weights = draw.random(9)
    labels = draw.integers(0, 3, 9)
    found = estimate(Robust(trim=0.0), updates, weights, labels)
    np.testing.assert_allclose(found, weights @ updates, rtol=1e-5)


def test_each_stratum_has_its_own_centre_and_the_weight_of_its_picked():
    updates = np.array([[1.0], [2], [90], [5], [7], [6]], np.float32)
    weights = np.array([0.2, 0.2, 0.2, 0.5, 0.5, 0.5])
    labels = np.array([0, 0, 0, 4, 4, 4])
    assert estimate(ESTIMATORS.build("median"), updates, weights, labels) == pytest.approx(0.6 * 2 + 1.5 * 6)
    whole = estimate(ESTIMATORS.build("median", within="cohort"), updates, weights, labels)
    assert whole == pytest.approx(2.1 * 6), "laid end to end 1, 2, 5, 6, 7, 90, the middle of 2.1 lies in the 6"


@given(
    values=arrays(np.float64, (6, 3), elements=st.floats(-1e6, 1e6)),
    weights=arrays(np.float64, 6, elements=st.floats(0.01, 1)),
    trim=st.floats(0, 0.5),
)
def test_the_middle_is_that_of_the_step_function_of_weights(values, weights, trim):
    """By quadrature: the quantile function, averaged from trim to 1 − trim."""
    found = middle(values, weights, trim)
    points = np.linspace(min(trim, 0.499), max(1 - trim, 0.501), 4001)
    points = (points[1:] + points[:-1]) / 2
    for column, one in zip(values.T, found, strict=True):
        order = np.argsort(column)
        ends = np.cumsum(weights[order]) / weights.sum()
        quantiles = column[order][np.minimum(np.searchsorted(ends, points), 5)]
        scale = np.ptp(column) + 1e-9
        if trim < 0.49:  # the median of equal halves is a single point, which no grid finds
            assert abs(one - quantiles.mean()) <= 0.02 * scale + 1e-9 * np.abs(column).max()
        hair = 1e-9 * (np.abs(column).max() + 1)
        assert column.min() - hair <= one <= column.max() + hair


@pytest.mark.parametrize("lie", [1e6, -1e30])
@pytest.mark.parametrize("name", ["median", "trimmed-mean"])
def test_what_a_few_say_moves_it_no_further_than_the_honest_are_apart(draw, name, lie):
    updates = draw.normal(size=(10, D)).astype(np.float32)
    updates[[3, 8]] = lie
    honest = np.delete(updates, [3, 8], axis=0)
    found = estimate(ESTIMATORS.build(name, **({"trim": 0.21} if name == "trimmed-mean" else {})), updates, np.ones(10))
    assert (found / 10 >= honest.min(axis=0) - 1e-5).all()
    assert (found / 10 <= honest.max(axis=0) + 1e-5).all()


def test_the_bias_it_costs_where_honest_clients_differ():
    """One client in five moves a coordinate: for the median nobody does, inside strata of their own all is kept."""
    updates = np.repeat(np.eye(5, dtype=np.float32), 3, axis=0)
    weights = np.full(15, 1 / 15)
    assert estimate(ESTIMATORS.build("median"), updates, weights).tolist() == [0] * 5
    inside = estimate(ESTIMATORS.build("median"), updates, weights, np.repeat(np.arange(5), 3))
    assert inside == pytest.approx([0.2] * 5)


def test_nobody_answered():
    assert estimate(Robust(), np.zeros((0, D), np.float32), np.zeros(0)).tolist() == [0] * D


@pytest.mark.parametrize(("option", "value"), [("trim", 0.6), ("trim", -0.1), ("within", "class")])
def test_settings_that_make_no_sense(option, value):
    with pytest.raises(SettingError, match=f"{option} of robust"):
        Robust(**{option: value})


def test_it_keeps_a_sabotaged_run_on_its_way():
    federation = hcsfed.load("digits", clients=20, partition="iid")
    given = {"rounds": 15, "cohort": 10, "steps": 10, "lr": 0.1}
    spoilt = {"attack": {"name": "scale", "clients": [3, 11], "factor": -30.0}}
    fair = simulate(federation, **given).final_accuracy
    lost = simulate(federation, options=spoilt, **given).final_accuracy
    assert lost < fair - 0.3
    for name in ("median", "trimmed-mean"):
        assert simulate(federation, options={**spoilt, "estimator": name}, **given).final_accuracy > fair - 0.1
