"""What ``hcsfed federation demo`` prints for people: a line at each step on standard error, a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from hcsfed.cli.show import size

if TYPE_CHECKING:
    from hcsfed.flower.demo.story import Outcome


def told(*, quiet: bool) -> Callable[[str], None]:
    """A line with the seconds since the beginning."""
    begin = time.monotonic()

    def tell(line: str) -> None:
        if not quiet:
            print(f"{time.monotonic() - begin:5.0f} s  {line}", file=sys.stderr, flush=True)

    return tell


def as_table(outcome: Outcome) -> None:
    """Round by round: who answered, what it cost, and what came of it."""
    table = Table(title="Bytes: what crossed the wire (what the ledger counts)")
    for column in ("round", "answered", "missing", "away"):
        table.add_column(column)
    for column in ("accuracy", "up", "down"):
        table.add_column(column, justify="right")
    for record in outcome.history:
        wire = record["wire"]
        table.add_row(
            str(record["round"]),
            ", ".join(record["names"]),
            ", ".join(record["missing"]),
            ", ".join(record["away"]),
            f"{record['accuracy']:.4f}",
            *(f"{size(wire[way])} ({size(record[f'{way}load_bytes'])})" for way in ("up", "down")),
        )
    console = Console()
    console.print(table)
    for record in outcome.history:
        for name, why in record["missing"].items():
            console.print(f"round {record['round']}: {name} was missing, {why}", highlight=False, soft_wrap=True)
    if not outcome.complaint:
        gap = f"models differ by {outcome.difference:.1g}" if outcome.difference else "even the models are equal"
        console.print(f"same cohorts and weights as in one process, {gap}", highlight=False)
        console.print(f"same as in the simulator up to round {outcome.undisturbed}", highlight=False)
    console.print(f"took {outcome.seconds:.0f} s; no process is left", highlight=False)
