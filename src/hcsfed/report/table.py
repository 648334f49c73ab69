"""The summary as a table for the terminal."""

from __future__ import annotations

from textwrap import fill

from rich.table import Table
from rich.text import Text

from hcsfed.report.summary import Summary, interval_note
from hcsfed.report.words import count

# Six measures with all their intervals don't fit the 80 columns of a terminal; the page has them all.
LABEL = 16
WITHOUT_INTERVAL = ("loss", "seconds")


def summary_table(summary: Summary) -> Table:
    """One row per group, the best first; the best mean of each column is bold and starred."""
    note = interval_note(summary)
    seeds = {len(group.runs) for group in summary.groups}
    if len(seeds) == 1:
        note = f"{count(seeds.pop(), 'seed')} each. {note}"
    if len(summary.rows) > 1:
        note = f"* best mean of its column. {note}"
    table = Table(
        caption=note, caption_justify="left", header_style="bold", box=None, pad_edge=False, collapse_padding=True
    )
    table.add_column("", no_wrap=True)
    if seeds:
        table.add_column("seeds", justify="right")
    for m in summary.measures:
        table.add_column(m.title.lower(), justify="right", overflow="fold")
    for row in summary.rows:
        cells = []
        for m in summary.measures:
            e = row.estimates[m.key]
            cell = Text(e.text(m.unit))
            if m.key in row.best:
                cell = Text(f"*{e.text(m.unit)}", style="bold green")
            if m.key not in WITHOUT_INTERVAL and e.interval(m.unit):
                cell.append(f"\n{e.interval(m.unit)}", style="dim")
            cells.append(cell)
        table.add_row(fill(row.group.label, LABEL), *([str(len(row.group.runs))] if seeds else []), *cells)
    return table
