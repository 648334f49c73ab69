"""How far each selector is from full participation, drawn: one panel a round, one line a selector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hcsfed.report.paper import FAINT, INK, save
from hcsfed.report.svg import PALETTE

if TYPE_CHECKING:
    from hcsfed.theory import Error


def draw_errors(errors: Mapping[int, Mapping[str, Error]], title: str, path: Path) -> None:
    """Write a picture of round → selector → error: total with twice its standard error, and bias² where there is any.

    The axis is logarithmic, as designs differ by factors; 1 is the error of not moving at all.
    """
    from matplotlib.figure import Figure

    names = list(next(iter(errors.values())))
    figure = Figure(figsize=(3.2 + 3.4 * len(errors), 1.5 + 0.3 * len(names)), layout="constrained")
    panels = figure.subplots(1, len(errors), sharex=True, sharey=True, squeeze=False)[0]
    rows = range(len(names), 0, -1)
    for panel, (round_, of) in zip(panels, errors.items(), strict=True):
        found = [of[name] for name in names]
        panel.set_xscale("log")
        panel.axvline(1, color=FAINT, linewidth=1)
        totals = [e.total for e in found]
        low = [max(e.total - 2 * e.spread, e.total / 10) for e in found]
        panel.hlines(rows, low, [e.total + 2 * e.spread for e in found], color=PALETTE[0][0], linewidth=1.5)
        panel.plot(totals, rows, "o", color=PALETTE[0][0], label="bias² + variance")
        biased = [(e.bias2, row) for e, row in zip(found, rows, strict=True) if e.biased]
        if biased:
            panel.plot(*zip(*biased, strict=True), "D", mfc="none", color=PALETTE[1][0], label="bias²")
        panel.set_title(f"round {round_}", fontsize=10, color=INK)
        panel.set_ylim(0.4, len(names) + 0.6)
        panel.grid(axis="x", color=FAINT, linewidth=0.5)
        panel.tick_params(length=0, labelsize=9)
        panel.spines[:].set_visible(False)
    panels[0].set_yticks(list(rows), names)
    entries = dict(reversed(pair) for panel in panels for pair in zip(*panel.get_legend_handles_labels(), strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower right", ncols=2, frameon=False, fontsize=9)
    figure.supxlabel("‖estimate − full‖² / ‖full‖², log scale", fontsize=9, color=INK)
    figure.suptitle(title, fontsize=11, color=INK)
    save(figure, path)
