"""The summary as a table for the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from hcsfed.report.summary import Summary, interval_note


def summary_table(summary: Summary) -> Table:
    """One row per group, the best first; the best mean of each column is bold and starred."""
    note = interval_note(summary)
    if len(summary.rows) > 1:
        note = f"* best mean of its column. {note}"
    table = Table(caption=note, caption_justify="left", header_style="bold", box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    table.add_column("seeds", justify="right")
    for m in summary.measures:
        table.add_column(m.title.lower(), justify="right")
    for row in summary.rows:
        cells = []
        for m in summary.measures:
            e = row.estimates[m.key]
            cell = Text(e.text(m.unit))
            if m.key in row.best:
                cell = Text(f"* {e.text(m.unit)}", style="bold green")
            if e.interval(m.unit):
                cell.append(f"\n{e.interval(m.unit)}", style="dim")
            cells.append(cell)
        table.add_row(row.group.label, str(len(row.group.runs)), *cells)
    return table
