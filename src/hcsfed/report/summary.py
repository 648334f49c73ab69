"""Groups of runs → each measure's mean with an interval.

The same numbers feed the terminal's table, the page and the notebook.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from hcsfed.record import Run
from hcsfed.report.front import undominated
from hcsfed.report.groups import Group, group_runs
from hcsfed.report.words import NBSP, SPACES, Unit, count, number

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """One measure over the runs of a group.

    ``kind`` says what low and high are: ``t`` a 95 % t-interval of the mean (three or more runs), ``range`` the
    smallest and the largest (two runs), ``single`` nothing (one run), ``missed`` nothing, because some runs never got
    there: a mean of the others alone would flatter, so there is none, only ``beyond``, the least that a run spent in
    vain; ``none`` that the measure does not apply.
    """

    n: int
    missed: int
    values: tuple[float, ...]
    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    beyond: float = math.nan
    kind: Literal["t", "range", "single", "missed", "none"] = "none"

    def text(self, unit: Unit) -> str:
        if self.kind == "none":
            return "–"
        if self.kind == "missed":
            return f">{NBSP}{number(self.beyond, unit)} ({self.missed} of {self.n} missed)"
        return self._number(self.mean, unit)

    def interval(self, unit: Unit) -> str:
        """``12.1–13.9 MB``, empty where there is none."""
        if self.kind not in ("t", "range"):
            return ""
        low, high = self._number(self.low, unit), self._number(self.high, unit)
        for space in SPACES:
            if space in low and low.rpartition(space)[2] == high.rpartition(space)[2]:
                low = low.rpartition(space)[0]
        return f"{low}–{high}"

    def _number(self, value: float, unit: Unit) -> str:
        # A mean of 14 rounds over three seeds is 14.0; of one it is 14.
        return f"{value:.1f}" if unit == "rounds" and self.n > 1 else number(value, unit)


@dataclass(frozen=True)
class Measure:
    """Something that every run can be asked for.

    ``spent`` is given for what counts the way to the target: what a run that missed it has spent altogether, None where
    it does not apply, as time where there is no clock.
    """

    key: str
    title: str
    unit: Unit
    better: Literal["low", "high"]
    of: Callable[[Run, float], float | None]
    spent: Callable[[Run], float | None] | None = None


TO_TARGET = (
    Measure(
        "rounds",
        "Rounds to target",
        "rounds",
        "low",
        lambda run, target: run.rounds_to(target),
        lambda run: len(run.history),
    ),
    Measure(
        "upload",
        "Upload to target",
        "bytes",
        "low",
        lambda run, target: run.upload_bytes_to(target),
        lambda run: run.upload_bytes,
    ),
    Measure(
        "steps",
        "Local steps to target",
        "steps",
        "low",
        lambda run, target: run.local_steps_to(target),
        lambda run: run.local_steps,
    ),
    Measure(
        "clock",
        "Simulated time to target",
        "seconds",
        "low",
        lambda run, target: run.simulated_seconds_to(target),
        lambda run: run.simulated_seconds,
    ),
)
IN_ALL = (
    Measure("upload-total", "Upload", "bytes", "low", lambda run, _: run.upload_bytes),
    Measure("steps-total", "Local steps", "steps", "low", lambda run, _: run.local_steps),
    Measure("clock-total", "Simulated time", "seconds", "low", lambda run, _: run.simulated_seconds),
)
QUALITY = (
    Measure("accuracy", "Final accuracy", "share", "high", lambda run, _: run.final_accuracy),
    Measure("loss", "Final loss", "loss", "low", lambda run, _: run.final_loss),
)
KEPT = (
    Measure("memory", "Server memory", "bytes", "low", lambda run, _: run.server_bytes),
    Measure("disk", "Rows on disk", "bytes", "low", lambda run, _: run.disk_bytes or None),
)
TIME = Measure("seconds", "Time", "seconds", "low", lambda run, _: run.seconds)


def estimate(group: Group, measure: Measure) -> Estimate:
    """A measure's mean over a group's runs, with its interval."""
    if measure.spent is not None and (group.target is None or None in map(measure.spent, group.runs)):
        return Estimate(len(group.runs), 0, ())
    answers = [measure.of(run, group.target or 0.0) for run in group.runs]
    values = tuple(float(a) for a in answers if a is not None and math.isfinite(a))
    n, missed = len(answers), len(answers) - len(values)
    if missed:
        if measure.spent is None:
            return Estimate(n, missed, values)
        gone = [measure.spent(run) or 0.0 for run, a in zip(group.runs, answers, strict=True) if a is None]
        return Estimate(n, missed, values, beyond=float(min(gone)), kind="missed")
    low, high, kind = interval(np.array(values)[:, None])
    if kind == "t":
        # The t-interval knows nothing of where the measure can be at all.
        low, high = np.maximum(low, 0.0), np.minimum(high, 1.0 if measure.unit == "share" else np.inf)
    return Estimate(n, 0, values, float(np.mean(values)), float(low[0]), float(high[0]), kind=kind)


def interval(values: np.ndarray[Any, Any]) -> tuple[Any, Any, Literal["t", "range", "single"]]:
    """Bounds along the first axis: the 95 % t-interval of the mean from three values on, smallest and largest below."""
    n = len(values)
    if n < 3:
        return values.min(0), values.max(0), "range" if n == 2 else "single"
    half = stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) * values.std(0, ddof=1) / math.sqrt(n)
    return values.mean(0) - half, values.mean(0) + half, "t"


def measures(groups: Sequence[Group]) -> list[Measure]:
    """What can be said of these groups: the way to the target and then the end, or without a target the end first."""
    aimed = any(group.target is not None for group in groups)
    every = (*TO_TARGET, *QUALITY, *KEPT, TIME) if aimed else (*QUALITY, *IN_ALL, *KEPT, TIME)
    return [m for m in every if any(estimate(group, m).kind != "none" for group in groups)]


@dataclass(frozen=True)
class Row:
    """A group's line in the table.

    ``best`` holds the measures in which its mean is the best of all groups, ``near`` those in which its interval meets
    that of the best. ``front`` says that no other group took as little of all that the way to the target costs, and
    less of something, in the mean: it is on the Pareto front.
    """

    group: Group
    estimates: Mapping[str, Estimate]
    best: frozenset[str]
    near: frozenset[str]
    front: bool = False


@dataclass(frozen=True)
class Summary:
    """The table: a row per group, the best first; a column per measure."""

    measures: Sequence[Measure]
    rows: Sequence[Row]

    @property
    def groups(self) -> list[Group]:
        return [row.group for row in self.rows]

    @property
    def costs(self) -> list[Measure]:
        """What the way to the target costs, as far as it is known of all groups."""
        return costs(self.measures, [row.estimates for row in self.rows])

    @property
    def kinds(self) -> set[str]:
        return {e.kind for row in self.rows for e in row.estimates.values()}


def summarise(runs: Iterable[Run]) -> Summary:
    """Group the runs, estimate every measure for every group, mark the best, and sort by the first measure."""
    groups = group_runs(runs)
    columns = measures(groups)
    table = [{m.key: estimate(group, m) for m in columns} for group in groups]
    best: list[set[str]] = [set() for _ in groups]
    near: list[set[str]] = [set() for _ in groups]
    for m in columns if len(groups) > 1 else ():
        column = [line[m.key].mean for line in table]
        known = [x for x in column if not math.isnan(x)]
        if len(set(column)) == 1 or not known:
            continue
        top = (min if m.better == "low" else max)(known)
        leader = table[column.index(top)][m.key]
        for i, line in enumerate(table):
            if line[m.key].mean == top:
                best[i].add(m.key)
            elif line[m.key].low <= leader.high and line[m.key].high >= leader.low:
                near[i].add(m.key)
    counted = costs(columns, table)
    comparable = len(groups) > 1 and counted and len({group.target for group in groups}) == 1
    means = [[line[m.key].mean for m in counted] for line in table]
    front = undominated(means).tolist() if comparable else [False] * len(groups)
    rows = [
        Row(g, line, frozenset(b), frozenset(n), f)
        for g, line, b, n, f in zip(groups, table, best, near, front, strict=True)
    ]
    return Summary(columns, sorted(rows, key=lambda row: _rank(row, columns)))


def costs(columns: Sequence[Measure], table: Sequence[Mapping[str, Estimate]]) -> list[Measure]:
    """Of these measures the costs of a target that are known of every line of a table."""
    return [m for m in columns if m.spent is not None and all(line[m.key].kind != "none" for line in table)]


def _rank(row: Row, columns: Sequence[Measure]) -> tuple[float, ...]:
    keys: list[float] = []
    for m in (*columns[:1], *(m for m in columns if m.key in ("accuracy", "loss"))):
        e = row.estimates[m.key]
        mean = math.inf if math.isnan(e.mean) else e.mean if m.better == "low" else -e.mean
        keys += [e.missed, mean]
    return tuple(keys)


def interval_note(summary: Summary) -> str:
    """What the intervals of a table are, and what was left out, in words."""
    said = {
        "t": "Intervals are 95 % t-intervals of the mean over seeds.",
        "range": "With two seeds the interval is the smallest and the largest value.",
        "single": "A single seed has no interval.",
        "missed": "Where a run missed the target there is no mean: the figure after > is what was spent in vain.",
    }
    told = [text for kind, text in said.items() if kind in summary.kinds]
    if repeats := sum(group.repeats for group in summary.groups):
        told.append(f"{count(repeats, 'run')} of a seed that is there already left out.")
    return " ".join(told)
