"""``hcsfed study frontier``: questions that can be asked in small, ratios over seeds, and verdicts that can say no."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hcsfed.cli.main import app
from hcsfed.cli.study.frontier import PLACES, questions, shown
from hcsfed.cli.study.races import Ratio, curve, race, verdicts
from hcsfed.record import Run
from hcsfed.variants import variants

RESULTS = ("frontier.json", "frontier-thousand.json", "frontier-cifar.json")


def run(accuracies, cost=10):
    history = [
        {"round": t + 1, "accuracy": a, "upload_bytes": cost, "local_steps": cost} for t, a in enumerate(accuracies)
    ]
    return Run({}, {}, history)


def test_every_question_can_be_asked():
    for question in questions():
        assert all(place in PLACES for place in question["places"])
        named = question["selectors"] if question["selectors"] != ["@all"] else ["frontier"]
        assert {one.label for one in variants(",".join(named), "test")} == set(named)
        if "steps" in question:
            continue
        wanted, targets = question["wanted"], question["targets"]
        assert wanted["selector"] in named
        for aims in targets.values() if isinstance(targets, dict) else [targets]:
            assert all(len(wanted[figure]) == len(aims) for figure in wanted if figure not in ("selector", "best"))


def test_a_ratio_is_of_sums_with_its_error():
    got = Ratio.of([11, 9], [10, 10])
    assert got.value == 1.0
    assert got.error == pytest.approx(math.sqrt(2) / math.sqrt(2) / 10)
    assert math.isnan(Ratio.of([11, None], [10, 10]).value)
    assert str(Ratio.of([12], [10])) == "1.20"


def rows(mine, full, cost=10):
    found = race({"full": [run(a, 100) for a in full], "frontier": [run(a, cost) for a in mine]}, [0.5])
    return [{"question": "slow", "place": "one class"} | row for row in found]


def test_verdicts_can_say_no():
    wanted = {"selector": "frontier", "rounds": [1.2], "upload_bytes": [0.2], "local_steps": [0.2]}
    good, slow = [[0.1, 0.5]] * 2, [[0.1, 0.2, 0.5]] * 2
    (first,) = verdicts(rows(good, good), wanted)
    assert first.reached
    assert first.because.startswith("1.00 ± 0.00 × the rounds (at most 1.2), 10.0 % of the uploads (at most 20)")
    assert not verdicts(rows(slow, good), wanted)[0].reached
    assert not verdicts(rows(good, good, cost=30), wanted)[0].reached
    (missed,) = verdicts(rows([[0.1, 0.2]] * 2, good), wanted)
    assert not missed.reached
    assert "some seed never got there" in missed.because


def test_best_is_better_than_each_of_the_others():
    runs = {"full": [0.5], "frontier": [0.1, 0.5], "cube": [0.1, 0.2, 0.5], "random": [0.1]}
    found = race({name: [run(a)] for name, a in runs.items()}, [0.5])
    found = [{"question": "thousand", "place": "one class"} | row for row in found]
    wanted = {"selector": "frontier", "best": True}
    (verdict,) = verdicts(found, wanted)
    assert verdict.reached
    assert verdict.because == "2.0 rounds, next cube with 3.0"
    assert not verdicts(found, {"selector": "cube", "best": True})[0].reached
    assert not verdicts(found, {"selector": "random", "best": True})[0].reached


def test_a_curve_is_read_off_at_equal_local_steps():
    (early, late, beyond) = curve({"full": [run([0.1, 0.2, 0.3], 100)]}, [100, 250, 400])
    assert (early["accuracy"], late["accuracy"], beyond["accuracy"]) == ([0.1], [0.2], [None])


def test_asked_in_small_kept_and_shown_again(tmp_path):
    words = ["study", "frontier", "--only", "slow,three", "--selectors", "random,frontier", "--seeds", "2"]
    words += ["--set", "data=digits", "--set", "rounds=12", "--set", "local.lr=0.05", "--out", str(tmp_path / "runs")]
    result = tmp_path / "frontier.json"
    done = CliRunner().invoke(app, [*words, "--jobs", "1", "--result", str(result)])
    assert done.exit_code == 0, done.output
    kept = json.loads(result.read_text())["rows"]
    assert {row["question"] for row in kept} == {"slow", "three"}
    assert {row["selector"] for row in kept} == {"full", "random", "frontier"}
    assert any(row["rounds"] != [None, None] for row in kept)
    assert "Of `frontier`:" in done.stdout
    assert "| × the rounds of `full` | one class, 80 % | one class, 85 % |" in done.stdout
    assert "\n| `random` | " in done.stdout
    again = CliRunner().invoke(app, ["study", "frontier", "--from", str(result)])
    assert again.stdout == done.stdout == shown(kept) + "\n"


def test_the_page_shows_what_was_measured():
    root = Path(__file__).parent.parent
    page = (root / "docs" / "concepts" / "frontier.md").read_text("utf-8")
    kept = [row for name in RESULTS for row in json.loads((root / "benchmarks" / "results" / name).read_text())["rows"]]
    blocks = [block for block in shown(kept).split("\n\n") if block.startswith(("| ", "- "))]
    assert len(blocks) > 20
    for block in blocks:
        assert block in page


def test_equal_local_steps_mean_fewer_rounds_for_who_trains_everyone(tmp_path):
    words = ["study", "frontier", "--only", "cifar", "--selectors", "random,importance", "--seeds", "1", "--jobs", "1"]
    words += ["--set", "data=digits", "--set", "model=logistic", "--set", "rounds=20", "--set", "local.steps=2"]
    words += ["--set", "partition.sizes=equal", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    lines = {
        folder.name: len((folder / "rounds.jsonl").read_text().splitlines()) for folder in tmp_path.glob("cifar/*/*")
    }
    assert lines == {"full-s0": 2, "random-s0": 20, "importance-s0": 2}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "slwo"], "did you mean 'slow'"),
        (["--seeds", "0"], "seeds of study must be an int ≥ 1"),
        (["--from", "nowhere.json"], "'nowhere.json' holds no figures of this study"),
        (["--selectors", "frontierr"], "did you mean 'frontier'"),
    ],
)
def test_bad_input_is_told_in_one_line(words, told):
    done = CliRunner().invoke(app, ["study", "frontier", *words])
    assert done.exit_code != 0
    assert told in str(done.exception)
