"""The regression estimator: the guesses that it never writes down, what it learns, and what its weights are worth."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hcsfed.aggregate import Regression, Setup
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, pick
from hcsfed.settings import LocalTraining
from hcsfed.types import Selection, View
from hcsfed.updates import Updates

N, D, K = 9, 6, 3


@pytest.fixture
def draw():
    return np.random.default_rng(1)


def setup(weights):
    ones = np.ones(len(weights), np.int64)
    return Setup(None, None, D, torch.device("cpu"), weights, ones, ones, LocalTraining())


def view(weights, features, available=None):
    n = len(weights)
    there = np.ones(n, bool) if available is None else available
    return View(np.ones(n, np.int64), weights, there, features=features.astype(np.float32))


def estimate(estimator, ground, state, looks, selection, updates):
    total = estimator.open(ground, state, looks, selection)
    ids = selection.ids
    vectors = torch.from_numpy(updates[ids].astype(np.float32))
    total.add(Updates(ids, vectors, np.zeros(len(ids)), np.ones(len(ids), np.int64)), selection.weights)
    return total.value().double().numpy()


def test_it_equals_writing_every_guess_down(draw):
    """Round after round, beside the same thing with all N guesses as a matrix."""
    weights, x = draw.dirichlet(np.ones(N)), draw.normal(size=(N, K)).astype(np.float32)
    estimator, ground, looks = Regression(weights="selection"), setup(weights), view(weights, x)
    state = estimator.start(ground)
    left, answers = np.zeros((N, D)), []
    ridge = 0.1 * np.median((x.astype(float) ** 2).sum(axis=1))
    slope = np.zeros((K, D))
    for t in range(1, 8):
        updates = draw.normal(size=(N, D)).astype(np.float32)
        ids = np.sort(draw.choice(N, 3, replace=False))
        selection = Selection(ids, draw.uniform(0.1, 3, 3))
        guesses = x @ slope + left
        expected = weights @ guesses + selection.weights @ (updates - guesses)[ids]
        assert estimate(estimator, ground, state, looks, selection, updates) == pytest.approx(expected, abs=1e-5)
        answers += [(t, k, updates[k]) for k in ids]
        counts = np.array([(s / t) ** 2 for s, _, _ in answers])
        xs, ys = x[[k for _, k, _ in answers]].astype(float), np.array([u for _, _, u in answers])
        moments = (xs * counts[:, None]).T @ xs + ridge * np.eye(K)
        slope = np.linalg.solve(moments, (xs * counts[:, None]).T @ ys)
        left[ids] = (updates - x @ slope)[ids]
    assert state["mean"] == pytest.approx(weights @ left, abs=1e-6)


def test_exact_whoever_comes_where_features_say_it_all(draw):
    weights, x = draw.dirichlet(np.ones(N)), draw.normal(size=(N, K))
    updates = x @ draw.normal(size=(K, D))
    estimator, ground, looks = Regression(penalty=1e-9), setup(weights), view(weights, x)
    state = estimator.start(ground)
    estimate(estimator, ground, state, looks, Selection(np.arange(4), np.ones(4)), updates)
    found = estimate(estimator, ground, state, looks, Selection(np.array([2, 6]), np.array([3.0, 0.2])), updates)
    assert found == pytest.approx(weights @ updates, abs=1e-5)


def test_one_answer_renews_the_guesses_of_all_that_are_like_it(draw):
    """Two kinds of client, heard once; then both move, and one of each tells."""
    weights, kind = np.full(N, 1 / N), np.arange(N) % 2
    x, before, after = np.eye(2)[kind], draw.normal(size=(2, D)), draw.normal(size=(2, D))
    estimator, ground, looks = Regression(penalty=1e-6, recency=3.0), setup(weights), view(weights, x)
    state = estimator.start(ground)
    estimate(estimator, ground, state, looks, Selection(np.arange(N), weights), before[kind])
    for t in range(12):
        pair = Selection(np.array([2 * (t % 4), 2 * (t % 4) + 1]), np.array([5 / N, 4 / N]))
        found = estimate(estimator, ground, state, looks, pair, after[kind])
    assert found == pytest.approx(weights @ after[kind], abs=5e-3)
    never_again = estimate(estimator, ground, state, looks, Selection(np.zeros(0, np.int64), np.zeros(0)), after[kind])
    assert never_again == pytest.approx(weights @ after[kind], abs=5e-3)


def test_calibrated_weights_take_most_of_the_noise_out_of_the_first_round(draw):
    """Features that say nearly all, a cohort that is not balanced on them: a tenth of the error, and little bias."""
    n, m = 60, 8
    weights = np.full(n, 1 / n)
    x = draw.normal(size=(n, K)) + 1.0
    updates = x @ draw.normal(size=(K, D)) + 0.05 * draw.normal(size=(n, D))
    ground, looks, mean = setup(weights), view(weights, x), weights @ updates
    found = {"selection": [], "calibrated": []}
    for t in range(400):
        selection = pick(SELECTORS.build("random"), looks, m, stream(0, "calibrated", t))
        for kind, estimates in found.items():
            estimator = Regression(weights=kind)
            estimates.append(estimate(estimator, ground, estimator.start(ground), looks, selection, updates))
    error = {kind: np.mean(((np.array(es) - mean) ** 2).sum(axis=1)) for kind, es in found.items()}
    assert error["calibrated"] < 0.1 * error["selection"]
    bias = np.mean(found["calibrated"], axis=0) - mean
    assert (bias**2).sum() < 0.01 * (mean**2).sum()


def test_calibration_leaves_clients_alone_that_were_heard(draw):
    weights, x = np.full(N, 1 / N), draw.normal(size=(N, K))
    ground, looks, updates = setup(weights), view(weights, x), draw.normal(size=(N, D))
    both = {}
    for kind in ("selection", "calibrated"):
        estimator = Regression(weights=kind)
        state = estimator.start(ground)
        estimate(estimator, ground, state, looks, Selection(np.arange(N), weights), updates)
        both[kind] = estimate(estimator, ground, state, looks, Selection(np.array([1, 3]), np.ones(2)), updates)
    assert (both["selection"] == both["calibrated"]).all()


def test_calibration_stands_for_those_within_reach_alone(draw):
    """Half of the clients are away: weights come near what the design itself estimates."""
    n, there = 40, np.arange(40) < 20
    weights = np.full(n, 1 / n)
    x = draw.normal(size=(n, K)) + np.where(there, 2.0, -2.0)[:, None]
    updates = x @ draw.normal(size=(K, D))
    ground, looks = setup(weights), view(weights, x, there)
    selection = pick(SELECTORS.build("random"), looks, 6, stream(0, "within reach"))
    estimator = Regression(penalty=1e-4)
    found = estimate(estimator, ground, estimator.start(ground), looks, selection, updates)
    assert found == pytest.approx(updates[there].mean(axis=0), rel=0.01, abs=0.01)


@pytest.mark.parametrize("claim", [1e6, 1e30])
def test_no_feature_decides_what_is_guessed_of_others(draw, claim):
    """One client claims a huge feature: the estimate stays as near as without it."""
    n = 40
    weights = np.full(n, 1 / n)
    x = draw.normal(size=(n, K)) + 1.0
    updates = x @ draw.normal(size=(K, D))
    lied = x.copy()
    lied[7] *= claim
    ground, mean = setup(weights), weights @ updates
    errors = []
    for t in range(60):
        looks, state = view(weights, lied), (estimator := Regression()).start(ground)
        for r in range(3):
            selection = pick(SELECTORS.build("random"), looks, 6, stream(0, "lied", 3 * t + r))
            found = estimate(estimator, ground, state, looks, selection, updates)
        errors.append(((found - mean) ** 2).sum() / (mean**2).sum())
    assert np.median(errors) < 0.05
    assert max(errors) < 3
