"""``hcsfed bench select``: findings and verdicts, the measures it rests on, and that its questions are answered."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hcsfed.cli.bench import app
from hcsfed.cli.bench.selection import alike, compression, designs, hundred, scale
from hcsfed.cli.bench.selection.finding import Finding, ratio, turns
from hcsfed.cli.bench.show_select import show, spread
from hcsfed.select import SELECTORS


def test_a_target_is_held_in_its_own_direction() -> None:
    assert Finding("q", "x", "c", 2.0, 2.0).reached is True
    assert Finding("q", "x", "c", 2.1, 2.0).reached is False
    assert Finding("q", "x", "c", 9.9, 10.0, "at least").reached is False
    assert Finding("q", "x", "c", 10.0, 10.0, "at least").reached is True
    assert Finding("q", "x", "c", 1.0).reached is None
    assert Finding("q", "x", "c", float("nan"), 2.0).reached is False  # what could not be measured is not reached


def test_rivals_take_turns_after_a_call_that_is_not_counted() -> None:
    calls: list[str] = []
    seconds = turns({"a": lambda i: calls.append(f"a{i}"), "b": lambda i: calls.append(f"b{i}")}, 2)
    assert calls == ["a0", "b0", "a0", "b0", "a1", "b1"]
    assert [len(s) for s in seconds.values()] == [2, 2]


def test_ratios_compare_the_best() -> None:
    assert ratio({"a": [0.3, 0.1, 9.0], "b": [0.2, 0.5]}, "a", "b") == pytest.approx(0.5)


def test_inertia_is_that_of_the_nearest_centres() -> None:
    values, centres = np.sort(np.random.default_rng(0).normal(size=500)).astype(np.float32), np.array([-1.0, 0.1, 2.0])
    wanted = ((values[:, None] - centres) ** 2).min(axis=1).sum()
    assert compression.inertia(values, centres) == pytest.approx(wanted)


def test_faiss_is_a_peer_that_clusters_as_we_do() -> None:
    pytest.importorskip("faiss")
    from hcsfed.rng import stream
    from hcsfed.select.kmeans import kmeans

    x = scale.population(scale.QUICK).features
    assert x is not None
    run = scale.faiss_pass(x, scale.QUICK.clusters)
    assert run is not None
    gaps, labels = run(0)  # type: ignore[misc]
    assert len(np.unique(labels)) == scale.QUICK.clusters
    ours = kmeans(x, scale.QUICK.clusters, stream(0, "k-means")).inertia
    assert ours <= 1.02 * float(gaps.sum())  # what is timed is no worse than the peer's


def test_without_faiss_our_own_times_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {name: [1.0, 2.0] for name in scale.selectors(scale.QUICK)}
    answers = {"times": seconds, "peak": {"peak": 90.0, "features": 20.0}}
    monkeypatch.setattr(scale, "elsewhere", lambda task, *_: answers[task])
    found = list(scale.findings(quick=True, repeats=2))
    assert {f.note for f in found if f.question == scale.TIME} == {"pip install faiss-cpu to compare"}
    assert all(f.reached is None for f in found if f.question == scale.TIME)
    assert {f.value for f in found if f.question == scale.MEMORY} == {70.0}
    answers["times"] = seconds | {"faiss": [0.25, 1.0]}
    assert [f.value for f in scale.findings(quick=False, repeats=2) if f.question == scale.TIME] == [4.0] * len(seconds)


def test_memory_is_that_of_a_process_of_its_own() -> None:
    ballast = np.ones(1 << 26)  # 512 MiB here must not count there
    found = scale.elsewhere("peak", "quick", "pivotal")
    assert 20 < found["peak"] < 450  # type: ignore[operator]
    assert found["features"] == pytest.approx(20_000 * 16 * 4 / 2**20)
    del ballast


def test_the_exact_and_the_fast_design_differ_in_the_hand_over_alone() -> None:
    for exact, fast in designs.pairs_of(1_000, 100).values():
        assert type(exact) is type(fast)
        assert (exact.exact, fast.exact) == (1_000, 100)  # type: ignore[attr-defined]


def test_partitions_agree_where_kinds_are_far_apart() -> None:
    assert alike.agreement(120, 300, 0.1) == 1.0


def test_every_registered_selector_is_timed() -> None:
    found = list(hundred.findings(1))
    assert [f.case for f in found] == list(SELECTORS)
    for f in found:  # how long it takes is the machine's affair
        assert f.value == pytest.approx(1000 * min(f.seconds[f.case]))
        assert f.value > 0


def test_two_questions_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = CliRunner().invoke(
        app, ["select", "--quick", "--only", "designs,clustered-updates", "--json", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert json.loads(out.read_text()) == result
    assert {f["question"] for f in result["findings"]} == {designs.VARIANCE, alike.TIME}
    assert result["versions"]["numpy"] == np.__version__


def test_unknown_questions_are_refused() -> None:
    done = CliRunner().invoke(app, ["select", "--only", "speed"])
    assert "only of bench select must be some of gc-inertia, gc-time" in str(done.exception)


def test_the_table_fits_and_says_what_was_missed(capsys: pytest.CaptureFixture[str]) -> None:
    finding = {"question": "How long?", "what": "ratio", "kind": "at most", "note": "[inertia 3]", "target": 2.0}
    finding |= {"seconds": {"a": [0.5], "b": [0.001]}, "case": "d = 7", "value": 3.0, "reached": False}
    about = {"versions": {"numpy": "2"}, "cpu": "x", "cores": 2, "load": [0.5], "took": 1.0}
    show({"findings": [finding], **about})
    printed = capsys.readouterr().out
    assert max(len(line) for line in printed.splitlines()) <= 80
    for part in ("How long?", "≤ 2", "no", "[inertia 3]"):
        assert part in printed
    assert spread({"a": [0.5, 0.7, 0.6]}) == "500 ms (600 ms, 700 ms)"
