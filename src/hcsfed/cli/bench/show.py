"""The figures of ``hcsfed bench`` as tables for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hcsfed.cli.bench.figures import OURS, Spread


def clock(seconds: float) -> str:
    """``4.71 ms`` or ``2.13 s``: three digits."""
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def times(result: dict[str, Any]) -> Table:
    """Every engine in every case: best, median and worst turn, and the best as a multiple of ours."""
    table = Table(title=f"Seconds a round, {result['repeats']} repeats, {result['cpu']}, {result['cores']} cores")
    for column in ("round", "engine"):
        table.add_column(column)
    for column in ("best", "median", "worst", "x hcsfed"):
        table.add_column(column, justify="right")
    for case, engines in result["seconds"].items():
        mine = Spread.of(engines[OURS]).best if engines.get(OURS) else None
        for i, (engine, seconds) in enumerate(engines.items()):
            spread = Spread.of(seconds)
            ratio = "" if mine is None else f"{spread.best / mine:.3g}"
            row = (clock(spread.best), clock(spread.median), clock(spread.worst), ratio)
            table.add_row(case if i == 0 else "", engine, *row, end_section=i + 1 == len(engines))
    return table


def targets(result: dict[str, Any]) -> Table:
    """What was to be reached, and what came."""
    table = Table(title="Targets, by the best repeats")
    for column in ("round", "engine", "against"):
        table.add_column(column)
    for column in ("target", "measured", "reached"):
        table.add_column(column, justify="right")
    for v in result["verdicts"]:
        sign = "≥" if v["kind"] == "faster" else "≤"
        verdict = "[green]yes[/]" if v["reached"] else "[red]no[/]"
        table.add_row(v["case"], v["engine"], v["against"], f"{sign} {v['factor']:g} x", f"{v['ratio']:.3g} x", verdict)
    return table


def show(result: dict[str, Any]) -> None:
    console = Console()
    console.print(times(result))
    console.print(targets(result))
    for case, scores in result["checks"].items():
        strange = [name for name, s in scores.items() if not s.get("learned_alike", True)]
        before, mine = scores["before"]["loss"], scores[OURS]["loss"]
        others = (
            f"[red]but not {', '.join(strange)}[/]" if strange else "and every peer's within a tenth of that change"
        )
        console.print(
            f"{case}: our test loss goes from {before:.4f} to {mine:.4f} in this round, {others}", soft_wrap=True
        )
    for name, reason in result["failed"].items():
        console.print(f"[red]left out: {name}[/] ({escape(reason)})", soft_wrap=True)
    console.print(f"took {result['took']:.0f} s", highlight=False)
