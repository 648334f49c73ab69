"""The summary as a table for the terminal."""

from __future__ import annotations

from textwrap import fill

from rich.table import Table
from rich.text import Text

from hcsfed.report.summary import Summary, interval_note
from hcsfed.report.words import count, listing

# All measures with all their intervals don't fit the 80 columns of a terminal; the page has them all.
LABEL = 16
MARK = " ◆"
WITHOUT_INTERVAL = ("loss", "memory", "disk", "seconds")


def summary_table(summary: Summary) -> Table:
    """One row per group, the best first; the best mean of each column is bold and starred."""
    note = interval_note(summary)
    seeds = {len(group.runs) for group in summary.groups}
    if len(seeds) == 1:
        note = f"{count(seeds.pop(), 'seed')} each. {note}"
    if len(summary.rows) > 1:
        note = f"* best mean of its column. {front_note(summary)} {note}"
    table = Table(
        caption=note, caption_justify="left", header_style="bold", box=None, pad_edge=False, collapse_padding=True
    )
    shown = [m for m in summary.measures if m.key != "loss" or "accuracy" not in {m.key for m in summary.measures}]
    table.add_column("", no_wrap=True)
    if seeds:
        table.add_column("seeds", justify="right")
    for m in shown:
        title = m.title.lower().replace("simulated time", "clock")  # the longest word makes the column wide
        table.add_column(title, justify="right", overflow="fold")
    for row in summary.rows:
        cells = []
        for m in shown:
            e = row.estimates[m.key]
            cell = Text(e.text(m.unit))
            if m.key in row.best:
                cell = Text(f"*{e.text(m.unit)}", style="bold green")
            if m.key not in WITHOUT_INTERVAL and e.interval(m.unit):
                cell.append(f"\n{e.interval(m.unit)}", style="dim")
            cells.append(cell)
        table.add_row(
            fill(row.group.label + MARK * row.front, LABEL), *([str(len(row.group.runs))] if seeds else []), *cells
        )
    return table


def front_note(summary: Summary) -> str:
    """What the mark of the Pareto front means."""
    if not any(row.front for row in summary.rows):
        return ""
    things = listing([m.title.lower().removesuffix(" to target") for m in summary.costs])
    return f"◆ Pareto front: nobody has means as low in {things} and a lower one."
