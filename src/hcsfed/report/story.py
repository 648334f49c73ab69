"""The report's headline and its findings, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hcsfed.report.groups import Group
from hcsfed.report.summary import Measure, Row, Summary
from hcsfed.report.words import NBSP, count, listing


def headline(groups: Sequence[Group]) -> str:
    """``4 selectors on mnist``."""
    data = {str(run.about.get("federation", {}).get("name", "")) for g in groups for run in g.runs} - {""}
    names = {str(g.settings.get("selector.name")) for g in groups}
    if len(groups) == 1:
        what = groups[0].label
    elif len(names) == len(groups):
        what = count(len(groups), "selector")
    else:
        what = count(len(groups), "setting")
    return f"{what} on {listing(sorted(data))}" if data else what


def findings(summary: Summary) -> list[str]:
    """What the table says, the main thing first; names stand in backticks.

    Where intervals meet, it says that these seeds don't tell the groups apart.
    """
    measure = summary.measures[0]
    reached = [row for row in summary.rows if row.estimates[measure.key].kind in ("t", "range", "single")]
    missed = [row for row in summary.rows if row.estimates[measure.key].kind == "missed"]
    if measure.spent is None:
        return []
    told = []
    if reached:
        told.append(_first(reached, measure, alone=len(summary.rows) == 1))
        near = [f"`{row.group.label}`" for row in summary.rows if measure.key in row.near]
        if near:
            told.append(f"By rounds, these seeds don’t tell it apart from {listing(near)}: the intervals meet.")
    if missed:
        cases = [
            f"`{r.group.label}` ({r.estimates[measure.key].missed} of {r.estimates[measure.key].n})" for r in missed
        ]
        told.append(f"Runs that missed the target: {listing(cases)}.")
    if len(reached) > 1:
        told += _least(summary)
    return told


def _first(reached: Sequence[Row], measure: Measure, *, alone: bool) -> str:
    e = min((row.estimates[measure.key] for row in reached), key=lambda e: e.mean)
    best = [row for row in reached if row.estimates[measure.key].mean == e.mean]
    goal = f"{100 * (best[0].group.target or 0):g}{NBSP}%"
    spread = f" ({e.interval(measure.unit)})" if e.interval(measure.unit) else ""
    who = listing([f"`{row.group.label}`" for row in best])
    words = f"{who} reached {goal}{'' if alone else ' first,'} after {e.text('rounds')} rounds{spread}"
    last = max(reached, key=lambda row: row.estimates[measure.key].mean)
    factor = last.estimates[measure.key].mean / e.mean
    if factor >= 1.05:
        words += f"; `{last.group.label}` took {last.estimates[measure.key].text('rounds')}, {factor:.1f} times as many"
    return words + "."


def _least(summary: Summary) -> list[str]:
    """Who spent least on the way, against who was first by rounds, where that is another one."""
    first = summary.rows[0]
    savings: dict[str, list[str]] = {}
    alike: dict[str, set[str]] = {}
    for key, thing in (("upload", "least upload"), ("steps", "fewest local steps")):
        measure = next(m for m in summary.measures if m.key == key)
        least = next((row for row in summary.rows if key in row.best), first)
        ratio = first.estimates[key].mean / least.estimates[key].mean
        if least is not first and math.isfinite(ratio) and ratio >= 1.05:
            mine, its = least.estimates[key].text(measure.unit), first.estimates[key].text(measure.unit)
            label = least.group.label
            savings.setdefault(label, []).append(f"the {thing} ({mine}; `{first.group.label}` {its})")
            alike.setdefault(label, set()).update(f"`{row.group.label}`" for row in summary.rows if key in row.near)
    return [
        f"`{label}` got there with {listing(things)}"
        + (f"; these seeds don’t tell it apart from {listing(sorted(alike[label]))}." if alike[label] else ".")
        for label, things in savings.items()
    ]
