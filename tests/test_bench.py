"""The harness of ``hcsfed bench``: what it computes from seconds, whom it runs, and that its workers behave."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from hcsfed.cli.bench import app
from hcsfed.cli.bench import figures as f
from hcsfed.cli.bench import peers as p
from hcsfed.cli.bench.engine import Case, Competitor, Turns, cases, measure, wanted
from hcsfed.cli.bench.show import show
from hcsfed.cli.bench.task import Score, learned_alike, load, score, store
from hcsfed.cli.bench.worker import Worker, WorkerError
from hcsfed.errors import HcsfedError

ECHO = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["model"] == "deadly":
        sys.exit("killed by its request")
    print(json.dumps({"seconds": [3.0, 1.0, 2.0], "request": request}), flush=True)
"""


@pytest.fixture
def echo(tmp_path: Path):
    worker = Worker("echo", [sys.executable, "-c", ECHO], tmp_path / "logs" / "echo.log")
    assert worker.hear(30) == {"ready": True}
    yield worker
    worker.close()


def test_flops_of_the_papers_models() -> None:
    # By hand: 784·10 weights, forward and weight gradient, 2 operations each, per row.
    assert f.flops((784, 10), 1) == 4 * 784 * 10
    assert f.flops((784, 50, 10), 1) == 4 * 784 * 50 + 6 * 50 * 10
    assert f.flops((784, 50, 10), 25_000) == 25_000 * f.flops((784, 50, 10), 1)


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=9))
@settings(deadline=None, max_examples=30)
def test_spread_is_ordered_and_made_of_what_was_measured(seconds: list[float]) -> None:
    spread = f.Spread.of(seconds)
    assert spread.best <= spread.median <= spread.worst
    assert {spread.best, spread.worst} <= set(seconds)


def test_verdicts_compare_best_with_best_in_each_way_a_peer_was_run() -> None:
    seconds = {"logistic m=10": {f.OURS: [0.02, 0.01], "pfl-research": [0.25, 0.3], "pfl-research, 2 processes": [0.2]}}
    found = {v.against: v for v in f.verdicts(seconds)}
    assert found["pfl-research"].ratio == pytest.approx(25)
    assert found["pfl-research"].reached
    assert found["pfl-research, 2 processes"].ratio == pytest.approx(20)
    assert not found["pfl-research, 2 processes"].reached
    assert set(found) == {"pfl-research", "pfl-research, 2 processes"}  # nothing is said of what was not measured


def test_verdicts_of_at_most_count_the_other_way_round() -> None:
    seconds = {"mlp m=10": {f.OURS: [0.10], f.ROUND: [0.14]}, "cnn m=10": {f.OURS: [1.0], f.SGEMM: [0.6]}}
    round_, cnn = f.verdicts(seconds)
    assert (round_.engine, round_.against, round_.reached) == (f.ROUND, f.OURS, False)
    assert round_.ratio == pytest.approx(1.4)
    assert cnn.ratio == pytest.approx(1 / 0.6)
    assert cnn.reached


def test_every_target_names_engines_that_are_run() -> None:
    labels = {way.label for ways in p.PEERS.values() for way in ways} | {f.OURS, f.VMAP, f.LOOP, f.SGEMM, f.ROUND}
    assert all(t.engine in labels and t.against in labels for t in f.TARGETS)
    assert {t.case for t in f.TARGETS} <= {case.model for case in cases(quick=False)}


@pytest.mark.parametrize(("theirs", "alike"), [(2.20, True), (2.205, True), (2.22, False), (2.30, False), (2.1, False)])
def test_a_peer_that_trains_less_or_otherwise_is_found_out(theirs: float, alike: bool) -> None:
    before, ours = Score(2.30, 0.1), Score(2.20, 0.3)
    assert learned_alike(before, ours, Score(theirs, 0.3)) is alike
    assert not learned_alike(before, ours, Score(float("nan"), 0.3))


def test_the_judge_scores_a_stack_as_pytorch_does(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 7), (5,), (3, 5), (3,)]
    parameters = [torch.randn(shape, generator=generator) for shape in shapes]
    x, y = torch.randn(20, 7, generator=generator), torch.randint(0, 3, (20,), generator=generator)
    out = torch.relu(x @ parameters[0].T + parameters[1]) @ parameters[2].T + parameters[3]
    store(tmp_path / "p.npz", [t.numpy() for t in parameters])
    found = score(load(tmp_path / "p.npz"), x.numpy(), y.numpy())
    assert found.loss == pytest.approx(float(torch.nn.functional.cross_entropy(out, y)), rel=1e-5)
    assert found.accuracy == pytest.approx(float((out.argmax(1) == y).float().mean()))


def test_a_turn_is_the_median_of_its_rounds(echo: Worker) -> None:
    rival = Competitor("echo", echo, extra={"engine": "loop"})
    assert rival.turn(Case("mlp", 3)) == 2.0
    request = echo.ask({"model": "mlp", "ids": [0], "save": None})["request"]
    assert request == {"model": "mlp", "ids": [0], "save": None}


def test_who_dies_is_left_out_with_the_reason_and_the_others_go_on(echo: Worker, tmp_path: Path) -> None:
    other = Worker("other", [sys.executable, "-c", ECHO], tmp_path / "other.log")
    other.hear(30)
    rivals = [Competitor("echo", echo, ("mlp", "deadly")), Competitor("other", other, ("mlp",))]
    turns = Turns(rivals)
    seconds = measure(turns, [Case("mlp", 1), Case("deadly", 1)], 2, lambda _: None)
    other.close()
    assert seconds == {"mlp m=1": {"echo": [2.0], "other": [2.0, 2.0]}, "deadly m=1": {}}
    assert turns.failed == {"echo": f"echo ended (killed by its request); see {echo.log}"}


def test_a_silent_worker_is_not_waited_for_forever(tmp_path: Path) -> None:
    worker = Worker("mute", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "mute.log")
    with pytest.raises(WorkerError, match=r"mute said nothing for 0\.1 s"):
        worker.hear(0.1)
    worker.close(patience=0.1)


def test_cohorts_have_the_size_asked_and_reach_across_all_clients() -> None:
    for case in cases(quick=False):
        assert len(set(case.ids)) == case.m
    assert Case("mlp", 10).ids == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]


def test_reasons_with_brackets_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    result = {"repeats": 1, "cpu": "x", "cores": 2, "seconds": {"mlp m=10": {f.OURS: [0.5]}}, "verdicts": []}
    show(result | {"checks": {}, "failed": {"pfl": "RuntimeError: [/gloo/pair.cc:537] reset"}, "took": 1.0})
    printed = capsys.readouterr().out
    assert "[/gloo/pair.cc:537]" in printed
    assert "500 ms" in printed


def test_peers_are_picked_by_name() -> None:
    assert wanted("none") == []
    assert [way.label for way in wanted("fedjax, flower")] == ["FedJAX", "Flower"]
    with pytest.raises(HcsfedError, match="did you mean 'flower'"):
        wanted("flwer")


def test_requirements_pin_every_package_that_they_name() -> None:
    benchmarks = p.scripts()
    if benchmarks is None:
        pytest.skip("not in a checkout")
    for ways in p.PEERS.values():
        folder = benchmarks / "peers" / ways[0].folder
        assert (folder / "peer.py").is_file()
        lines = (folder / "requirements.txt").read_text().split()
        assert lines
        assert all("==" in line for line in lines)


def test_outside_a_checkout_no_scripts_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(p.hcsfed, "__file__", str(tmp_path / "a" / "b" / "hcsfed" / "__init__.py"))
    assert p.scripts() is None


def test_an_environment_that_can_not_be_made_says_where_the_reason_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HCSFED_BENCH_HOME", str(tmp_path / "home"))
    folder = tmp_path / "benchmarks" / "peers" / "broken"
    folder.mkdir(parents=True)
    (folder / "requirements.txt").write_text("this is not a requirement\n")
    with pytest.raises(HcsfedError, match=r"could not be made; see .*broken-install\.log"):
        p.environment(p.Peer("Broken", "broken"), tmp_path / "benchmarks")
    assert not (tmp_path / "home" / "broken" / "complete").exists()


def test_import_is_measured_in_fresh_interpreters() -> None:
    done = CliRunner().invoke(app, ["startup", "--repeats", "1", "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == 0
    assert len(found["seconds"]) == 1
    assert found["torch"] is False


def test_memory_counts_data_and_peak() -> None:
    pytest.importorskip("torch")
    done = CliRunner().invoke(app, ["memory", "--clients", "50", "--cohort", "5", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["data"] == pytest.approx(50 * 20 * 60 * 4, rel=0.05)  # rows and inputs; labels and offsets are small
    assert found["data"] < found["peak"]
    assert np.isfinite(found["seconds"])


def test_memory_with_rows_of_a_dimension_of_their_own() -> None:
    """Above 64 MiB of rows they lie on disk: 10 of 2,000 clients in each of 2 rounds."""
    given = ["--clients", "2000", "--cohort", "10", "--rounds", "2", "--dimension", "9000", "--algorithm", "scaffold"]
    done = CliRunner().invoke(app, ["memory", *given, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["dimension"] >= 9000
    assert found["reached"]
    row = 4 * found["dimension"]
    assert 19 * row <= found["disk"] < 30 * row
    assert found["checkpoint"] < 20 * row
