"""What the table says of runs: who is grouped with whom, means, intervals, and runs that never got there."""

import math

import numpy as np
import pytest
from rich.console import Console

import fake_runs as fake
from hcsfed.errors import SettingError
from hcsfed.record import Run
from hcsfed.report import group_runs, summarise, summary_table
from hcsfed.report.curves import curve
from hcsfed.report.story import findings
from hcsfed.report.summary import TO_TARGET, estimate, interval, interval_note
from hcsfed.report.words import number, tick


def reaching(at: int | None, seed: int, *, rounds: int = 20, selector: str = "random") -> Run:
    """A run whose accuracy steps from 0.1 to 0.9 in round ``at``."""
    run = fake.run(selector, seed, rounds=rounds)
    for record in run.history:
        record["accuracy"] = 0.9 if at is not None and record["round"] >= at else 0.1
    return run


def said(runs: list[Run], width: int = 200) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(summary_table(summarise(runs)))
    return console.export_text().replace("\u00a0", " ")


def test_runs_are_grouped_by_everything_but_the_seed_and_where_they_went():
    runs = [fake.run("md", s) for s in range(3)] + [fake.run("random", s, device="cpu") for s in range(2)]
    runs.append(fake.run("random", 2, device="cuda"))
    groups = group_runs(runs)
    assert [(g.label, g.seeds) for g in groups] == [("md", [0, 1, 2]), ("random", [0, 1, 2])]
    assert set(groups[0].differing) == {"selector.name"}


def test_a_label_names_no_more_settings_than_are_needed():
    runs = [fake.run("md", selector__clusters=c, cohort=m) for c, m in ((5, 4), (9, 4), (9, 2))]
    assert [g.label.replace("\u00a0", " ") for g in group_runs(runs)] == [
        "clusters 5 · cohort 4",
        "clusters 9 · cohort 4",
        "clusters 9 · cohort 2",
    ]
    runs = [fake.run("md", local__lr=0.1), fake.run("random", local__lr=0.2)]
    assert [g.label for g in group_runs(runs)] == ["md", "random"]
    assert set(group_runs(runs)[0].differing) == {"selector.name", "local.lr"}


def test_an_option_that_only_one_selector_has_still_tells_groups_apart():
    runs = [fake.run("hcsfed"), fake.run("hcsfed", selector__clusters=5)]
    assert len({g.label for g in group_runs(runs)}) == 2


def test_the_same_seed_twice_is_no_second_witness():
    first, second = fake.run("md", 0, rounds=10, planned=30), fake.run("md", 0, rounds=30)
    (group,) = group_runs([first, second, fake.run("md", 1)])
    assert group.runs[0] is second
    assert group.repeats == 1
    assert "1 run of a seed that is there already" in interval_note(summarise([first, second]))


def test_no_runs_are_refused():
    with pytest.raises(SettingError, match="at least one run"):
        group_runs([])


def test_three_seeds_have_the_t_interval_of_the_textbook():
    # t quantile with 2 degrees of freedom at 97.5 %: 4.303 (any table); mean 12, s = 2, half-width 4.303·2/√3.
    (group,) = group_runs([reaching(at, s) for s, at in enumerate((10, 12, 14))])
    e = estimate(group, TO_TARGET[0])
    assert (e.kind, e.mean) == ("t", 12)
    assert e.high - e.mean == pytest.approx(4.303 * 2 / math.sqrt(3), rel=1e-3)
    assert e.text("rounds") == "12.0"


def test_two_seeds_show_their_range_and_one_seed_nothing():
    (two,) = group_runs([reaching(10, 0), reaching(14, 1)])
    e = estimate(two, TO_TARGET[0])
    assert (e.kind, e.low, e.high, e.interval("rounds")) == ("range", 10, 14, "10.0–14.0")
    (one,) = group_runs([reaching(10, 0)])
    assert estimate(one, TO_TARGET[0]).interval("rounds") == ""
    assert estimate(one, TO_TARGET[0]).text("rounds") == "10"


@pytest.mark.parametrize("runs", [3, 4, 10])
def test_the_t_interval_covers_the_mean_as_often_as_it_says(runs):
    low, high, kind = interval(np.random.default_rng(runs).normal(2.0, 3.0, (runs, 10_000)))
    assert kind == "t"
    # Standard error of the share: 0.0022.
    assert np.mean((low <= 2) & (high >= 2)) == pytest.approx(0.95, abs=0.01)


def test_runs_that_missed_the_target_are_never_averaged_away():
    runs = [reaching(5, 0), reaching(7, 1), reaching(None, 2)]
    (group,) = group_runs(runs)
    e = estimate(group, TO_TARGET[0])
    assert math.isnan(e.mean)
    assert e.text("rounds").replace("\u00a0", " ") == "> 20 (1 of 3 missed)"
    assert "> 20 (1 of 3 missed)" in said(runs)
    others = [reaching(19, s, selector="md") for s in range(3)]
    summary = summarise(runs + others)
    assert summary.rows[0].group.label == "md"
    assert "rounds" not in summary.rows[1].best | summary.rows[1].near
    assert any("`random` (1 of 3)" in sentence for sentence in findings(summary))


def test_the_best_of_each_column_is_marked_and_whose_interval_meets_it():
    fast = [reaching(a, s, selector="fast") for s, a in enumerate((5, 6, 7))]
    close = [reaching(a, s, selector="close") for s, a in enumerate((6, 7, 8))]
    slow = [reaching(a, s, selector="slow") for s, a in enumerate((18, 19, 18))]
    rows = {row.group.label: row for row in summarise(slow + close + fast).rows}
    assert list(rows) == ["fast", "close", "slow"]
    assert "rounds" in rows["fast"].best
    assert "rounds" in rows["close"].near
    assert "rounds" not in rows["slow"].near | rows["slow"].best
    assert "*6.0" in said(slow + close + fast)
    story = findings(summarise(slow + close + fast))
    assert story[0].startswith("`fast` reached 80")
    assert "apart from `close`" in story[1]


def test_where_all_are_equal_nobody_wins():
    summary = summarise([reaching(5, 0, selector=name) for name in ("a", "b")])
    assert all("rounds" not in row.best for row in summary.rows)
    assert findings(summary)[0].startswith("`a` and `b` reached")


def test_without_a_target_quality_comes_first():
    summary = summarise([fake.run("md", target=0.0), fake.run("random", target=0.0, top=0.99)])
    assert [m.key for m in summary.measures] == ["accuracy", "loss", "upload-total", "steps-total", "memory", "seconds"]
    assert summary.rows[0].group.label == "random"
    assert findings(summary) == []


def test_bytes_and_steps_to_target_are_those_of_the_rounds_up_to_it():
    (group,) = group_runs([reaching(3, 0)])
    upload, steps = estimate(group, TO_TARGET[1]).mean, estimate(group, TO_TARGET[2]).mean
    assert (upload, steps) == (3 * 4 * 7850 * 4, 3 * 50 * 4)


def test_time_to_target_is_that_of_the_clock_and_there_is_none_without_one():
    runs = [reaching(3, s) for s in range(2)]
    assert "clock" not in [m.key for m in summarise(runs).measures]
    for seed, run in enumerate(runs):
        for record in run.history:
            record["simulated_seconds"] = 10.0 * (1 + seed)
    (row,) = summarise(runs).rows
    assert row.estimates["clock"].values == (30, 60)
    assert [run.simulated_seconds for run in runs] == [200, 400]
    assert runs[0].simulated_seconds_to(0.99) is None
    assert runs[0].as_json()["to_target"]["simulated_seconds"] == 30
    for record in runs[0].history[1:2]:
        record["simulated_seconds"] = None
    assert runs[0].simulated_seconds_to(0.8) is None
    assert "clock" not in [m.key for m in summarise(runs).measures], "not known of all"


def test_the_server_keeps_the_most_that_any_round_left():
    run = reaching(3, 0)
    for record in run.history:
        del record["server_bytes"], record["disk_bytes"]
    assert "memory" not in [m.key for m in summarise([run]).measures], "runs of old did not write it down"
    for record in run.history:
        record |= {"server_bytes": 1000 * record["round"], "disk_bytes": 0}
    (row,) = summarise([run]).rows
    assert row.estimates["memory"].mean == 20_000
    assert "disk" not in row.estimates, "nothing lay there"
    assert "20.0 kB" in said([run])


def test_a_curve_ends_where_the_shortest_run_does_and_says_so():
    (group,) = group_runs([fake.run(seed=0, rounds=10, planned=30), fake.run(seed=1, rounds=30)])
    c = curve(group, "rounds", "accuracy")
    assert c is not None
    assert (c.x[-1], c.cut, c.runs) == (10, True, 2)


def test_a_curve_over_bytes_reads_each_run_at_the_same_bytes():
    cheap, dear = fake.run(seed=0, rounds=4, noise=0), fake.run(seed=1, rounds=4, noise=0)
    for run, cost in ((cheap, 10), (dear, 30)):
        for t, record in enumerate(run.history):
            record.update(upload_bytes=cost, accuracy=0.1 * (t + 1))
    (group,) = group_runs([cheap, dear])
    c = curve(group, "bytes", "accuracy")
    assert c is not None
    # Both have spent 40 bytes after: the cheap run's fourth round (0.4), the dear run's first and a third (0.133).
    at = np.flatnonzero(c.x == 40)[0]
    assert c.mean[at] == pytest.approx((0.4 + 0.1 * 4 / 3) / 2)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "bytes", "0 B"),
        (999.6, "bytes", "1.00 kB"),
        (1_570_000, "bytes", "1.57 MB"),
        (12.25, "rounds", "12.2"),
        (7, "rounds", "7"),
        (0.853, "share", "85.3 %"),
        (63_300, "steps", "63.3 k"),
        (0.0004, "seconds", "400 µs"),
        (100, "seconds", "1.7 min"),
        (math.inf, "loss", "∞"),
    ],
)
def test_numbers_are_written_for_people(value, unit, text):
    assert number(value, unit).replace("\u00a0", " ").replace("\u202f", " ") == text


def test_ticks_drop_their_noughts():
    assert tick(1_500_000, "bytes").replace("\u00a0", " ") == "1.5 MB"
    assert tick(100, "steps") == "100"


def test_the_table_cuts_no_number_off_in_a_terminal_of_80_columns():
    runs = [
        fake.run(name, s, rate=r, rounds=60) for name, r in (("full", 0.1), ("random-shrunk", 0.02)) for s in range(3)
    ]
    narrow, wide = said(runs, 80), said(runs)
    assert "…" not in narrow
    assert "random-shrunk" in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert sorted("".join(narrow.split())) == sorted("".join(wide.split()))
