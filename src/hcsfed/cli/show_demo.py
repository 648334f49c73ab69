"""What ``hcsfed federation demo`` prints for people: a line at each step on standard error, a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
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
    for record in outcome.verdict.history:
        wire = record["wire"]
        table.add_row(
            str(record["round"]),
            ", ".join(record["names"]),
            ", ".join(record["missing"]),
            ", ".join(record["away"]),
            f"{record['accuracy']:.4f}",
            *(f"{size(wire[way])} ({size(record[f'{way}load_bytes'])})" for way in ("up", "down")),
        )
    Console().print(table)
    for line in lines(outcome):
        print(line)


def lines(outcome: Outcome) -> Iterator[str]:
    """What there is to say below the table."""
    verdict = outcome.verdict
    for record in verdict.history:
        for name, why in record["missing"].items():
            yield f"round {record['round']}: {name} was missing, {why}"
    if not verdict.complaint:
        yield f"the same run in one process: same cohorts and weights, the model {apart(verdict.process)}"
        if verdict.undisturbed:
            yield f"the simulator, up to round {verdict.undisturbed}: the same, the model {apart(verdict.simulator)}"
    yield f"took {outcome.seconds:.0f} s; no process is left"


def apart(gap: float | None) -> str:
    """How far two models are from each other."""
    return f"within {gap:.1g}" if gap else "equal to the last digit"
