"""Who gets where full participation gets, in how many of its rounds, and at what share of its cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hcsfed.cli.study import frame
from hcsfed.report.words import number

if TYPE_CHECKING:
    from hcsfed.record import Run

Row = dict[str, Any]
BASELINE = "full"
COSTS = ("upload_bytes", "local_steps")


def race(runs: Mapping[str, Sequence[Run]], targets: Sequence[float]) -> list[Row]:
    """Selector and target → rounds and costs by seed; None where a run missed the target."""
    return [
        {"target": target, "selector": selector, "rounds": [run.rounds_to(target) for run in those]}
        | {cost: [run.total(cost, target) for run in those] for cost in COSTS}
        for target in targets
        for selector, those in runs.items()
    ]


def curve(runs: Mapping[str, Sequence[Run]], budgets: Sequence[int]) -> list[Row]:
    """Selector → test accuracy when so many local steps were spent, by seed; None where a run ended before."""
    return [
        {"selector": selector, "steps": budget, "accuracy": [_at(run, budget) for run in those]}
        for selector, those in runs.items()
        for budget in budgets
    ]


def _at(run: Run, budget: int) -> float | None:
    """The accuracy of the last round that was over within the budget."""
    spent, found = 0, None
    for record in run.history:
        spent += record["local_steps"]
        if spent > budget:
            return found
        found = record["accuracy"] if record["accuracy"] is not None else found
    return found if spent > 0.99 * budget else None


@dataclass(frozen=True)
class Ratio:
    """The sum of one figure over seeds in units of another's, and the standard error of it; NaN where seeds missed."""

    value: float
    error: float

    @classmethod
    def of(cls, mine: Sequence[float | None], others: Sequence[float | None]) -> Ratio:
        pairs = [(a, b) for a, b in zip(mine, others, strict=True) if a is not None and b is not None]
        if len(pairs) < len(mine):
            return cls(math.nan, math.nan)
        a, b = np.array(pairs, float).T
        value = float(a.sum() / b.sum())
        n = len(pairs)
        error = float((a - value * b).std(ddof=1) / (math.sqrt(n) * b.mean())) if n > 1 else math.nan
        return cls(value, error)

    def __str__(self) -> str:
        return f"{self.value:.2f}" + ("" if math.isnan(self.error) else f" ± {self.error:.2f}")


def ratios(rows: Sequence[Row], row: Row) -> dict[str, Ratio]:
    """A row's rounds and costs in units of full participation's, to the same target in the same place."""
    same = ("question", "place", "target")
    base = next(r for r in rows if r["selector"] == BASELINE and all(r.get(k) == row.get(k) for k in same))
    return {figure: Ratio.of(row[figure], base[figure]) for figure in ("rounds", *COSTS)}


@dataclass(frozen=True)
class Verdict:
    """Whether one row is what was wanted, and the figures that say so."""

    place: str
    target: float
    reached: bool
    because: str


def verdicts(rows: Sequence[Row], wanted: Mapping[str, Any]) -> list[Verdict]:
    """What was wanted of one selector, at each place and target of a question."""
    found = []
    places = dict.fromkeys(row["place"] for row in rows)
    for place in places:
        mine = [row for row in rows if row["place"] == place and row["selector"] == wanted["selector"]]
        for i, row in enumerate(mine):
            if wanted.get("best"):
                others = [r for r in rows if r["place"] == place and r["target"] == row["target"]]
                found.append(_best(row, others))
                continue
            got = ratios(rows, row)
            limits = {figure: wanted[figure][i] for figure in ("rounds", *COSTS) if figure in wanted}
            reached = all(got[figure].value <= limit + 1e-9 for figure, limit in limits.items())
            because = ", ".join(_told(figure, got[figure], limit) for figure, limit in limits.items())
            found.append(Verdict(place, row["target"], reached, because))
    return found


def _told(figure: str, got: Ratio, limit: float) -> str:
    if math.isnan(got.value):
        return "some seed never got there"
    if figure == "rounds":
        return f"{got} × the rounds (at most {limit:g})"
    thing = "uploads" if figure == "upload_bytes" else "local steps"
    return f"{100 * got.value:.1f} % of the {thing} (at most {100 * limit:g})"


def _best(row: Row, others: Sequence[Row]) -> Verdict:
    """Fewest rounds of all but full participation; a run that missed has taken more than all there were."""

    def mean(r: Row) -> float:
        return float(np.mean([math.inf if n is None else n for n in r["rounds"]]))

    rivals = sorted((r for r in others if r["selector"] not in (row["selector"], BASELINE)), key=mean)
    if not rivals:
        return Verdict(row["place"], row["target"], False, "nobody to compare with")
    because = f"{mean(row):.1f} rounds, next {rivals[0]['selector']} with {mean(rivals[0]):.1f}"
    return Verdict(row["place"], row["target"], mean(row) < mean(rivals[0]), because)


def race_tables(rows: Sequence[Row]) -> str:
    """Rounds in units of full participation's, then costs; a line a selector, a column a place and target."""
    columns = list(dict.fromkeys((row["place"], row["target"]) for row in rows))
    selectors = dict.fromkeys(row["selector"] for row in rows)
    named = {(row["selector"], row["place"], row["target"]): row for row in rows}
    times, shares = [], []
    for selector in selectors:
        mine = [named[selector, *column] for column in columns]
        got = [ratios(rows, row) for row in mine]
        times.append([f"`{selector}`", *(_times(*pair) for pair in zip(mine, got, strict=True))])
        shares.append([f"`{selector}`", *(_shares(one) for one in got)])
    heads = [f"{place}, {100 * target:g} %" for place, target in columns]
    first = frame.markdown(["× the rounds of `full`", *heads], times)
    return first + "\n\n" + frame.markdown(["uploads · local steps, % of `full`", *heads], shares)


def _times(row: Row, got: Mapping[str, Ratio]) -> str:
    if math.isnan(got["rounds"].value) or row["selector"] == BASELINE:
        return frame.mean(row["rounds"]) + (" rounds" if None not in row["rounds"] else "")
    return str(got["rounds"])


def _shares(got: Mapping[str, Ratio]) -> str:
    return " · ".join("–" if math.isnan(got[cost].value) else f"{100 * got[cost].value:.1f}" for cost in COSTS)


def curve_table(rows: Sequence[Row]) -> str:
    """A line a selector, a column a budget of local steps."""
    budgets = list(dict.fromkeys(row["steps"] for row in rows))
    lines = []
    for selector in dict.fromkeys(row["selector"] for row in rows):
        of = {row["steps"]: row["accuracy"] for row in rows if row["selector"] == selector}
        lines.append([f"`{selector}`", *(_spread(of[budget]) for budget in budgets)])
    return frame.markdown(["selector", *(f"{number(b, 'steps')} steps" for b in budgets)], lines)


def _spread(values: Sequence[float | None]) -> str:
    known = [100 * v for v in values if v is not None]
    if len(known) < len(values) or not known:
        return "–"
    return f"{np.mean(known):.1f} ({min(known):.1f} … {max(known):.1f})" if len(known) > 1 else f"{known[0]:.1f}"
