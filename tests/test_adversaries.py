"""Clients that mean harm: what they do is what was said of them, and what the server makes of it."""

from __future__ import annotations

import numpy as np
import pytest

import hcsfed
from hcsfed.asking import everyone as all_within
from hcsfed.assemble import assemble
from hcsfed.attack import ATTACKS, Lie
from hcsfed.collecting import collect
from hcsfed.errors import DivergedError, SettingError
from hcsfed.guard import Fixed, Median
from hcsfed.hearing import hear
from hcsfed.select import SELECTORS
from hcsfed.settings import Settings, merge
from hcsfed.simulate import rounds, simulate
from hcsfed.standing import Standing
from hcsfed.types import Answers, Selection, View

N, BAD = 20, [3, 11]
QUICK = {"rounds": 4, "cohort": 5, "steps": 3, "lr": 0.1}


@pytest.fixture(scope="module")
def federation():
    return hcsfed.load("digits", clients=N)


def attacked(name, **options):
    return {"attack": {"name": name, "clients": BAD, **options}}


def parts_of(federation, **options):
    return assemble(merge(Settings(), {"cohort": 5, "local.steps": 3, "local.lr": 0.1}, options), federation=federation)


def everyone(federation, **options):
    """One round in which all are picked, with weight 1 each: what is collected, and each one's answer."""
    parts = parts_of(federation, **options)
    standing = Standing.first(parts)
    ids = np.arange(N)
    train = parts.adversaries.behind(lambda who: parts.trainer.train(standing.parameters, who, 0))
    heard = hear(parts, standing.heard, standing.parameters, 0, train, all_within(parts))
    return collect(parts, standing, heard, Selection(ids, np.ones(N))), heard, parts


def updates(federation, **options):
    parts = parts_of(federation, **options)
    chunks = parts.adversaries.sends(parts.trainer.train(parts.trainer.initial(), np.arange(N), 1))
    return np.concatenate([chunk.vectors.numpy() for chunk in chunks])


def honest(k):
    return k not in BAD


def test_attackers_are_drawn_by_the_seed_or_named():
    drawn = ATTACKS.build("scale", share=0.1)
    assert drawn.who(100, 5).sum() == 10
    assert (drawn.who(100, 5) == drawn.who(100, 5)).all()
    assert (drawn.who(100, 5) != drawn.who(100, 6)).any()
    assert ATTACKS.build("scale", share=0.001).who(100, 0).sum() == 1
    assert ATTACKS.build("scale", clients=BAD).who(N, 0).nonzero()[0].tolist() == BAD
    assert not ATTACKS.build("none").who(100, 0).any()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": "scale", "share": 1.5}, "share of attack 'scale' must be a number in"),
        ({"name": "scale", "clients": [99]}, "clients of attack 'scale' must be numbers below 20"),
        ({"name": "scale", "clients": [-1]}, "clients of attack 'scale' must be a list"),
        ({"name": "scale", "clients": 3}, "clients of attack 'scale' must be a list"),
        ({"name": "lie", "kind": "nice"}, "kind of attack 'lie' must be one of zero, copy, far"),
        ({"name": "none", "share": 0.5}, "attack 'none' takes no options"),
        ({"name": "scal"}, "did you mean 'scale'"),
    ],
)
def test_attacks_that_make_no_sense(federation, options, told):
    with pytest.raises(SettingError, match=told):
        parts_of(federation, attack=options)


def test_what_attackers_send(federation):
    truth = updates(federation)
    undone = updates(federation, **attacked("scale", factor=-2.0))
    again = updates(federation, **attacked("replay"))
    nothing = updates(federation, **attacked("nan"))
    first = parts_of(federation)
    opening = np.concatenate(
        [chunk.vectors.numpy() for chunk in first.trainer.train(first.trainer.initial(), np.array(BAD), 0)]
    )
    np.testing.assert_array_equal(undone[BAD], -2 * truth[BAD])
    np.testing.assert_array_equal(again[BAD], opening)
    assert not np.isfinite(nothing[BAD]).all(axis=1).any()
    fair = [k for k in range(N) if honest(k)]
    for sent in (undone, again, nothing):
        np.testing.assert_array_equal(sent[fair], truth[fair])


@pytest.mark.parametrize("selector", ["importance", "data-variability", "loss-importance"])
def test_inflated_claims_reach_the_selector(federation, selector):
    need = next(iter(SELECTORS.build(selector).claims.needs))
    truth, claimed = (
        getattr(everyone(federation, selector=selector, **options)[1].view, need)
        for options in ({}, attacked("inflate", factor=7.0))
    )
    np.testing.assert_allclose(claimed, truth * np.where(np.isin(np.arange(N), BAD), 7.0, 1.0))


def test_the_norm_of_an_answer_is_measured_not_believed(federation):
    for name in ("random", "oort", "importance"):
        fair, false = (
            everyone(federation, selector=name, **options)[0].answers for options in ({}, attacked("inflate"))
        )
        np.testing.assert_array_equal(false.norms, fair.norms)
        np.testing.assert_allclose(false.losses[BAD], 1000 * fair.losses[BAD])


@pytest.mark.parametrize("kind", ["zero", "copy", "far"])
def test_false_features(federation, kind):
    truth, false = (
        everyone(federation, selector="hcsfed", features="sketch", **options)[1].view.features
        for options in ({}, attacked("lie", kind=kind))
    )
    wanted = {"zero": 0 * truth[BAD], "copy": truth[[0, 0]], "far": 1000 * truth[BAD]}[kind]
    np.testing.assert_allclose(false[BAD], wanted, rtol=1e-6)
    np.testing.assert_array_equal(np.delete(false, BAD, 0), np.delete(truth, BAD, 0))


def test_a_lie_among_liars_has_nobody_to_copy():
    said = Answers(np.arange(2), np.ones(2), np.ones(2), np.ones(2, int), np.ones((2, 3), np.float32))
    same = Lie(kind="copy").says(said, np.ones(2, bool))
    np.testing.assert_array_equal(same.features, said.features)


@pytest.mark.parametrize("estimator", ["weighted", "fedvarp", {"name": "regression", "weights": "selection"}])
def test_what_is_not_finite_is_left_out_and_the_others_count_as_before(federation, estimator):
    """The sum with weights 1 is the sum over the others alone, and nothing of the refused is remembered."""
    got, _, parts = everyone(federation, estimator=estimator, **attacked("nan"))
    fair = [k for k in range(N) if honest(k)]
    truth = np.concatenate(
        [chunk.vectors.numpy() for chunk in parts.trainer.train(parts.trainer.initial(), np.arange(N), 0)]
    )
    np.testing.assert_allclose(got.estimate.numpy(), truth[fair].astype(float).sum(axis=0), atol=1e-5)
    assert got.selection.info["left_out"].tolist() == BAD
    assert got.selection.ids.tolist() == got.answers.ids.tolist() == fair
    assert got.received.ids.tolist() == list(range(N)), "what was sent in vain costs all the same"


@pytest.mark.parametrize("selector", list(SELECTORS))
def test_no_selector_is_stopped_by_nan(federation, selector):
    run = simulate(federation, selector=selector, options=attacked("nan"), **{**QUICK, "cohort": 12})
    assert np.isfinite([record["loss"] for record in run.history]).all()
    left_out = set().union(*(record["left_out"] for record in run.history))
    assert left_out <= set(BAD)
    assert not any(set(record["ids"]) & set(BAD) for record in run.history)
    assert left_out, "twelve of twenty in four rounds: somebody must have been noticed"


@pytest.mark.parametrize("estimator", ["clusterfedvarp", "regression"])
def test_no_estimator_is_spoilt_by_features_that_are_not_finite(federation, estimator):
    run = simulate(federation, selector="cube", estimator=estimator, options=attacked("nan"), **QUICK)
    assert np.isfinite(run.final_loss)


def test_one_liar_does_not_stop_a_run_and_divergence_does(federation):
    alone = {**QUICK, "cohort": 1, "rounds": 30}
    run = simulate(federation, options=attacked("nan"), **alone)
    assert any(record["left_out"] for record in run.history)
    assert all(record["train_loss"] is None for record in run.history if record["left_out"])
    with pytest.raises(DivergedError, match=r"3 in a row, the one of client \d+ in round 3; local.lr is 1e\+30"):
        simulate(federation, model="mlp", **{**alone, "lr": 1e30})
    with pytest.raises(DivergedError, match=r"20 in a row, the one of client 0 in round 1"):
        simulate(federation, model="mlp", selector="importance", **{**alone, "lr": 1e30})


@pytest.mark.parametrize("attack", list(ATTACKS))
@pytest.mark.parametrize("guard", ["none", "median"])
def test_an_attacked_run_that_is_taken_up_again_is_the_same(federation, attack, guard, tmp_path):
    given = {"selector": "cube", "options": {"attack": attack, "guard": guard}, **QUICK}
    straight = simulate(federation, **given)
    simulate(federation, out=tmp_path, **{**given, "rounds": 2})
    taken_up = simulate(federation, out=tmp_path, resume=True, **given)
    for one, other in zip(straight.history, taken_up.history, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


# ---- Guards -----------------------------------------------------------------------------------------------------


def answers(norms, losses=None):
    n = len(norms)
    return Answers(np.arange(n), np.array(norms, float), np.array(losses or [1.0] * n), np.ones(n, int))


def view(**given):
    n = len(next(iter(given.values())))
    return View(np.ones(n, int), np.full(n, 1 / n), np.ones(n, bool), **given)


def test_updates_are_cut_to_the_norm_that_is_left_to_them(federation):
    fair, _, _ = everyone(federation)
    bound = float(np.median(fair.answers.norms))
    got, _, parts = everyone(federation, guard={"name": "fixed", "norm": bound})
    truth = np.concatenate(
        [chunk.vectors.numpy() for chunk in parts.trainer.train(parts.trainer.initial(), np.arange(N), 0)]
    ).astype(float)
    lengths = np.linalg.norm(truth, axis=1)
    wanted = (truth * np.minimum(1, bound / lengths)[:, None]).sum(axis=0)
    np.testing.assert_allclose(got.estimate.numpy(), wanted, rtol=1e-4, atol=1e-6)
    assert got.answers.norms.max() == pytest.approx(bound)


def test_a_fixed_bound():
    guard = Fixed(norm=2.0)
    assert guard.answers(answers([1, 5]), {}).norms.tolist() == [1, 2]
    np.testing.assert_array_equal(
        guard.view(view(norms=np.array([1, np.inf, np.nan, 9]))).norms, [1, np.inf, np.nan, 2]
    )
    with pytest.raises(SettingError, match="norm of guard 'fixed'"):
        Fixed(norm=0)


def test_the_median_bounds_every_claim():
    features = np.array([[3, 4], [0, 5], [5, 0], [3e37, 4e37], [np.nan, 1]], np.float32)
    claims = np.array([1.0, 2.0, 3.0, 1e300, np.inf])
    seen = Median(times=2).view(view(features=features, norms=claims, losses=claims, variances=claims))
    for bounded in (seen.norms, seen.losses, seen.variances):
        np.testing.assert_array_equal(bounded, [1, 2, 3, 5, np.inf])
    np.testing.assert_allclose(seen.features[:4], [[3, 4], [0, 5], [5, 0], [6, 8]], rtol=1e-6)
    assert np.isnan(seen.features[4, 0])


def test_where_most_claim_nothing_there_is_no_bound():
    assert Median().view(view(norms=np.array([0.0, 0, 0, 7]))).norms.tolist() == [0, 0, 0, 7]


def test_the_running_median_outlives_a_round_of_liars():
    guard, memory = Median(times=3, window=5), {}
    for _ in range(4):
        assert guard.answers(answers([1.0, 1.0, 2.0]), memory).norms.tolist() == [1, 1, 2]
    assert guard.answers(answers([100.0, 100.0, 1.0]), memory).norms.tolist() == [3, 3, 1]
    for _ in range(3):
        guard.answers(answers([10.0]), memory)
    assert guard.answers(answers([100.0]), memory).norms.tolist() == [30], "it follows what most clients do by now"


def test_a_guard_keeps_a_sabotaged_run_on_its_way(federation):
    given = {**QUICK, "rounds": 15, "cohort": 10, "steps": 10}
    fair = simulate(federation, **given).final_accuracy
    spoilt = attacked("scale", factor=-30.0)
    lost = simulate(federation, options=spoilt, **given).final_accuracy
    kept = simulate(federation, options={**spoilt, "guard": "median"}, **given).final_accuracy
    assert lost < fair - 0.3
    assert kept > fair - 0.15


def test_the_memory_of_a_guard_travels_with_the_checkpoint(federation):
    parts = parts_of(federation, guard="median")
    standing = next(rounds(parts, Standing.first(parts)))[1]
    back = Standing.of(1, standing.arrays(), parts.trainer.device)
    np.testing.assert_array_equal(back.heard["typical"], standing.heard["typical"])
