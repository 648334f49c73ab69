"""The figures of ``hcsfed bench select`` as a table for people: question by question, figure against target."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hcsfed.cli.bench.figures import Spread
from hcsfed.cli.bench.show import clock

SIGNS = {"at most": "≤", "at least": "≥"}


def spread(seconds: dict[str, list[float]]) -> str:
    """``np.sort 35.2 ms (35.4, 36 ms)``: best, and median and worst, of each."""
    parts = []
    for name, repeats in seconds.items():
        s = Spread.of(repeats)
        owner = "" if len(seconds) == 1 else f"{name} "
        parts.append(f"{owner}{clock(s.best)} ({clock(s.median)}, {clock(s.worst)})")
    return "; ".join(parts)


def table(question: str, what: str, findings: list[dict[str, Any]]) -> Table:
    """One question, in one unit."""
    out = Table(title=f"{question}\n{what}", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    out.add_column("case")
    for column in ("measured", "target", ""):
        out.add_column(column, justify="right", no_wrap=True)
    out.add_column("best (median, worst)" if any(f["seconds"] for f in findings) else "")
    for f in findings:
        target = "" if f["target"] is None else f"{SIGNS[f['kind']]} {f['target']:g}"
        reached = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[f["reached"]]
        remarks = "; ".join(part for part in (spread(f["seconds"]), f["note"]) if part)
        out.add_row(escape(f["case"]), f"{f['value']:.3g}", target, reached, escape(remarks))
    return out


def show(result: dict[str, Any]) -> None:
    console = Console()
    for (question, what), findings in groupby(result["findings"], key=lambda f: (f["question"], f["what"])):
        console.print(table(question, what, list(findings)))
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    load = "" if result["load"] is None else f", load {result['load'][0]} at the start"
    console.print(f"{result['cpu']}, {result['cores']} cores{load}; {versions}", highlight=False, soft_wrap=True)
    console.print(f"took {result['took']:.0f} s", highlight=False)
