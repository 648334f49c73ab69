"""Estimators: right on average for any guess, exact for a right one, and the same after a restart."""

from __future__ import annotations

import copy
from itertools import combinations

import numpy as np
import pytest
import torch

import hcsfed
from hcsfed.aggregate import ESTIMATORS, Difference, Regression, Setup, WeightedSum
from hcsfed.assemble import assemble
from hcsfed.errors import SettingError
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, Frontier, pick
from hcsfed.settings import LocalTraining, Settings, merge
from hcsfed.simulate import Standing, rounds, simulate
from hcsfed.types import Selection, View
from hcsfed.updates import Updates

N, D, K = 7, 5, 3
KINDS = {
    "client": Difference(),
    "cluster": Difference(state="cluster", clusters=3),
    "none": Difference(state="none"),
    "nearest": Difference(opening="nearest"),
    "regression": Regression(weights="selection", penalty=0.3),
}


@pytest.fixture
def draw():
    return np.random.default_rng(0)


def setup(weights):
    work = LocalTraining()
    n = len(weights)
    ones = np.ones(n, np.int64)
    return Setup(None, None, D, torch.device("cpu"), weights, ones, ones, work)


def view(weights, features):
    n = len(weights)
    return View(np.ones(n, np.int64), weights, np.ones(n, bool), features=features)


def guessing(estimator, ground, draw):
    """A memory full of arbitrary guesses."""
    state = estimator.start(ground)
    state["kept"][:] = draw.normal(size=state["kept"].shape)
    parts = np.eye(len(ground.weights))
    if estimator.name == "regression":
        state["known"][:4] = True
        state["features"] = draw.normal(size=(N, K)).astype(np.float32)
        state["products"], x = draw.normal(size=(K, D)), draw.normal(size=(4, K))
        state["moments"], state["rounds"], state["begun"] = x.T @ x, np.ones(1), np.ones(1, bool)
    elif estimator.state == "cluster":
        state["labels"] = draw.permutation(np.arange(N) % 3)
        parts = np.eye(3)[state["labels"]]
        state["begun"] = np.ones(1, bool)
    if estimator.opening == "nearest":
        state["known"][:4] = True
        state["kept"][4:] = 0
    if len(state["kept"]):
        state["mean"] = ground.weights @ parts @ state["kept"].astype(float)
    return state


def estimate(estimator, ground, state, looks, selection, updates, chunk=100):
    total = estimator.open(ground, state, looks, selection)
    for first in range(0, len(selection), chunk):
        ids = selection.ids[first : first + chunk]
        u = Updates(ids, torch.from_numpy(updates[ids]), np.zeros(len(ids)), np.ones(len(ids), np.int64))
        total.add(u, selection.weights[first : first + chunk])
    return total.value().double().numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_unbiased_for_any_guess_by_enumeration(kind, draw):
    weights = draw.dirichlet(np.ones(N))
    ground, looks = setup(weights), view(weights, draw.normal(size=(N, K)).astype(np.float32))
    updates = draw.normal(size=(N, D)).astype(np.float32)
    state = guessing(KINDS[kind], ground, draw)
    cohorts = [np.array(c) for c in combinations(range(N), 3)]
    estimates = [
        estimate(
            KINDS[kind],
            ground,
            copy.deepcopy(state),
            looks,
            Selection(ids, weights[ids] * N / 3),
            updates,
        )
        for ids in cohorts
    ]
    assert np.mean(estimates, axis=0) == pytest.approx(weights @ updates, abs=1e-6)
    assert np.std(estimates, axis=0).min() > 1e-3  # and not because every cohort gives the same


@pytest.mark.parametrize("selector", ["cube", "pivotal", "md", "hcsfed"])
def test_unbiased_with_balanced_and_unequal_designs_by_monte_carlo(selector, draw):
    weights = draw.dirichlet(np.full(N, 3.0))
    ground, looks = setup(weights), view(weights, draw.normal(size=(N, K)).astype(np.float32))
    looks = hcsfed.types.View(**{**vars(looks), "norms": np.ones(N)})
    updates = draw.normal(size=(N, D)).astype(np.float32)
    state = guessing(KINDS["regression"], ground, draw)
    chosen = SELECTORS.build(selector)
    estimates = []
    for t in range(3000):
        selection = pick(chosen, looks, 3, stream(0, selector, t))
        memory = {name: array.copy() for name, array in state.items()}
        estimates.append(estimate(KINDS["regression"], ground, memory, looks, selection, updates))
    error = np.std(estimates, axis=0) / np.sqrt(len(estimates))
    assert (np.abs(np.mean(estimates, axis=0) - weights @ updates) < 4.5 * error).all()


def test_own_weights_are_biased_and_say_so(draw):
    weights = np.full(N, 1 / N)
    ground, looks = setup(weights), view(weights, None)
    updates = draw.normal(size=(N, D)).astype(np.float32)
    mifa = Difference(weights="own")
    state = guessing(mifa, ground, draw)
    after = copy.deepcopy(state)
    ids = np.array([1, 4])
    found = estimate(mifa, ground, after, looks, Selection(ids, weights[ids] * N / 2), updates)
    last = state["kept"].copy()
    last[ids] = updates[ids]
    assert found == pytest.approx(last.mean(axis=0), abs=1e-6)


def test_exact_for_a_right_guess_whoever_comes(draw):
    weights = draw.dirichlet(np.ones(N))
    updates = draw.normal(size=(N, D)).astype(np.float32)
    ground, looks = setup(weights), view(weights, None)
    state = Difference().start(ground)
    estimate(Difference(), ground, state, looks, Selection(np.arange(N), np.ones(N)), updates)
    found = estimate(Difference(), ground, state, looks, Selection(np.array([2, 6]), np.array([3.0, 0.2])), updates)
    assert found == pytest.approx(weights @ updates, abs=1e-5)


def test_who_was_never_picked_is_guessed_like_the_nearest_who_was(draw):
    weights = draw.dirichlet(np.ones(N))
    features = np.array([[0, 0], [9, 9], [1, 0], [8, 9], [0, 1], [7, 7], [0.2, 0]], np.float32)
    ground, looks = setup(weights), view(weights, features)
    updates = draw.normal(size=(N, D)).astype(np.float32)
    estimator = Difference(opening="nearest")
    state = estimator.start(ground)
    estimate(estimator, ground, state, looks, Selection(np.array([0, 1]), np.ones(2)), updates)
    guesses = updates[[0, 1, 0, 1, 0, 1, 0]].astype(float)
    selection = Selection(np.array([1, 5]), np.array([0.4, 0.9]))
    expected = weights @ guesses + selection.weights @ (updates - guesses)[selection.ids]
    found = estimate(estimator, ground, state, looks, selection, updates)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", ["client", "cluster", "nearest", "regression"])
def test_the_running_mean_is_the_mean_of_what_is_kept_however_chunked(kind, draw):
    weights = draw.dirichlet(np.ones(N))
    ground, looks = setup(weights), view(weights, draw.normal(size=(N, K)).astype(np.float32))
    estimator = KINDS[kind]
    whole, single = estimator.start(ground), estimator.start(ground)
    for t in range(6):
        updates = draw.normal(size=(N, D)).astype(np.float32)
        selection = pick(SELECTORS.build("random"), looks, 3, stream(0, "chunks", t))
        one = estimate(estimator, ground, whole, looks, selection, updates)
        other = estimate(estimator, ground, single, looks, selection, updates, chunk=1)
        assert (one == other).all()
    owner = whole.get("labels", np.arange(N))
    assert whole["mean"] == pytest.approx(weights @ whole["kept"][owner].astype(float), abs=1e-6)
    for name, array in whole.items():
        assert (array == single[name]).all(), name


def test_a_cluster_of_its_own_for_each_is_the_clients_last_update(draw):
    weights = draw.dirichlet(np.ones(N))
    ground, looks = setup(weights), view(weights, draw.normal(size=(N, K)).astype(np.float32))
    one, other = Difference(), Difference(state="cluster", clusters=N)
    memories = one.start(ground), other.start(ground)
    for t in range(5):
        updates = draw.normal(size=(N, D)).astype(np.float32)
        selection = pick(SELECTORS.build("random"), looks, 3, stream(0, "clusters", t))
        pair = [estimate(e, ground, m, looks, selection, updates) for e, m in zip((one, other), memories, strict=True)]
        assert pair[0] == pytest.approx(pair[1], abs=1e-6)


def test_nothing_kept_is_the_weighted_sum(draw):
    updates = draw.normal(size=(N, D)).astype(np.float32)
    weights = draw.dirichlet(np.ones(N))
    selection = Selection(np.array([0, 3]), np.array([0.7, 0.1]))
    total = WeightedSum(D, torch.device("cpu"))
    total.add(torch.from_numpy(updates[selection.ids]), selection.weights)
    none = KINDS["none"]
    found = estimate(none, setup(weights), none.start(setup(weights)), view(weights, None), selection, updates)
    assert (found == total.value().double().numpy()).all()


@pytest.mark.parametrize("estimator", ["fedvarp", "mifa", "regression", "weighted"])
def test_the_last_updates_take_the_noise_of_selection_out_on_least_squares(estimator):
    """A few at random settle exactly where full participation does; with the plain weights they never settle."""
    federation = hcsfed.load("quadratic", clients=6, data_options={"dimension": 4})
    given = {"model": "linear", "local.batch": 1000, "local.lr": 0.05, "local.steps": 8}

    def end(**more):
        parts = assemble(merge(Settings(), given, more), federation=federation)
        *_, (_, standing) = rounds(parts, Standing.first(parts))
        return standing.parameters.numpy()

    everyone = end(selector="full", rounds=150)
    few = end(selector="random", cohort=3, estimator=estimator, rounds=500, **{"server.lr": 0.3})
    off = np.abs(few - everyone).max()
    assert off > 1e-2 if estimator == "weighted" else off < 1e-3


@pytest.fixture(scope="module")
def digits():
    return hcsfed.load("digits", clients=12)


QUICK = {"cohort": 4, "steps": 2, "lr": 0.05}


@pytest.mark.parametrize("estimator", list(ESTIMATORS))
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_a_run_taken_up_equals_one_that_went_through(digits, estimator, algorithm, tmp_path):
    given = {**QUICK, "selector": "pivotal", "algorithm": algorithm, "options": {"estimator.name": estimator}}
    whole = simulate(digits, rounds=6, **given)
    simulate(digits, rounds=3, out=tmp_path / "run", **given)
    resumed = simulate(digits, rounds=6, out=tmp_path / "run", resume=True, **given)
    assert [r["loss"] for r in resumed.history] == [r["loss"] for r in whole.history]


def test_a_full_first_round_is_full_participation_and_is_paid_for(digits):
    full = simulate(digits, selector="full", rounds=1, **QUICK).history[0]
    run = simulate(digits, selector="random", rounds=2, options={"estimator.name": "mifa"}, **QUICK).history
    for figure in ("ids", "weights", "loss", "upload_bytes", "download_bytes", "local_steps"):
        assert run[0][figure] == full[figure]
    assert len(run[1]["ids"]) == 4


def test_a_regression_has_everyone_send_one_feature_whoever_selects(digits):
    run = simulate(digits, selector="random", rounds=3, options={"estimator.name": "regression"}, **QUICK)
    model, sketch = 4 * run.about["dimension"], 4 * 64
    assert [r["upload_bytes"] for r in run.history] == [
        12 * sketch + 4 * model,
        4 * (model + sketch),
        4 * (model + sketch),
    ]
    assert [r["local_steps"] for r in run.history] == [24, 8, 8]


def test_an_opening_of_a_few_steps_costs_few_and_counts_them(digits):
    """Everyone takes 1 of 2 steps once; the picked have the model already, and train in full."""
    run = simulate(digits, selector=Frontier(opening=1), rounds=2, **QUICK)
    model, sketch = 4 * run.about["dimension"], 4 * 64
    assert [r["local_steps"] for r in run.history] == [12 * 1 + 4 * 2, 4 * 2]
    assert [r["upload_bytes"] for r in run.history] == [12 * sketch + 4 * (model + sketch), 4 * (model + sketch)]
    assert [r["download_bytes"] for r in run.history] == [12 * model, 4 * model]


def test_an_opening_of_all_steps_is_the_sketch_of_the_round(digits):
    """As many steps as in a round, or more than there are: the same cohorts and model as without the shortcut."""
    whole, short = (simulate(digits, selector=Frontier(opening=n), rounds=3, **QUICK) for n in (0, 2))
    assert [r["ids"] for r in whole.history] == [r["ids"] for r in short.history]
    assert [r["loss"] for r in whole.history] == pytest.approx([r["loss"] for r in short.history])


def test_frontier_is_a_preset_that_settings_can_change():
    parts = assemble(merge(Settings(), {"selector": "frontier"}))
    assert (parts.feature.name, parts.estimator) == ("sketch", ESTIMATORS.build("regression"))
    plain = assemble(merge(Settings(), {"selector": "frontier", "estimator": "weighted", "features": "cosine"}))
    assert (plain.feature.name, plain.estimator.name) == ("cosine", "weighted")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"estimator": "fedvarpp"}, "did you mean 'fedvarp'"),
        ({"estimator": {"name": "difference", "state": "server"}}, "state of difference must be one of client"),
        ({"estimator": {"name": "regression", "penalty": 0}}, "penalty of regression"),
        ({"estimator": {"name": "regression", "recency": -1}}, "recency of regression"),
        (
            {"estimator": {"name": "regression", "weights": "own"}},
            "weights of regression must be one of selection, cal",
        ),
        ({"estimator": {"name": "difference", "clusters": 0}}, "clusters of difference"),
        ({"estimator": {"name": "difference", "state": "cluster", "opening": "nearest"}}, "opening of difference"),
        ({"selector": {"name": "frontier", "opening": -1}}, "opening of frontier"),
        ({"selector": {"name": "frontier", "design": "random"}}, "design of frontier"),
        ({"selector": {"name": "frontier", "chances": "norm"}}, "chances of frontier must be one of residual, even"),
        ({"estimator": {"name": "mifa", "clusters": 3}}, "takes no options"),
    ],
)
def test_bad_options_are_told(options, told):
    with pytest.raises(SettingError, match=told):
        assemble(merge(Settings(), options))
