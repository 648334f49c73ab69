"""The round loop: right on a problem with a known answer, the same at every restart, and honest about its costs."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import hcsfed
from hcsfed.assemble import assemble
from hcsfed.errors import DivergedError, HcsfedError, RunFolderError
from hcsfed.select import SELECTORS, Random
from hcsfed.settings import Settings, merge
from hcsfed.simulate import simulate

QUICK = {"rounds": 4, "cohort": 5, "steps": 3, "lr": 0.1}


def bare(history):
    """What must not change from one run to another: everything but the clock."""
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


@pytest.fixture(scope="module")
def federation():
    return hcsfed.load("digits", clients=20)


def test_same_seed_same_run_and_another_seed_another(federation):
    first, again, other = (simulate(federation, seed=seed, **QUICK) for seed in (0, 0, 1))
    assert bare(first.history) == bare(again.history)
    assert first.history[0]["ids"] != other.history[0]["ids"]


def test_the_loop_and_the_fast_backend_tell_the_same_story(federation):
    loop, batched = (simulate(federation, backend=backend, **QUICK) for backend in ("loop", "batched"))
    assert [r["ids"] for r in loop.history] == [r["ids"] for r in batched.history]
    assert [r["loss"] for r in loop.history] == pytest.approx([r["loss"] for r in batched.history], rel=1e-4)


def test_full_participation_by_gradient_steps_follows_the_closed_form():
    """One full-batch step a client and full participation: w ← w − η·Σω_k·(H_k·w − b_k), on least squares."""
    federation = hcsfed.load("quadratic", clients=6)
    rate, rounds = 0.01, 5
    run = simulate(
        federation,
        model="linear",
        selector="full",
        rounds=rounds,
        steps=1,
        batch=int(federation.sizes.max()),
        lr=rate,
        cohort=1.0,
    )
    parts = assemble(merge(Settings(), {"model": "linear"}), federation=federation)
    w = parts.trainer.initial().double().numpy()
    for _ in range(rounds):
        gradient = np.zeros_like(w)
        for k, weight in enumerate(federation.weights):
            x, y = (part.astype(float) for part in federation.client(k))
            gradient += weight * x.T @ (x @ w - y[:, 0]) / len(x)
        w -= rate * gradient
    residual = federation.test_x.astype(float) @ w - federation.test_y[:, 0]
    assert run.final_loss == pytest.approx(0.5 * np.mean(residual**2), rel=1e-4)


@pytest.mark.parametrize("selector", list(SELECTORS))
def test_every_selector_runs(federation, selector):
    run = simulate(federation, selector=selector, **QUICK)
    assert len(run.history) == 4
    for record in run.history:
        assert len(record["ids"]) == len(record["weights"])
        assert np.isfinite(record["loss"])


def test_the_ledger_counts_models_both_ways_and_steps(federation):
    run = simulate(federation, selector="random", **QUICK)
    model = 4 * run.about["dimension"]
    for record in run.history:
        assert record["upload_bytes"] == record["download_bytes"] == 5 * model
        assert record["local_steps"] == 5 * 3


def test_who_was_never_picked_is_a_vector_of_zeros_and_costs_nothing(federation):
    heard, zero = (
        simulate(federation, selector="clustered-updates", options={"selector.unseen": u}, **QUICK)
        for u in ("heard", "zero")
    )
    d = heard.about["dimension"]
    picked = [len(record["ids"]) for record in zero.history]
    assert [record["upload_bytes"] for record in zero.history] == [4 * d * m for m in picked]
    assert zero.local_steps == 3 * sum(picked)
    # Everyone's first update is heard as a feature, and the picked are then asked for what they hold already.
    assert heard.history[0]["upload_bytes"] == 4 * d * (20 + len(heard.history[0]["ids"]))
    # Later the update is the feature: it is not sent twice.
    assert heard.history[1]["upload_bytes"] == 4 * d * len(heard.history[1]["ids"])


def test_random_shrunk_takes_the_same_clients_and_smaller_steps(federation):
    shrunk, unbiased = (simulate(federation, selector=s, **QUICK) for s in ("random-shrunk", "random"))
    assert shrunk.history[0]["ids"] == unbiased.history[0]["ids"]
    ratio = np.array(unbiased.history[0]["weights"]) / shrunk.history[0]["weights"]
    assert ratio == pytest.approx(np.full(5, 20 / 5))


def test_evaluation_every_few_rounds_and_always_at_the_end(federation):
    run = simulate(federation, eval_every=3, **QUICK)
    assert [record["accuracy"] is not None for record in run.history] == [False, False, True, True]


def test_global_random_state_is_left_alone(federation):
    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    simulate(federation, **QUICK)
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    assert before == after


def test_a_run_taken_up_equals_one_that_went_through(federation, tmp_path):
    whole = simulate(federation, **{**QUICK, "rounds": 6})
    simulate(federation, out=tmp_path / "run", **{**QUICK, "rounds": 2})
    resumed = simulate(federation, out=tmp_path / "run", resume=True, **{**QUICK, "rounds": 6})
    assert bare(resumed.history) == bare(whole.history)
    assert bare(hcsfed.read_run(tmp_path / "run").history) == bare(whole.history)


@pytest.mark.parametrize("selector", list(SELECTORS))
def test_what_selectors_and_server_remember_survives_a_restart(federation, tmp_path, selector):
    whole = simulate(federation, selector=selector, **{**QUICK, "rounds": 5})
    for rounds in (1, 3, 5):
        resumed = simulate(
            federation, selector=selector, out=tmp_path / "run", resume=True, **{**QUICK, "rounds": rounds}
        )
    assert bare(resumed.history) == bare(whole.history)


def test_a_finished_run_is_given_back_as_it_is(federation, tmp_path):
    first = simulate(federation, out=tmp_path / "run", **QUICK)
    again = simulate(federation, out=tmp_path / "run", resume=True, **QUICK)
    assert again.history == first.history


def test_other_settings_do_not_touch_a_folder(federation, tmp_path):
    simulate(federation, out=tmp_path / "run", **QUICK)
    with pytest.raises(RunFolderError, match="seed is 0 there, 1 here"):
        simulate(federation, out=tmp_path / "run", resume=True, seed=1, **QUICK)


def test_a_rate_that_explodes_is_told_with_round_client_and_rate(federation):
    with pytest.raises(DivergedError, match=r"client \d+ .* round \d+; local.lr is 1e\+30"):
        simulate(federation, model="mlp", **{**QUICK, "lr": 1e30})
    with pytest.raises(DivergedError, match=r"round \d+ .*client \d+ .*local.lr is 1e\+06"):
        simulate(federation, **{**QUICK, "lr": 1e6})


def test_own_model_and_own_selector(federation):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10))
    run = simulate(federation, model=model, selector=Random(), **QUICK)
    assert run.settings["selector"] == {"name": "random"}
    assert run.about["dimension"] == 64 * 16 + 16 + 16 * 10 + 10


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"selector": "ranom"}, "did you mean 'random'"),
        ({"model": "logistc"}, "did you mean 'logistic'"),
        ({"algorithm": "fedavgg"}, "did you mean 'fedavg'"),
        ({"cohort": 21}, r"\[1, 20\]"),
        ({"options": {"selector.clusters": 3}}, "selector 'random' takes no options"),
        ({"options": {"algorithm.mu": 3}}, "mu"),
        ({"algorithm": "fedprox", "options": {"algorithm.mu": -3}}, "mu of fedprox"),
        ({"learning_rate": 3}, "learning_rate"),
        ({"partition": "iid"}, "partition of simulate must be left out"),
        ({"clients": 5}, "partition of simulate must be left out"),
        ({"data": "mnist"}, "data of simulate must be left out"),
        ({"selector": Random}, "selector of simulate must be a name or a selector"),
        ({"selector": 3}, "selector of simulate must be a name or a selector"),
    ],
)
def test_bad_input_is_told_in_one_line(federation, settings, told):
    with pytest.raises(HcsfedError, match=told) as caught:
        simulate(federation, **{**QUICK, **settings})
    assert "\n" not in str(caught.value)


def test_data_that_is_none_is_refused():
    with pytest.raises(
        HcsfedError, match="federation of simulate must be a Federation, a name or a path, got 'ndarray'"
    ):
        simulate(np.zeros(3), **QUICK)


def test_data_may_be_named_as_on_the_command_line_or_be_a_path(tmp_path):
    named = simulate(data="synthetic", clients=7, **QUICK)
    assert named.about["federation"]["name"] == "synthetic"
    assert named.about["federation"]["clients"] == 7
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=rng.normal(size=(60, 4)), y=np.arange(60) % 3)
    own = simulate(tmp_path / "mine.npz", clients=6, **QUICK)
    assert own.about["federation"]["name"] == "mine"
    assert own.about["partition"]["name"] == "shard"


def test_the_proximal_term_holds_clients_near(federation):
    free, held = (
        simulate(federation, **QUICK, **extra)
        for extra in ({}, {"algorithm": "fedprox", "options": {"algorithm.mu": 5.0}})
    )
    assert held.history[0]["train_loss"] > free.history[0]["train_loss"]
