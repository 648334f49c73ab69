"""The paper's experiments: every run once, figures that survive being stored, rules that can say no."""

from __future__ import annotations

import json
import math
import os

import pytest
from typer.testing import CliRunner

from hcsfed.cli.main import app
from hcsfed.paper import published, store
from hcsfed.paper.claims import claims
from hcsfed.paper.collect import collected, finished
from hcsfed.paper.plan import plan, slug, told
from hcsfed.paper.preset import EXPERIMENTS, experiment, experiments, table
from hcsfed.paper.sample import Sample, agrees, factor, near_factor, order
from hcsfed.paper.show import tables
from hcsfed.paper.verdict import of_all, of_two
from hcsfed.record import Run
from hcsfed.settings import Settings, merge, with_seed


def cohort(*values, beyond=201.0):
    return Sample(dict(enumerate(values)), {i: beyond if v is None else v for i, v in enumerate(values)}, len(values))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_preset_says_what_it_is(name):
    for quick in (False, True):
        one = experiment(name, quick=quick)
        assert all((one.title, one.source, one.show))
        assert len({(p.data, p.partition, p.model, p.lr, p.q, p.row) for p in one.points}) == len(one.points)
        assert all(p.data == "digits" for p in one.points) == quick or not one.points


def test_a_run_that_many_ask_for_is_run_once():
    asked = experiments("all")
    work = plan(asked, range(3))
    names = [cell.name for cell in work.cells]
    assert len(set(names)) == len(names)
    assert {slug(cell.settings) for cell in work.cells} == set(names)
    for one in asked:
        assert {slug(with_seed(p.settings, 2)) for p in one.points} <= set(names)
    assert len(names) < 0.7 * 3 * sum(len(one.points) for one in asked)
    # The first runs are those of the paper's main table, cheap models before dear ones.
    first = {slug(with_seed(p.settings, s)) for p in experiment("table1").points if p.q == 0.1 for s in range(3)}
    assert set(names[: len(first)]) == first
    assert {cell.settings.model.name for cell in work.cells[-100:]} == {"cnn"}


def test_the_slug_knows_what_makes_another_run():
    base = merge(Settings(), {"selector": "hcsfed", "data": "mnist"})
    for same in ({"rounds": 7}, {"device": "cpu"}, {"target": 0.5}, {"selector.clusters": 10}, {"features.ratio": 0.1}):
        assert slug(merge(base, same)) == slug(base), same
    for other in ({"seed": 1}, {"local.lr": 0.02}, {"selector.clusters": 9}, {"features.ratio": 0.2}, {"cohort": 0.2}):
        assert slug(merge(base, other)) != slug(base), other
    assert merge(Settings(), told(base)) == base


def test_only_and_skip_take_data_models_or_both():
    asked = experiments("all")
    whole = {cell.name for cell in plan(asked, [0]).cells}
    cnn = plan(asked, [0], only=["cnn"])
    assert {cell.settings.model.name for cell in cnn.cells} == {"cnn"}
    assert {cell.name for cell in plan(asked, [0], skip=["cnn"]).cells} == whole - {cell.name for cell in cnn.cells}
    fashion = plan(asked, [0], only=["fashion-mnist/cnn"]).cells
    assert {(c.settings.data.name, c.settings.model.name) for c in fashion} == {("fashion-mnist", "cnn")}
    with pytest.raises(ValueError, match="only and skip of paper must be among"):
        plan(asked, [0], only=["mnits"])


def test_the_papers_figures_are_found_by_point():
    points = {(p.data, p.method): p for p in experiment("table1").points if p.q == 0.1}
    assert published.rounds(points["mnist", "random-shrunk"], 0.8).value == 96
    assert published.rounds(points["mnist", "hcsfed"], 0.8).value == 9
    assert published.rounds(points["fashion-mnist", "random-shrunk"], 0.8).censored
    assert published.rounds(points["mnist", "hcsfed"], 0.75) is None
    assert published.rounds(points["mnist", "random"], 0.8) is None
    ends = {(p.data, p.partition, p.q, p.method): p for p in experiment("table3").points}
    assert published.accuracy(ends["mnist", "iid", 0.1, "random-shrunk"]).value == pytest.approx(0.868)
    assert all(sum(row) > 400 for row in published.heterogeneity().values())
    assert all(table(name) for name in EXPERIMENTS)


def test_order_needs_more_than_chance():
    assert order(cohort(10, 11, 12), cohort(20, 22, 21)) == "less"
    assert order(cohort(20, 22, 21), cohort(10, 11, 12)) == "more"
    assert order(cohort(10, 30, 12), cohort(20, 22, 21)) == "no difference"
    assert order(cohort(10), cohort(10)) == "no difference"
    assert order(cohort(10, 11, 12), Sample({}, {}, 3)) == "not measured"
    # A run that missed counts with what it had spent: the rival's miss proves, one's own never does.
    assert order(cohort(10, 11, 12), cohort(None, None, None)) == "less"
    assert order(cohort(None, None, None), cohort(10, 11, 12)) == "more"
    assert order(cohort(None, 11, 12), cohort(None, 200, 201)) == "no difference"


def test_cells_and_factors():
    assert agrees(cohort(0.868, 0.869, 0.867), 0.866, 0.0, share=True)
    assert not agrees(cohort(0.868, 0.869, 0.867), 0.84, 0.0, share=True)
    assert agrees(cohort(13.0, 12.0), 12, 0.0, share=False)
    assert not agrees(cohort(13.0, 12.0), 9, 0.0, share=False)
    assert agrees(cohort(None, 12.0), 12, 0.0, share=False) is None
    assert factor(cohort(96.0), cohort(9.0)) == pytest.approx(96 / 9)
    assert math.isnan(factor(cohort(96.0), cohort(None)))
    assert near_factor(8.6, 10.7)
    assert not near_factor(8.5, 10.7)


def test_verdicts_stand_on_every_place():
    assert of_all([True, True]) == "reproduced"
    assert of_all([True, False, None]) == "not reproduced"
    assert of_all([True, None]) == "not measured"
    assert of_all([]) == "not measured"
    assert of_two([True], [True]) == "reproduced"
    assert of_two([True], [False]) == "reproduced only against the shrunk baseline"
    assert of_two([False], [False]) == "not reproduced"


def test_figures_survive_being_stored(tmp_path):
    settings = merge(Settings(), {"data": "mnist", "selector": {"name": "hcsfed", "clusters": 7}, "rounds": 4})
    history = [
        {"round": t + 1, "accuracy": a, "loss": 1.0, "upload_bytes": u, "download_bytes": 8, "local_steps": 50}
        | {"seconds": {"train": 0.5}}
        for t, (a, u) in enumerate([(0.1234, 400), (None, 400), (0.8, 360), (0.9, 400)])
    ]
    run = Run(settings.nested(), {"engine": "fused"}, history)
    kept = store.Store({slug(settings): run}, {"variance": {"seeds": 1}}, {"date": "2026-01-01"})
    store.write(tmp_path / "figures.jsonl", kept)
    again = store.read(tmp_path)
    found = again.find(settings)
    assert found.rounds_to(0.8) == 3
    assert found.total("upload_bytes", 0.8) == 1160
    assert [r["accuracy"] for r in found.history] == [0.1234, None, 0.8, 0.9]
    assert (again.measured, again.about) == ({"variance": {"seeds": 1}}, {"date": "2026-01-01"})
    assert again.find(with_seed(settings, 1)) is None
    (tmp_path / "broken.jsonl").write_text('{"run": 3}\n')
    with pytest.raises(ValueError, match="holds no figures"):
        store.read(tmp_path)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    before = os.times()
    done = CliRunner().invoke(app, ["paper", "all", "--quick", "--jobs", "2", "--out", str(out)])
    took = sum(os.times()[:4]) - sum(before[:4])  # of processors, so that a busy machine fails no test
    assert done.exit_code == 0, done.output
    return out, done.stdout, took


@pytest.mark.slow
def test_quick_runs_everything_on_small_data(quick):
    out, printed, took = quick
    assert took < 120
    for name in EXPERIMENTS:
        assert f"## {name}: " in printed
    page = (out / "report" / "index.html").read_text("utf-8")
    assert page.count("<svg") >= 12
    assert "reproduced" in page.partition("The claims")[2]
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert not plan(experiments("all", quick=True), [0]).undone(out)


@pytest.mark.slow
def test_what_is_collected_shows_the_same_tables(quick, tmp_path):
    out, _, _ = quick
    found = CliRunner().invoke(
        app, ["paper", "all", "--quick", "--out", str(out), "--collect", str(tmp_path / "f.jsonl")]
    )
    assert found.exit_code == 0, found.output
    direct, kept = collected(out), store.read(tmp_path / "f.jsonl")
    # An accuracy on 360 rows is no whole number of ten-thousandths, so tables are compared as printed.
    for one in experiments("all", quick=True):
        assert [t.rows for t in tables(one, kept, 1)] == [t.rows for t in tables(one, direct, 1)]
    shown = CliRunner().invoke(
        app, ["paper", "table1", "--quick", "--from", str(tmp_path / "f.jsonl"), "--report", str(tmp_path / "page")]
    )
    assert shown.exit_code == 0, shown.output
    assert "hcsfed-published" in shown.stdout
    assert json.loads((tmp_path / "f.jsonl").read_text().splitlines()[0])["about"]["versions"]


def test_only_whole_runs_that_are_asked_for_are_kept():
    work = plan(experiments("table1", quick=True), [0])
    first, second, third = work.cells[:3]
    history = [{"round": t + 1, "accuracy": 0.5} for t in range(first.settings.rounds)]
    runs = {
        first.name: Run(first.settings.nested(), {}, history),
        second.name: Run(second.settings.nested(), {}, history[:-1]),
        "of-another-experiment": Run(third.settings.nested(), {}, history),
    }
    kept = finished(store.Store(runs, {"variance": {}, "table1": {}}), work, {"table1"})
    assert list(kept.runs) == [first.name]
    assert list(kept.measured) == ["table1"]


def test_table_1_stands_as_in_the_paper_and_says_where_it_agrees():
    one = experiment("table1")
    rows = {}
    for p in one.points:
        if p.data == "mnist" and p.q == 0.1:
            cell = published.rounds(p, 0.8)
            reach = int(cell.value) if cell and p.method != "cluster" else 60
            history = [{"round": t + 1, "accuracy": 0.9 if t + 1 >= reach else 0.1} for t in range(200)]
            history = [r | {"upload_bytes": 1, "local_steps": 1} for r in history]
            rows |= {slug(with_seed(p.settings, s)): Run(p.settings.nested(), {}, history) for s in range(2)}
    shown = {t.title: t for t in tables(one, store.Store(rows), 3)}
    table_1 = shown["mnist, non-iid, logistic, η = 0.01: rounds to 80 % (2 of 3 seeds)"]
    assert table_1.head == ("", "q = 0.1", "paper", "q = 0.3", "paper", "q = 0.5", "paper")
    lines = {row[0]: row[1:] for row in table_1.rows}
    assert lines["random-shrunk"] == ("96.0 ± 0.0", "96 =", "–", "42", "–", "28")
    assert lines["cluster"][:2] == ("60.0 ± 0.0", "31")
    assert lines["random"][1] == "–"
    assert not any("q = 0.3" in title for title in shown), "full participation alone makes no table"
    found = {(c.claim, c.form): c for c in claims("table1", store.Store(rows), 3)}
    assert found["the table's own cells", "Random is random-shrunk"].verdict == "reproduced"
    assert found["the table's own cells", "Cluster is cluster"].verdict == "not reproduced"
    assert "4 not measured" not in found["fewer rounds than Cluster everywhere", "as published"].because
    assert "1 of 1 cells, 5 not measured" in found["fewer rounds than Cluster everywhere", "as published"].because


@pytest.mark.parametrize(
    ("arguments", "told_"),
    [
        (["tabel1"], "did you mean 'table1'"),
        (["table1", "--seeds", "0"], "seeds of paper must be an int ≥ 1"),
        (["table1", "--jobs", "-1"], "jobs of paper must be an int ≥ 0"),
        (["table1", "--device", "gpu"], "device of paper must be one of auto, cpu, cuda"),
        (["table1", "--only", "mnits"], "only and skip of paper must be among"),
        (["table1", "--show", "--plan"], "exclude each other"),
        (["table1", "--from", "nowhere.jsonl"], "cannot read the figures 'nowhere.jsonl'"),
    ],
)
def test_bad_input_is_told_in_one_line(arguments, told_):
    done = CliRunner().invoke(app, ["paper", *arguments])
    assert done.exit_code != 0
    assert told_ in str(done.exception)
