"""Who is within reach, who answers in time, and what a run makes of it."""

from __future__ import annotations

import numpy as np
import pytest

import hcsfed
from hcsfed.assemble import assemble
from hcsfed.errors import DataError, SettingError
from hcsfed.reach import AVAILABILITIES, SPEEDS, People
from hcsfed.select import SELECTORS
from hcsfed.settings import Settings, merge
from hcsfed.simulate import Standing, rounds, simulate

ROUNDS = 3000
MODELS = {
    "always": {},
    "independent": {"chance": 0.4, "spread": 0.3},
    "diurnal": {"period": 5, "low": 0.2, "high": 0.8},
    "class": {"low": 0.1, "high": 0.9},
    "groups": {"chance": 0.3, "groups": 3},
}


@pytest.fixture(scope="module")
def digits():
    return hcsfed.load("digits", clients=12)


@pytest.fixture(scope="module")
def people(digits):
    return People(0, digits)


@pytest.mark.parametrize("name", MODELS)
def test_the_chances_of_being_available_are_the_true_ones(name, people):
    model = AVAILABILITIES.build(name, **MODELS[name])
    gap = np.zeros(people.clients)
    variance = np.zeros(people.clients)
    for t in range(ROUNDS):
        chances = model.chances(people, t)
        gap += model.available(people, t) - chances
        variance += chances * (1 - chances)
    assert (np.abs(gap) <= 4.5 * np.sqrt(variance) + 1e-9).all()


@pytest.mark.parametrize("name", MODELS)
def test_who_is_available_depends_on_seed_and_round_alone(name, people, digits):
    model = AVAILABILITIES.build(name, **MODELS[name])
    first = [model.available(people, t) for t in range(20)]
    again = [AVAILABILITIES.build(name, **MODELS[name]).available(People(0, digits), t) for t in range(19, -1, -1)]
    assert all((a == b).all() for a, b in zip(first, again[::-1], strict=True))
    other = [model.available(People(1, digits), t) for t in range(20)]
    assert name == "always" or any((a != b).any() for a, b in zip(first, other, strict=True))


def test_groups_come_and_go_together(people):
    for options in ({"groups": 4}, {"by": "class"}):
        model = AVAILABILITIES.build("groups", **options)
        members = model.members(people)
        for t in range(20):
            up = model.available(people, t)
            assert all(len(set(up[members == g])) == 1 for g in np.unique(members))


def test_day_and_night_follow_the_class(people):
    model = AVAILABILITIES.build("diurnal", phase="class", period=10, low=0.0, high=1.0)
    main = people.main_class("test")
    for t in range(10):
        best = model.chances(people, t)[main == t]
        assert (best == pytest.approx(1.0)) or not len(best)


def test_rare_classes_are_out_of_reach_more_often(people, digits):
    chances = AVAILABILITIES.build("class", low=0.0, high=1.0).chances(people, 0)
    expected = digits.class_counts @ np.arange(10) / 9 / digits.class_counts.sum(axis=1)
    assert chances == pytest.approx(expected)


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_a_trace_is_followed_and_begins_again(suffix, people, tmp_path):
    table = np.random.default_rng(0).integers(0, 2, (5, 12))
    file = tmp_path / f"trace{suffix}"
    np.savetxt(file, table, delimiter=",") if suffix == ".csv" else np.savez(file, seen=table)
    model = AVAILABILITIES.build("trace", file=str(file))
    for t in range(12):
        assert model.available(people, t).tolist() == (table[t % 5] == 1).tolist()
    assert model.chances(people, 3) == pytest.approx(table.mean(axis=0))
    timed = SPEEDS.build("file", file=str(file), message=0.5)
    steps = np.full(12, 3)
    assert timed.seconds(people, steps, 7) == pytest.approx(0.5 + 3 * table[2])
    assert timed.chances(people, steps, 0, 1.0) == pytest.approx(1 - table.mean(axis=0))


@pytest.mark.parametrize(
    ("name", "options"),
    [("constant", {}), ("lognormal", {}), ("lognormal", {"jitter": 0.0}), ("size", {"power": 0.5, "jitter": 0.4})],
)
def test_the_chances_of_being_in_time_are_the_true_ones(name, options, people):
    model, steps = SPEEDS.build(name, **options), np.full(people.clients, 20)
    deadline = float(np.median(model.seconds(people, steps, 0))) + 1e-9
    chances = model.chances(people, steps, 0, deadline)
    gap = sum((model.seconds(people, steps, t) <= deadline) - chances for t in range(ROUNDS))
    assert (np.abs(gap) <= 4.5 * np.sqrt(ROUNDS * chances * (1 - chances)) + 1e-9).all()


# ---- Runs -------------------------------------------------------------------------------------------------------

QUICK = {"cohort": 4, "steps": 2, "lr": 0.05}
HARD = {
    "availability": {"name": "independent", "chance": 0.4, "spread": 0.2},
    "speed": {"name": "lognormal", "step": 0.2, "message": 0.1},
    "reach": {"deadline": 0.6, "lost": 0.2, "over_select": 0},
}


@pytest.mark.parametrize("selector", list(SELECTORS))
def test_every_selector_copes(digits, selector):
    """With clients not heard in the opening, answers that never come, and rounds in which nobody is there."""
    run = simulate(digits, selector=selector, rounds=5, options=HARD, **QUICK)
    assert np.isfinite([record["loss"] for record in run.history]).all()
    for record in run.history:
        assert len(record["ids"]) <= record["asked"] <= record["reachable"]
        assert record["simulated_seconds"] > 0


@pytest.mark.parametrize("absence", ["ignore", "known", "estimated"])
@pytest.mark.parametrize("estimator", ["weighted", "clusterfedvarp", "regression"])
@pytest.mark.parametrize("selector", ["random", "hcsfed", "frontier"])
def test_a_run_taken_up_equals_one_that_went_through(digits, selector, estimator, absence, tmp_path):
    options = {**HARD, "reach.absence": absence, "estimator.name": estimator}
    whole = simulate(digits, selector=selector, rounds=6, options=options, **QUICK)
    simulate(digits, selector=selector, rounds=3, out=tmp_path / "run", options=options, **QUICK)
    resumed = simulate(digits, selector=selector, rounds=6, out=tmp_path / "run", resume=True, options=options, **QUICK)
    for one, other in zip(whole.history, resumed.history, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_where_nobody_is_there_the_model_stays_where_it_is(digits, tmp_path):
    file = tmp_path / "nobody.csv"
    np.savetxt(file, np.stack([np.zeros(12), np.ones(12)]), delimiter=",")
    options = {"availability": {"name": "trace", "file": str(file)}}
    for selector in ("random", "hcsfed", "pivotal", "frontier", "power-of-choice", "test-accuracy"):
        run = simulate(digits, selector=selector, rounds=4, options=options, **QUICK)
        losses = [record["loss"] for record in run.history]
        if selector != "frontier":  # it steps by the mean of what it guesses of everyone
            assert losses[1] == losses[2]
        assert losses[1] != losses[3]
        assert [len(record["ids"]) for record in run.history] == [0, 4, 0, 4]


def test_first_messages_are_sent_when_a_client_first_appears(digits, tmp_path):
    file = tmp_path / "later.csv"
    np.savetxt(file, np.stack([np.arange(12) < 7, np.arange(12) > 3, np.ones(12)]), delimiter=",")
    run = simulate(
        digits,
        selector="frontier",
        rounds=3,
        options={"availability": {"name": "trace", "file": str(file)}, "selector.opening": 1},
        **QUICK,
    )
    sketch, model = 4 * 64, 4 * run.about["dimension"]
    new = np.array([7, 5, 0])
    assert [r["upload_bytes"] for r in run.history] == (sketch * new + 4 * (model + sketch)).tolist()
    assert [r["local_steps"] for r in run.history] == (1 * new + 4 * 2).tolist()
    assert [r["reachable"] for r in run.history] == [7, 8, 12]


def test_lost_answers_are_paid_for_except_for_their_upload(digits):
    options = {"reach": {"lost": 0.5, "response": "known"}}
    run = simulate(digits, selector="random", rounds=20, options=options, **QUICK)
    model = 4 * run.about["dimension"]
    came = np.array([len(r["ids"]) for r in run.history])
    assert 0 < came.sum() < 4 * 20
    assert [r["upload_bytes"] for r in run.history] == (model * came).tolist()
    assert all(r["download_bytes"] == 4 * model and r["local_steps"] == 8 for r in run.history)
    weights = np.concatenate([r["weights"] for r in run.history])
    ids = np.concatenate([r["ids"] for r in run.history]).astype(int)
    assert weights == pytest.approx(digits.weights[ids] * 12 / 4 / 0.5)


def test_a_round_lasts_until_the_last_answer_or_the_deadline(digits):
    parts = assemble(merge(Settings(), {"cohort": 3, "local.steps": 2, **HARD, "reach.lost": 0.0}), federation=digits)
    for record, _ in rounds(parts, Standing.first(parts)):
        if record["round"] > 30:
            break
        seconds = parts.speed.seconds(parts.people, parts.setup.steps, record["round"] - 1)
        if len(record["ids"]) == record["asked"] > 0:
            assert record["simulated_seconds"] == seconds[record["ids"]].max()
        else:
            assert record["simulated_seconds"] == 0.6
        assert (seconds[record["ids"]] <= 0.6).all()


def test_without_a_clock_there_are_no_seconds(digits):
    run = simulate(digits, selector="random", rounds=2, **QUICK)
    assert [r["simulated_seconds"] for r in run.history] == [None, None]


def test_as_many_are_asked_as_it_takes(digits):
    def asked(over):
        options = {"reach": {"lost": 0.5, "response": "known", "over_select": over}}
        run = simulate(digits, selector="random", rounds=30, options=options, **QUICK)
        return [r["asked"] for r in run.history], np.mean([len(r["ids"]) for r in run.history])

    assert asked(1)[0] == [4] * 30
    assert asked(1.6)[0] == [7] * 30
    assert asked(0)[0] == [8] * 30
    assert asked(0)[1] == pytest.approx(4, abs=4.5 * np.sqrt(8 / 4 / 30))


def test_over_selection_learns_how_many_to_ask(digits):
    options = {"reach": {"lost": 0.5, "over_select": 0}}
    run = simulate(digits, selector="random", rounds=60, options=options, **QUICK)
    assert run.history[0]["asked"] == 4
    assert np.mean([r["asked"] for r in run.history[-20:]]) == pytest.approx(8, abs=1)


def test_weights_stand_for_whom_they_are_told_to(digits):
    """Mean weight of each client over many rounds: ω_k if everyone is meant; skewed if it is those within reach."""
    chances = AVAILABILITIES.build("class").chances(People(0, digits), 0)

    def mean_weights(**reach):
        options = {"availability.name": "class", "reach": reach, "rounds": 1500, "eval_every": 1500}
        run = simulate(digits, selector="random", options=options, cohort=4, steps=1, lr=1e-6)
        total = np.zeros((1500, 12))
        for row, record in zip(total, run.history, strict=True):
            row[record["ids"]] = record["weights"]
        return total.mean(axis=0), total.std(axis=0) / np.sqrt(1500)

    mean, error = mean_weights(absence="known")
    assert (np.abs(mean - digits.weights) < 4.5 * error).all()
    mean, _ = mean_weights(absence="estimated")
    assert mean == pytest.approx(digits.weights, rel=0.25)
    mean, error = mean_weights(absence="ignore")
    assert (np.abs(mean - digits.weights) > 10 * error).any()
    assert np.corrcoef(mean / digits.weights, chances)[0, 1] > 0.95


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"availability": "sometimes"}, "unknown availability 'sometimes'"),
        ({"availability": {"name": "independent", "chance": 0}}, "chance of availability 'independent'"),
        ({"availability": {"name": "independent", "chance": 0.9, "spread": 0.2}}, "spread of availability"),
        ({"availability": {"name": "diurnal", "low": 0.9, "high": 0.1}}, "low and high of availability 'diurnal'"),
        ({"availability": {"name": "diurnal", "phase": "moon"}}, "phase of availability 'diurnal'"),
        ({"availability": {"name": "class", "low": -1}}, "low of availability 'class'"),
        ({"availability": {"name": "groups", "groups": 0}}, "groups of availability 'groups'"),
        ({"availability": "trace"}, "file of availability 'trace' must be the path"),
        ({"speed": {"name": "lognormal", "step": 0}}, "step of speed 'lognormal' must be a number > 0"),
        ({"speed": {"name": "size", "jitter": -1}}, "jitter of speed 'size'"),
        ({"reach.deadline": 5}, "reach.deadline of run must be 0 where speed is untimed"),
        ({"reach.lost": 0.1, "speed": "constant"}, "the server would wait for ever"),
        ({"reach.lost": 1.0}, "reach.lost of run must be a number in"),
        ({"reach.over_select": 0.5}, "reach.over_select of run must be 0 or a number"),
        ({"reach.response": "guess"}, "reach.response of run must be one of"),
        ({"reach.dead": 1}, "did you mean 'reach.deadline'"),
    ],
)
def test_bad_settings_are_told(given, told, digits):
    with pytest.raises(SettingError, match=told):
        assemble(merge(Settings(), given), federation=digits)


def test_classes_are_asked_of_those_who_have_them():
    federation = hcsfed.load("quadratic", clients=4)
    with pytest.raises(SettingError, match="classification"):
        simulate(federation, model="linear", options={"availability": "class"})


@pytest.mark.parametrize(
    ("content", "told"),
    [("1,0\n0", "must be a table of numbers"), ("a,b", "must be a table of numbers"), ("1,0\n0,1", "each of 12")],
)
def test_a_broken_trace_is_told(content, told, digits, tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text(content)
    with pytest.raises(DataError, match=told):
        assemble(merge(Settings(), {"availability": {"name": "trace", "file": str(file)}}), federation=digits)
    with pytest.raises(DataError, match="is not there"):
        assemble(merge(Settings(), {"availability": {"name": "trace", "file": str(file) + ".csv"}}), federation=digits)
