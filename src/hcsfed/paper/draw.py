"""Figures of the experiments: our means with their spread, and the paper's figures as crosses where it has some."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hcsfed.paper import published
from hcsfed.paper.preset import Experiment, Point
from hcsfed.paper.sample import final, rounds_to
from hcsfed.paper.show import blocks, paper_share
from hcsfed.paper.store import Store
from hcsfed.report.paper import FAINT, INK, save
from hcsfed.report.svg import PALETTE
from hcsfed.settings import with_seed

_STYLES = ("--", ":", "-.")


def draw(one: Experiment, store: Store, seeds: int, folder: Path) -> list[Path]:
    """The figures of an experiment, as far as there are runs: dots, and curves where the preset asks for them."""
    found = []
    shown = [
        (title, points)
        for title, points in blocks(one)
        if any(_curve(store, p, seeds) for p in points if p.method != "full")
    ]
    if one.show == "variance" and one.name in store.measured:
        found.append(_errors(store.measured[one.name]["errors"], folder / f"{one.name}.svg"))
    if one.show == "heterogeneity" and one.name in store.measured:
        found.append(_shares(store.measured[one.name]["largest_class"], folder / f"{one.name}.svg"))
    if one.show in ("race", "final") and shown:
        found.append(_dots(one, shown, store, seeds, folder / f"{one.name}.svg"))
    if one.told.get("curves") and shown:
        found.append(_curves(one, shown, store, seeds, folder / f"{one.name}-curves.svg"))
    return found


def _grid(count: int, height: float) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    across = min(count, 3)
    down = -(-count // across)
    figure = Figure(figsize=(max(4.6 * across, 7.0), 0.6 + height * down), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for panel in panels[count:]:
        panel.set_visible(False)
    return figure, panels


def _dots(one: Experiment, shown: Sequence[tuple[str, list[Point]]], store: Store, seeds: int, path: Path) -> Path:
    race = one.show == "race"
    figure, panels = _grid(len(shown), 0.7 + 0.24 * max(len(points) for _, points in shown))
    for panel, (title, points) in zip(panels, shown, strict=False):
        for y, point in enumerate(reversed(points)):
            s = rounds_to(store, point, one.targets[0], seeds) if race else final(store, point, seeds)
            cell = published.rounds(point, one.targets[0]) if race else published.accuracy(point)
            times = 1.0 if race else 100.0
            if s.n:
                spread = 0.0 if math.isnan(s.spread) else s.spread
                middle = s.least if race else s.mean
                mark = "o" if not s.missed else ">"
                panel.errorbar(times * middle, y, xerr=times * spread, fmt=mark, color=PALETTE[0][0], ms=5, capsize=2)
            if cell is not None:
                panel.plot(times * cell.value, y, "x", color=PALETTE[1][0], ms=6, mew=1.6)
        panel.set_yticks(range(len(points)), [p.row for p in reversed(points)], fontsize=8)
        panel.set_title(title.replace(", η", "\nη"), fontsize=9, color=INK, loc="left")
        panel.grid(axis="x", color=FAINT, linewidth=0.5)
        panel.tick_params(length=0, labelsize=8)
        panel.spines[:].set_color(FAINT)
        if race:
            panel.set_xlim(left=0)
    what = f"rounds to {100 * one.targets[0]:g} %, ▸ missed" if race else "test accuracy in %"
    figure.supxlabel(f"{what}: ● ours with its spread over seeds, × the paper's", fontsize=9, color=INK)
    save(figure, path)
    return path


def _errors(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Each design's error, and what of it is bias² where some is seen, on the path of full participation."""
    places = list(dict.fromkeys((row["place"], row["round"]) for row in rows))
    names = list(dict.fromkeys(row["selector"] for row in rows))
    figure, panels = _grid(len(places), 0.7 + 0.24 * len(names))
    for panel, (place, t) in zip(panels, places, strict=False):
        for y, name in enumerate(reversed(names)):
            here = [r for r in rows if (r["place"], r["round"], r["selector"]) == (place, t, name)]
            panel.plot([r["total"] for r in here], [y] * len(here), "o", color=PALETTE[0][0], ms=5, alpha=0.7)
            seen = [r["bias2"] for r in here if r["bias2"] > 3 * r["noise"]]
            panel.plot(seen, [y] * len(seen), "|", color=PALETTE[1][0], ms=9, mew=1.6)
        panel.set_xscale("log")
        panel.set_yticks(range(len(names)), list(reversed(names)), fontsize=8)
        panel.set_title(f"{place}\nround {t}", fontsize=9, color=INK, loc="left")
        panel.grid(axis="x", color=FAINT, linewidth=0.5)
        panel.tick_params(length=0, labelsize=8)
        panel.spines[:].set_color(FAINT)
    figure.supxlabel(
        "● error of the estimate in units of ‖full‖², each seed; | its bias² where seen", fontsize=9, color=INK
    )
    save(figure, path)
    return path


def _shares(largest: Mapping[str, Sequence[float]], path: Path) -> Path:
    """How much of a client is its largest class, by α, and where the paper's ten clients stand."""
    figure, (panel,) = _grid(1, 2.6)
    for alpha, shares in largest.items():
        panel.plot([float(alpha)] * len(shares), [100 * share for share in shares], "o", color=PALETTE[0][0], ms=5)
    panel.axhline(100 * paper_share(), color=PALETTE[1][0], lw=1.2)
    panel.set_xscale("log")
    panel.grid(color=FAINT, linewidth=0.5)
    panel.tick_params(length=0, labelsize=8)
    panel.spines[:].set_color(FAINT)
    figure.supxlabel("α: ● ours, each seed, — the paper's ten clients, said to be at 0.001", fontsize=9, color=INK)
    figure.supylabel("a client's largest class in %", fontsize=9, color=INK)
    save(figure, path)
    return path


def _curves(one: Experiment, shown: Sequence[tuple[str, list[Point]]], store: Store, seeds: int, path: Path) -> Path:
    figure, panels = _grid(len(shown), 3.2)
    for panel, (title, points) in zip(panels, shown, strict=False):
        for i, point in enumerate(p for p in points if not p.sweep):
            found = _curve(store, point, seeds)
            if found:
                length = min(len(path) for path in found)
                mean = np.mean([path[:length] for path in found], axis=0)
                again = i - len(PALETTE)  # who finds no colour left is told apart by strokes
                color, style = (PALETTE[i][0], "-") if again < 0 else (INK, _STYLES[again % len(_STYLES)])
                panel.plot(range(1, length + 1), 100 * mean, style, color=color, lw=1.2, label=point.row)
        panel.set_title(title.replace(", η", "\nη"), fontsize=9, color=INK, loc="left")
        panel.grid(color=FAINT, linewidth=0.5)
        panel.tick_params(length=0, labelsize=8)
        panel.spines[:].set_color(FAINT)
    entries = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=4 if len(shown) > 1 else 2,
        frameon=False,
        fontsize=8,
    )
    figure.supylabel("test accuracy in %, mean over seeds", fontsize=9, color=INK)
    save(figure, path)
    return path


def _curve(store: Store, point: Point, seeds: int) -> list[list[float]]:
    runs = [store.find(with_seed(point.settings, seed)) for seed in range(seeds)]
    return [
        [r["accuracy"] for r in run.history]
        for run in runs
        if run is not None and run.history[-1]["accuracy"] is not None
    ]
