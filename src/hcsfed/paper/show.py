"""Tables: our figures beside the paper's, as plain rows that the terminal, Markdown and the page all take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from hcsfed.paper import published
from hcsfed.paper.preset import Experiment, Point
from hcsfed.paper.sample import Sample, agrees, best, best_round, factor, final, rounds_to, spent_to
from hcsfed.paper.store import Store
from hcsfed.report.words import number

NOTHING = "–"
UNMEASURED = "Nothing of it was run."


@dataclass(frozen=True)
class Table:
    """A title, a head and rows of words; the first column is text, the others are figures, or ``words`` all of them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False

    def markdown(self) -> str:
        lines = [self.head, ["---", *["---" if self.words else "---:"] * (len(self.head) - 1)], *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def text(one: Experiment, store: Store, seeds: int) -> str:
    """An experiment in Markdown: what it is, its tables, and its verdicts."""
    from hcsfed.paper.claims import claims
    from hcsfed.paper.verdict import table as verdicts

    parts = [f"## {one.name}: {one.title}", f"The paper: {one.source}. {one.note}".strip()]
    shown = tables(one, store, seeds)
    for table in shown:
        parts += [f"### {table.title}", table.markdown()]
    if not shown:
        parts.append(UNMEASURED)
    if found := claims(one.name, store, seeds):
        parts += ["### Verdicts", verdicts(found).markdown()]
    return "\n\n".join(parts) + "\n"


def tables(one: Experiment, store: Store, seeds: int) -> list[Table]:
    """All tables of an experiment, as far as there are figures."""
    if one.show == "race":
        return [*_overviews(one, store, seeds), *_races(one, store, seeds)]
    if one.show == "final":
        return [*_finals(one, store, seeds), *_overviews(one, store, seeds)]
    figures = store.measured.get(one.name)
    if figures is None:
        return []
    return list({"variance": _variance, "heterogeneity": _heterogeneity, "picture": _clusters}[one.show](figures))


# Rounds to a target, as the paper's Table 1 has them: a column for what is varied


def _overviews(one: Experiment, store: Store, seeds: int) -> Iterator[Table]:
    """Where blocks differ in the ratio or the rate alone; of final accuracies only if the paper has rounds too."""

    def where(p: Point) -> tuple[str, ...]:
        return p.data, p.partition, p.model

    for key, group in groupby(sorted(one.points, key=where), key=where):
        points = sorted(group, key=one.points.index)
        columns = sorted({(p.lr, p.q) for p in points})
        if len(columns) < 2:
            continue
        for target in one.targets:
            by = {(p.row, p.lr, p.q): (p, rounds_to(store, p, target, seeds)) for p in points}
            paper = any(published.rounds(p, target) for p in points)
            if (one.show == "final" and not paper) or not any(s.n for p, s in by.values() if p.method != "full"):
                continue
            same_rate = len({lr for lr, _ in columns}) == 1
            head = [""]
            for lr, q in columns:
                head += [f"q = {q:g}" if same_rate else f"η = {lr:g}", *(["paper"] if paper else [])]
            rows = []
            for name in dict.fromkeys(p.row for p in points):
                row = [name]
                for lr, q in columns:
                    point, s = by.get((name, lr, q), (None, None))
                    row += _overview_cells(point, s, target)[: 2 if paper else 1]
                rows.append(tuple(row))
            rest = f", η = {columns[0][0]:g}" if same_rate else f", q = {columns[0][1]:g}"
            title = (
                f"{', '.join(key)}{rest}: rounds to {100 * target:g} % ({_seeds([s for _, s in by.values()], seeds)})"
            )
            yield Table(title, tuple(head), tuple(rows))


def _overview_cells(point: Point | None, s: Sample | None, target: float) -> tuple[str, str]:
    if point is None or s is None:
        return NOTHING, NOTHING
    ours = f"{s.mean:.1f} ± {plus_minus(s)}" if s.n and not s.missed else rounds_text(s)
    cell = published.rounds(point, target)
    return ours, NOTHING if cell is None else cell_text(cell) + (" =" if same(s, cell) else "")


def same(ours: Sample, cell: published.Cell) -> bool | None:
    """Whether a number of rounds is the paper's; of a target that it missed, whether ours missed it too."""
    if not ours.n:
        return None
    if cell.censored:
        return ours.missed == ours.n
    return not ours.missed and bool(agrees(ours, cell.value, cell.plus_minus, share=False))


def _seeds(found: Sequence[Sample], seeds: int) -> str:
    """How many seeds stand behind the cells of a table."""
    counts = [s.n for s in found if s.n]
    least, most = min(counts, default=0), max(counts, default=0)
    return f"{least if least == most else f'{least} to {most}'} of {seeds} seeds"


# Races: rounds to a target, with what they cost


def blocks(one: Experiment) -> Iterator[tuple[str, list[Point]]]:
    """Points that stand in one table: same data, partition, model, rate and ratio."""

    def where(p: Point) -> tuple[Any, ...]:
        return p.data, p.partition, p.model, p.lr, p.q

    for key, group in groupby(sorted(one.points, key=lambda p: tuple(map(str, where(p)))), key=where):
        found = list(group)
        data, partition, model, lr, q = key
        yield f"{data}, {partition}, {model}, η = {lr:g}, q = {q:g}", sorted(found, key=one.points.index)


def _races(one: Experiment, store: Store, seeds: int) -> Iterator[Table]:
    for title, points in blocks(one):
        # Full participation is the same run at any q: alone it makes no table of a ratio that was not tried.
        if not any(final(store, p, seeds).n for p in points if p.method != "full"):
            continue
        telling = [t for t in one.targets if _tells(points, t, store, seeds)]
        for target in telling or one.targets[-1:]:
            yield _race(f"{title}: to {100 * target:g} %", points, target, store, seeds)


def _tells(points: Sequence[Point], target: float, store: Store, seeds: int) -> bool:
    """Whether anyone reached a target, or the paper has figures of it."""
    reached = any(s.n > s.missed for s in (rounds_to(store, p, target, seeds) for p in points))
    return reached or any(published.rounds(p, target) for p in points)


def _race(title: str, points: Sequence[Point], target: float, store: Store, seeds: int) -> Table:
    took = {p: rounds_to(store, p, target, seeds) for p in points}
    baselines = [(name, took[p]) for name in ("random-shrunk", "random") for p in points if p.method == name]
    paper = [published.rounds(p, target) for p in points]
    named = any(paper)
    sweep = any(p.sweep for p in points)
    head = ["", "rounds", "±", *(["paper"] if named else []), *(f"{name} ÷" for name, _ in baselines)]
    head += ["upload", "local steps", "final accuracy", "±", *(["best", "at round"] if sweep else []), "seeds"]
    rows = []
    for point, cell in zip(points, paper, strict=True):
        s, end = took[point], final(store, point, seeds)
        row = [point.row, rounds_text(s), plus_minus(s)]
        if named:
            row.append(NOTHING if cell is None else cell_text(cell))
        row += [factor_text(base, s) for _, base in baselines]
        row += [cost_text(spent_to(store, point, target, seeds, "upload_bytes"), "bytes")]
        row += [cost_text(spent_to(store, point, target, seeds, "local_steps"), "steps")]
        row += [share(end.mean), plus_minus(end, 100)]
        if sweep:
            row += [share(best(store, point, seeds).mean), _whole(best_round(store, point, seeds).mean)]
        rows.append((*row, f"{s.n} of {seeds}"))
    return Table(title, tuple(head), tuple(rows))


# Final accuracies


def _finals(one: Experiment, store: Store, seeds: int) -> Iterator[Table]:
    def where(p: Point) -> tuple[Any, ...]:
        return p.data, p.partition, p.model, p.lr

    for key, group in groupby(sorted(one.points, key=lambda p: (*map(str, where(p)), p.q)), key=where):
        points = sorted(group, key=one.points.index)
        ratios = sorted({p.q for p in points})
        by = {(p.row, p.q): final(store, p, seeds) for p in points}
        if not any(s.n for s in by.values()):
            continue
        rows = []
        for name in dict.fromkeys(p.row for p in points):
            row = [name]
            for q in ratios:
                point = next((p for p in points if (p.row, p.q) == (name, q)), None)
                row += _final_cells(point, by.get((name, q)))
            rows.append(tuple(row))
        data, partition, model, lr = key
        head = ["", *(word for q in ratios for word in (f"q = {q:g}", "paper"))]
        n = _seeds(list(by.values()), seeds)
        yield Table(f"{data}, {partition}, {model}, η = {lr:g} ({n})", tuple(head), tuple(rows))


def _final_cells(point: Point | None, s: Sample | None) -> tuple[str, str]:
    if point is None or s is None:
        return NOTHING, NOTHING
    cell = published.accuracy(point)
    ours = NOTHING if not s.n else f"{100 * s.mean:.1f} ± {plus_minus(s, 100)}"
    if cell is None:
        return ours, NOTHING
    alike = agrees(s, cell.value, cell.plus_minus, share=True)
    return ours, f"{100 * cell.value:.1f} ± {100 * cell.plus_minus:.1f}" + (" =" if alike else "")


# What is measured without runs


def _variance(figures: dict[str, Any]) -> Iterator[Table]:
    errors, chains = figures["errors"], figures["chains"]
    for place in dict.fromkeys(row["place"] for row in errors):
        here = [row for row in errors if row["place"] == place]
        rounds = list(dict.fromkeys(row["round"] for row in here))
        rows = []
        for selector in dict.fromkeys(row["selector"] for row in here):
            row = [selector]
            for t in rounds:
                of = [r for r in here if r["selector"] == selector and r["round"] == t]
                total, bias2 = (float(np.mean([r[what] for r in of])) for what in ("total", "bias2"))
                seen = all(r["bias2"] > 3 * r["noise"] for r in of)
                row += [f"{total:.3g}", f"{bias2:.2g}" if seen else "none seen"]
            rows.append(tuple(row))
        head = ["", *(word for t in rounds for word in (f"error, round {t}", "of it bias²"))]
        yield Table(f"{place}: the estimate's error in units of ‖full‖²", tuple(head), tuple(rows))
    for place in dict.fromkeys(row["place"] for row in chains):
        for features in dict.fromkeys(row["features"] for row in chains):
            here = [row for row in chains if (row["place"], row["features"]) == (place, features)]
            rounds = list(dict.fromkeys(row["round"] for row in here))
            rows = []
            for design in dict.fromkeys(row["design"] for row in here):
                row = [design]
                for t in rounds:
                    of = [r for r in here if r["design"] == design and r["round"] == t]
                    row += [f"{np.mean([r[what] for r in of]):.3g}" for what in ("large", "whole")]
                rows.append(tuple(row))
            head = ["", *(word for t in rounds for word in (f"as in the paper, round {t}", "as drawn"))]
            yield Table(f"{place}: Theorem 1, clusters on {features}", tuple(head), tuple(rows))


def _heterogeneity(figures: dict[str, Any]) -> Iterator[Table]:
    rows = [("the paper's ten clients", f"{100 * paper_share():.1f} %", NOTHING)]
    for alpha, shares in figures["largest_class"].items():
        spread = f"{100 * np.std(shares, ddof=1):.1f}" if len(shares) > 1 else NOTHING
        rows.append((f"α = {alpha}", f"{100 * np.mean(shares):.1f} %", spread))
    yield Table("The share of a client's largest class", ("", "mean over clients", "±"), tuple(rows))


def paper_share() -> float:
    """Of the clients in the paper's Table 2."""
    return float(np.mean([max(row) / sum(row) for row in published.heterogeneity().values()]))


def _clusters(figures: dict[str, Any]) -> Iterator[Table]:
    found = figures["clusters"]
    places = list(dict.fromkeys(row["place"] for row in found))
    rows = [
        (
            selector,
            *(
                f"{r['rand']:.2f}"
                for place in places
                for r in found
                if (r["place"], r["selector"]) == (place, selector)
            ),
        )
        for selector in dict.fromkeys(row["selector"] for row in found)
    ]
    yield Table("Agreement of clusters with classes (adjusted Rand index)", ("clusters of", *places), tuple(rows))


# Words


def rounds_text(s: Sample) -> str:
    if not s.n:
        return NOTHING
    return f"{s.mean:.1f}" if not s.missed else f"> {s.least - 1:.0f} ({s.missed} missed)"


def cell_text(cell: published.Cell) -> str:
    return f"{cell.value:g}{'+' if cell.censored else ''}"


def _whole(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.0f}"


def plus_minus(s: Sample, times: float = 1.0) -> str:
    return NOTHING if math.isnan(s.spread) else f"{times * s.spread:.1f}"


def share(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{100 * value:.1f} %"


def cost_text(s: Sample, unit: Any) -> str:
    if not s.n:
        return NOTHING
    return number(s.mean, unit) if not s.missed else f"> {number(s.least, unit)}"


def factor_text(slow: Sample, quick: Sample) -> str:
    found = factor(slow, quick)
    if math.isnan(found):
        return NOTHING
    return f"{'> ' if slow.missed else ''}{found:.1f}"
