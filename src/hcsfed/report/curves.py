"""A group's runs → one curve with a band, over rounds, uploaded bytes, local steps or simulated time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hcsfed.record import Run
from hcsfed.report.groups import Group
from hcsfed.report.summary import interval
from hcsfed.report.words import Unit
from hcsfed.types import Floats

Axis = Literal["rounds", "bytes", "steps", "time"]
Quality = Literal["accuracy", "loss"]
AXES: dict[Axis, tuple[str, Unit]] = {
    "rounds": ("Rounds", "rounds"),
    "bytes": ("Uploaded bytes", "bytes"),
    "steps": ("Local steps", "steps"),
    "time": ("Simulated time", "seconds"),
}
_SPENT: dict[Axis, str] = {"bytes": "upload_bytes", "steps": "local_steps", "time": "simulated_seconds"}
# More points than this can't be told apart on paper, and make the page heavy.
MOST_POINTS = 160


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean and band at each x. ``cut`` says that longer runs of the group go on where the shortest stopped."""

    label: str
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    runs: int
    cut: bool = False


def quality(groups: Sequence[Group]) -> Quality:
    """Accuracy where there is any, else the loss (regression)."""
    known = any(_is_number(r.get("accuracy")) for g in groups for run in g.runs for r in run.history)
    return "accuracy" if known else "loss"


def axes(groups: Sequence[Group]) -> dict[Axis, str]:
    """What quality can be drawn against, with its name: time only where all runs have a clock."""
    clock = all(run.simulated_seconds is not None for group in groups for run in group.runs)
    return {axis: name for axis, (name, _) in AXES.items() if axis != "time" or clock}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _path(run: Run, axis: Axis, what: Quality) -> tuple[Floats, Floats]:
    """Where one run stood at the rounds that were evaluated: what it had spent, and how good it was."""
    kept = [i for i, record in enumerate(run.history) if _is_number(record.get(what))]
    spent: list[float]
    if axis == "rounds":
        spent = [float(record["round"]) for record in run.history]
    else:
        spent = np.cumsum([record[_SPENT[axis]] for record in run.history], dtype=np.float64).tolist()
    return np.array([spent[i] for i in kept]), np.array([run.history[i][what] for i in kept], np.float64)


def curve(group: Group, axis: Axis, what: Quality) -> Curve | None:
    """The group's mean over its runs, as far as all of them have come; None where nothing was evaluated.

    Rounds are the same for all seeds. Bytes and steps need not be (cohorts of random size), so each run is read off, by
    straight lines between its evaluations, at the places where the runs stand on average.
    """
    paths = [path for run in group.runs if len((path := _path(run, axis, what))[0])]
    if not paths:
        return None
    shortest = min(len(x) for x, _ in paths)
    cut = any(len(x) > shortest for x, _ in paths)
    grid = np.mean([x[:shortest] for x, _ in paths], axis=0)
    start, end = max(x[0] for x, _ in paths), min(x[-1] for x, _ in paths)
    inside = grid[(grid >= start) & (grid <= end)]
    grid = _thin(inside if len(inside) else np.array([end]))
    values = np.array([np.interp(grid, x, y) for x, y in paths])
    low, high, _ = interval(values)
    if what == "accuracy":
        low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    return Curve(group.label, grid, values.mean(0), low, high, len(paths), cut)


def _thin(grid: Floats) -> Floats:
    if len(grid) <= MOST_POINTS:
        return grid
    kept: Floats = grid[np.unique(np.linspace(0, len(grid) - 1, MOST_POINTS).round().astype(int))]
    return kept
