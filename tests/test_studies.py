"""Studies: each is really run once in small, goes on where it was, and its measures are what they say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from hcsfed.assemble import assemble
from hcsfed.cli.main import main
from hcsfed.cli.study import frame
from hcsfed.cli.study.adversaries import ATTACKS, GUARDS, situations
from hcsfed.cli.study.ageing import age
from hcsfed.cli.study.covariance import GROUPS, design, together
from hcsfed.cli.study.influence import influence
from hcsfed.cli.study.path import again, lived, scenes
from hcsfed.cli.study.presence import presence
from hcsfed.errors import RunFolderError
from hcsfed.record import Run
from hcsfed.settings import Settings, merge
from hcsfed.simulate import rounds
from hcsfed.standing import Standing
from hcsfed.variants import variant

SMALL = {"partition": {"name": "dirichlet", "clients": 12}, "cohort": 4, "local.steps": 2, "local.lr": 0.05}
TINY = ["--clients", "12", "--cohort", "4", "--lr", "0.05", "--set", "local.steps=2", "--seeds", "2", "--jobs", "1"]


def parts_of(*layers):
    return assemble(merge(Settings(), SMALL, *layers))


@pytest.fixture
def study(monkeypatch, tmp_path, capsys):
    """Run a study; gives its tables as rows of cells, what ``--result`` holds, and what its folder holds."""
    monkeypatch.chdir(tmp_path)

    def call(name, *words):
        given = ["study", name, *TINY, *words, "--out", "kept", "--result", "figures/result.json"]
        monkeypatch.setattr(sys, "argv", ["hcsfed", *given])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        lines = [line for line in out.splitlines() if line.startswith("| ")]
        table = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
        kept = {p: p.stat().st_mtime_ns for p in Path("kept").rglob("*") if p.suffix in (".json", ".safetensors")}
        return table, json.loads(Path("figures/result.json").read_text("utf-8")), kept

    return call


def twice(study, *words):
    """The same again: nothing is computed anew, and the same is said."""
    table, figures, kept = study(*words)
    assert kept
    assert study(*words) == (table, figures, kept)
    return table, figures, kept


def test_adversaries(study):
    words = ["adversaries", "--selectors", "random,importance", "--attacks", "more,nan", "--data", "digits"]
    table, told, kept = twice(study, *words, "--rounds", "3", "--at", "2", "--draws", "10")
    rows = {(row["selector"], row["attack"], row["guard"]): row for row in told["rows"]}
    assert ("random", "more", "none") not in rows, "random goes by no claim"
    assert ("importance", "more", "bounds") in rows
    assert ("importance", "more", "median") not in rows, "no centre of honest updates says who lied about norms"
    assert {len(row[figure]) for row in rows.values() for figure in ("chance", "share", "error", "accuracy")} == {2}
    for row in rows.values():
        assert (row["chance"] == [1, 1]) == (row["attack"] == "nobody") or row["attack"] == "nan"
        assert row["attack"] == "more" or row["share"] == [0, 0], "what is no number has no weight"
    liars = rows["importance", "more", "none"], rows["importance", "more", "bounds"]
    assert min(liars[0]["chance"]) > max(liars[1]["chance"]) > 1
    assert len(kept) == 2 * len(rows)
    assert len(table) == 2 + 2 + 2 + 1 + 2 + 2, "a head and a line for each selector, with two lines of rule"


def test_reach(study):
    words = ["reach", "--selectors", "random,frontier", "--data", "digits", "--rounds", "3", "--asks", "20"]
    table, told, _ = twice(study, *words, "--at", "1", "--target", "0.1")
    rows = {(row["situation"], row["correction"], row["selector"]): row for row in told["rows"]}
    assert len(rows) == 2 * (1 + 8 * 3 + 1 + 3 * 3)
    for (_, _, selector), row in rows.items():
        assert len(row["moments"]) == (2 if selector == "random" else 0), "guesses are no weights"
        timed = [row["about"] == "late" and there is not None for there in row["rounds"]]
        assert [seconds is not None for seconds in row["seconds"]] == timed
    asked = [m["answers"] for m in rows["everyone, always", "ignore", "random"]["moments"]]
    assert asked == [4, 4]
    late = rows["until the median client's time", "ignore", "random"]["moments"]
    assert all(0 < m["answers"] < 4 and 0 < m["seconds"] <= 1.2 for m in late)
    assert ["long absences", "estimated"] in [line[:2] for line in table]


def test_covariance(study):
    words = ["covariance", "--selectors", "random,frontier", "--data", "digits"]
    table, told, _ = twice(study, *words, "--at", "2", "--draws", "3")
    assert len(told["rows"]) == 3 * 4
    for row in told["rows"]:
        names = {"closed form", "random", "frontier", "full"} if row["groups"] else {"random"}
        assert [set(found) for found in row["seeds"]] == [names] * 2
    assert len(table) == 2 + 3 + 2 + 9


def test_ageing(study):
    words = ["ageing", "--selectors", "pivotal,cube", "--data", "digits", "--rounds", "8", "--ages", "0,2"]
    table, told, kept = twice(study, *words, "--targets", "0.1,0.2")
    assert len(told["rows"]) == 3 * 2 * 2
    assert len(table) == 2 + len(told["rows"])
    assert len([p for p in kept if p.suffix == ".safetensors"]) == 2 * len(told["rows"])
    ages = {
        row["max_age"]: np.mean([r["mean age"] for r in told["rows"] if r["max_age"] == row["max_age"]])
        for row in told["rows"]
    }
    assert ages[2] < ages[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("adversaries --attacks more,bribes", "unknown attack of the study 'bribes'"),
        ("adversaries --share 0", "share of study must be a number in (0, 1)"),
        ("adversaries --draws 0", "draws of study must be an int ≥ 1"),
        ("adversaries --selectors ranom", "did you mean 'random'"),
        ("adversaries --seeds 0", "seeds of study must be an int ≥ 1"),
        ("reach --target 80", "targets of study must be accuracies in (0, 1]"),
        ("reach --asks 1", "asks of study must be an int ≥ 2"),
        ("reach --jobs -1", "jobs of study must be an int ≥ 0"),
        ("covariance --chance 1", "chance of study must be a number in (0, 1)"),
        ("covariance --draws 1", "draws of study must be an int ≥ 2"),
        ("ageing --ages soon", "ages of study must be rounds"),
        ("ageing --selectors hcsfed", "selectors of study must be such as know clients by old messages"),
        ("ageing --selectors random", "takes no options"),
    ],
)
def test_bad_input_is_one_line(words, told, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["hcsfed", "study", *words.split(), "--data", "digits"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert told in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_a_study_with_one_line(tmp_path):
    words = ["covariance", *TINY, "--draws", "1000000", "--data", "digits", "--out", "kept"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hcsfed", "study", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while len(psutil.Process(process.pid).children()) < 2 and time.monotonic() < deadline:  # one of them keeps count
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the children as well
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "hcsfed: interrupted; what was finished is saved\n"


# ---- What is measured -------------------------------------------------------------------------------------------


def test_the_path_is_that_of_full_participation():
    parts = parts_of({"selector": "full"})
    path = scenes(parts, 4)
    for scene, (_, standing) in zip(path[1:], rounds(parts, Standing.first(parts)), strict=False):
        np.testing.assert_allclose(scene.parameters.numpy(), standing.parameters.numpy(), atol=1e-6)
    assert path[-1].error(path[-1].mean) == 0
    assert path[-1].error(0 * path[-1].mean) == 1


@pytest.mark.parametrize("selector", ["hcsfed", "pivotal", "frontier", "oort"])
def test_the_first_round_along_the_path_is_that_of_a_run(selector):
    parts = parts_of({"selector": selector, "availability": "independent", "reach.absence": "estimated"})
    path = scenes(parts, 2)
    along = lived(parts, path)
    _, run = next(rounds(parts, Standing.first(parts)))
    for name, array in run.arrays().items():
        if name != "parameters":
            np.testing.assert_array_equal(along.arrays()[name], array)
    np.testing.assert_array_equal(along.parameters.numpy(), path[1].parameters.numpy())


def test_asking_again_changes_nothing_and_begins_with_the_round_itself():
    parts = parts_of({"selector": "frontier", "guard": "median", "reach.lost": 0.3})
    path = scenes(parts, 3)
    standing = lived(parts, path)
    before = {name: array.copy() for name, array in standing.arrays().items()}
    drawn = [asked.ids.tolist() for asked, _ in again(parts, standing, path[-1], 5)]
    for name, array in standing.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    assert drawn == [asked.ids.tolist() for asked, _ in again(parts, standing, path[-1], 5)]
    assert len(set(map(tuple, drawn))) > 1
    assert drawn[:1] == [asked.ids.tolist() for asked, _ in again(parts, standing, path[-1], 1)]


def test_influence_where_everyone_answers_is_known_in_closed_form():
    factor, liars = -4.0, [2, 7, 9]
    attack = {"name": "scale", "factor": factor, "clients": liars}
    parts = parts_of({"selector": "full", "attack": attack})
    path = scenes(parts, 3)
    found = influence(parts, path, 3)
    weights = parts.federation.weights
    updates = np.concatenate([chunk.vectors.double().numpy() for chunk in path[-1].updates])
    lengths = weights * np.linalg.norm(updates, axis=1)
    theirs = -factor * lengths[liars].sum()
    assert found.chance == 1
    assert found.share == pytest.approx(theirs / (theirs + np.delete(lengths, liars).sum()), rel=1e-5)
    moved = (factor - 1) * weights[liars] @ updates[liars]
    assert found.error == pytest.approx((moved**2).sum() / ((weights @ updates) ** 2).sum(), rel=1e-4)


def test_nobody_has_no_influence_and_the_error_is_the_designs():
    from hcsfed import theory

    parts = parts_of({"selector": "random"})
    path = scenes(parts, 2)
    found = influence(parts, path, 400)
    updates = np.concatenate([chunk.vectors.double().numpy() for chunk in path[-1].updates])
    y = theory.population(updates, parts.federation.weights)
    assert (found.chance, found.share) == (1, 0)
    assert found.error == pytest.approx(theory.random(y, 4) / (y.mean(axis=0) ** 2).sum(), rel=0.15)


ALIKE = {"partition": {"name": "shard", "classes_per_client": 1, "clients": 40}, "cohort": 10}


def test_covariance_of_a_design_is_what_it_changes():
    settings = merge(Settings(), SMALL, ALIKE).nested()
    found = design(settings, ["importance-independent", "pivotal", "frontier"], 2, 150)
    assert set(found) == {"importance-independent", "pivotal"}, "guesses are no weights"
    own, other = found["importance-independent"]
    assert abs(other) < 0.4 * own, "coins of their own"
    own, other = found["pivotal"]
    assert other < -0.5 * own, "those alike are not picked together"


@pytest.mark.parametrize("groups", GROUPS)
def test_those_who_come_and_go_together_have_the_error_of_the_closed_form(groups):
    away = {"availability": {**GROUPS[groups], "chance": 0.5}, "reach.absence": "known"}
    found = together(merge(Settings(), SMALL, ALIKE, away).nested(), ["random"], 1, 300)
    own, other = found["closed form"]
    assert found["full"][0] == pytest.approx(own + other, rel=0.3)
    assert found["random"][0] > found["full"][0], "who picks some of them adds to it"
    assert (other > own) == (groups == "in groups by class")


def test_presence_knows_bias_from_variance():
    """By class: those within reach are not as the others; weights divided by the true chances have no bias."""
    found = {}
    for absence in ("ignore", "known"):
        settings = {"selector": "random", "availability": "class", "reach.absence": absence}
        parts = parts_of({**settings, "partition": {"name": "shard", "classes_per_client": 1, "clients": 20}})
        found[absence] = presence(parts, scenes(parts, 1)[-1], 1500, before=0)
    assert found["ignore"]["bias2"] > 10 * found["ignore"]["noise"]
    assert found["known"]["bias2"] < 4 * found["known"]["noise"]
    assert found["known"]["variance"] > found["ignore"]["variance"], "the price of it"


def test_ages_are_counted_from_the_opening_on():
    history = [{"ids": [0]}, {"ids": [1]}, {"ids": [0]}, {"ids": [2]}]
    run = Run({}, {"federation": {"clients": 3}}, history)
    # Before rounds 2, 3 and 4: 0 1 1, 1 0 2, 0 1 3.
    assert age(run) == (pytest.approx(9 / 9), 3)


def test_what_cannot_matter_is_not_asked():
    base = merge(Settings(), SMALL, {"partition.clients": 100})

    def asked(selector):
        return {(attack, guard) for attack, guard, _ in situations(variant(selector), base, list(ATTACKS), 0.1)}

    assert {attack for attack, _ in asked("random")} == {"nobody", "nan", "reversed", "huge", "replay"}
    assert {attack for attack, _ in asked("oort")} >= {"more", "less"}
    assert {attack for attack, _ in asked("cube")} >= {"far", "copy", "zero"}
    assert {guard for _, guard in asked("hcsfed")} == set(GUARDS)
    assert "bounds" not in {guard for _, guard in asked("cube")}
    assert "bounds" in {guard for _, guard in asked("cube:chances=norm")}
    for _, guard, told in situations(variant("hcsfed"), base, ["more"], 0.1):
        assert (told.selector.options["max_share"] == 1.0) == (guard != "bounds")


def test_figures_are_asked_anew_where_something_else_was_asked(tmp_path):
    def ask(value):
        return frame.answers([frame.Question("a/b", dict, {"value": value})], tmp_path, 1)

    assert ask(1) == [{"value": 1}]
    written = (tmp_path / "a" / "b.json").stat().st_mtime_ns
    assert ask(1) == [{"value": 1}]
    assert (tmp_path / "a" / "b.json").stat().st_mtime_ns == written
    assert ask(2) == [{"value": 2}]
    (tmp_path / "a" / "b.json").write_text('{"given": {"val')
    assert ask(2) == [{"value": 2}]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1e-17, "0"), (0.0474, "0.047"), (1.26, "1.3"), (24.4, "24"), (1642, "1,600"), (9.96, "10")],
)
def test_figures_have_two_digits_that_count(value, text):
    assert re.sub(r"\.0$", "", frame.short(value)) == text


def test_only_what_is_not_finished_is_run(tmp_path, monkeypatch):
    from hcsfed import grid

    def cells(seeds, lr=0.05):
        base = merge(Settings(), SMALL, {"rounds": 2, "local.lr": lr})
        return grid.cells(base, ["random"], seeds)

    asked = []
    run_all = grid.run_all
    monkeypatch.setattr(grid, "run_all", lambda cells, *a, **b: asked.append(len(cells)) or run_all(cells, *a, **b))
    first = frame.done(cells([0]), tmp_path, 1, "processes")
    both = frame.done(cells([0, 1]), tmp_path, 1, "processes")
    assert asked == [1, 1]
    assert [run.settings["seed"] for run in both] == [0, 1]
    assert both[0].history == first[0].history
    with pytest.raises(RunFolderError, match="holds a run with other settings"):
        frame.done(cells([0], lr=0.1), tmp_path, 1, "processes")
