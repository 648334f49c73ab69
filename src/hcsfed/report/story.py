"""The report's headline and its findings, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hcsfed.report.summary import Group, Summary
from hcsfed.report.words import count, listing, number


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
    """What the table says, the main thing first. Only what the intervals carry is said without a reservation."""
    measure = summary.measures[0]
    reached = [row for row in summary.rows if row.estimates[measure.key].kind in ("t", "range", "single")]
    missed = [row for row in summary.rows if row.estimates[measure.key].kind == "missed"]
    told = []
    if measure.spent is not None and reached:
        best = next((row for row in reached if measure.key in row.best), reached[0])
        e = best.estimates[measure.key]
        spread = f" ({e.interval(measure.unit)})" if e.interval(measure.unit) else ""
        goal = f"{100 * (best.group.target or 0):g} %"
        words = f"{best.group.label} reached {goal} first, after {number(e.mean, 'rounds')} rounds{spread}"
        rest = [row for row in reached if row is not best]
        if rest:
            slowest = max(rest, key=lambda row: row.estimates[measure.key].mean)
            factor = slowest.estimates[measure.key].mean / e.mean
            if math.isfinite(factor) and factor >= 1.05:
                after = number(slowest.estimates[measure.key].mean, "rounds")
                words += f"; {slowest.group.label} took {after}, {factor:.1f} times as many"
        elif not missed:
            words = f"{best.group.label} reached {goal} after {number(e.mean, 'rounds')} rounds{spread}"
        told.append(words + ".")
        near = [row.group.label for row in summary.rows if measure.key in row.near]
        if near:
            told.append(f"The interval of {listing(near)} meets that of the best: these seeds don't tell them apart.")
    if missed:
        cases = [f"{r.group.label} in {r.estimates[measure.key].missed} of {r.estimates[measure.key].n}" for r in missed]
        told.append(f"The target was missed by {listing(cases)} {'runs' if len(cases) > 1 else 'run(s)'}.")
    upload = next((m for m in summary.measures if m.key == "upload"), None)
    if upload is not None and told and reached and len(reached) > 1:
        cheapest = next((row for row in summary.rows if upload.key in row.best), None)
        if cheapest is not None:
            spent = number(cheapest.estimates[upload.key].mean, "bytes")
            told.append(f"The least upload on the way was {spent}, by {cheapest.group.label}.")
    return told
