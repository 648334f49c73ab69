"""What ``hcsfed bench flower`` and ``hcsfed bench wire`` make of what they saw."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from hcsfed.cli.bench.flower import figures, told
from hcsfed.cli.bench.wire import as_table
from hcsfed.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def rounds(select: float, count: int = 6) -> list[dict]:
    seconds = {"hear": 1.0, "select": select / 2, "aggregate": select / 2}
    return [{"seconds": seconds, "wire": {"up": 9, "down": 8}, "upload_bytes": 5, "download_bytes": 4}] * count


def moments(memory: list[int]) -> list[dict]:
    return [{"at": 10.0 + 2 * k, "rss": rss} for k, rss in enumerate(memory)]


def test_targets_are_held_against_what_was_seen():
    steady = [90, 100, 101, 100, 101, 100, 101]
    good = figures(rounds(0.05), moments(steady))
    assert good["share"] == pytest.approx(0.025)
    assert good["growth"] == 0
    assert good["reached"] == {"share": True, "growth": True}
    slow = figures(rounds(0.5), moments(steady))
    assert slow["share"] == pytest.approx(0.25)
    leaking = figures(rounds(0.05), moments([90, 100, 110, 120, 130, 140, 150]))
    assert leaking["growth"] == pytest.approx(150 / 120 - 1)
    assert (slow["reached"]["share"], leaking["reached"]["growth"]) == (False, False)


def test_lines_say_whether_targets_were_reached():
    given = {"nodes": 1000, "cohort": 50, "rounds": 6, "selector": "hcsfed", "refresh": "fresh"}
    lines = told(given | figures(rounds(0.5), moments([2**28] * 7)))
    assert lines[0] == "1,000 virtual nodes, cohort 50, hcsfed fresh: round 1 2.0 s, median of the others 2.00 s"
    assert "25.00 %" in lines[1]
    assert "missed" in lines[1]
    assert "256 MiB after round 2, 256 MiB after the last" in lines[2]
    assert "reached" in lines[2]


def test_wire_weighs_real_messages(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hcsfed", "bench", "wire", "--dimension", "650", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["parameters"] for row in rows] == [650] * 3
    for row in rows:
        for way in ("up", "down"):
            assert 300 < (row[f"wire_{way}"] - row[f"ledger_{way}"]) / row["messages"] < 3000


def test_the_how_to_quotes_what_was_measured():
    page = (ROOT / "docs" / "how-to" / "flower-federation.md").read_text(encoding="utf-8").replace("−", "-")
    console = Console(width=120)
    with console.capture() as printed:
        console.print(as_table(json.loads((RESULTS / "wire.json").read_text())["rows"]))
    assert " ".join(printed.get().split()) in " ".join(page.split())
    cells: dict[str, list[str]] = {"share": [], "memory": [], "growth": []}
    for refresh in ("fresh", "stale"):
        found = json.loads((RESULTS / f"flower-{refresh}.json").read_text())
        assert (found["nodes"], found["cohort"], found["rounds"]) == (1000, 50, 10)
        assert found["reached"] == {"share": True, "growth": True}
        cells["share"].append(f"{100 * found['share']:.2f} %")
        cells["memory"].append(" → ".join(f"{found['memory'][k] / 2**20:.0f}" for k in (1, -1)) + " MiB")
        cells["growth"].append(f"{100 * found['growth']:+.1f} %")
    for row in cells.values():
        assert f"| {' | '.join(row)} |" in page


@pytest.mark.parametrize(
    "words", [["wire", "--dimension", "3"], ["flower", "--rounds", "2"], ["flower", "--nodes", "1"]]
)
def test_flags_that_can_not_be(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hcsfed", "bench", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
