"""``hcsfed bench wire``: the bytes that Flower's messages really have, beside those that the ledger counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hcsfed.cli.bench.peers import scripts
from hcsfed.cli.show import size
from hcsfed.errors import bad

if TYPE_CHECKING:
    from rich.table import Table

NODES, COHORT, ROUNDS = 6, 3, 3
HIDDEN = {650: 0, 10_000: 133, 100_000: 1333, 1_000_000: 13_333}
"""Parameters wanted → width of the hidden layer that gives about as many, on digits: 64 inputs, 10 classes."""


def wire(
    dimension: Annotated[int, typer.Option(help="Models of up to so many parameters.")] = max(HIDDEN),
    out: Annotated[Path | None, typer.Option(help="Where the figures go, as JSON.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Bytes a message, as Flower serialises it and as the ledger counts it, for models of several sizes.

    Counted on six nodes in one process; what HTTP, TLS and polling add comes on top.
    """
    if dimension < min(HIDDEN):
        raise bad("dimension", "bench wire", f"an int >= {min(HIDDEN)}", dimension)
    for module in ("flwr", "torch"):
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)
    rows = [
        {"selector": selector, "refresh": refresh} | counted(hidden, selector, refresh)
        for wanted, hidden in HIDDEN.items()
        if wanted <= dimension
        for selector, refresh in (("random", ""), ("hcsfed", "fresh"), ("hcsfed", "stale"))
    ]
    found = {"versions": {"flwr": version("flwr")}, "rows": rows}
    benchmarks = scripts() if dimension >= max(HIDDEN) else None  # a quick look never takes the place of a real result
    path = out or (benchmarks and benchmarks / "results" / "wire.json")
    if path:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if json_:
        print(json.dumps(found))
        return
    from rich.console import Console

    Console().print(as_table(rows))


def as_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A line for each run."""
    from rich.table import Table

    table = Table(title="Bytes of a round by the ledger, and what Flower's messages add", box=None, pad_edge=False)
    for column in ("d", "selector", "up", "a message", "in all", "down", "a message", "in all"):
        table.add_column(column, justify="left" if column == "selector" else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            f"{row['parameters']:,}", f"{row['selector']} {row['refresh']}", *added(row, "up"), *added(row, "down")
        )
    return table


def added(row: dict[str, Any], way: str) -> tuple[str, str, str]:
    """What the ledger counts, and what the protocol adds to a message and to the whole."""
    counted = row[f"ledger_{way}"]
    extra = row[f"wire_{way}"] - counted
    share = 100 * extra / counted
    return size(counted), f"+{size(extra / row['messages'])}", f"+{share:.0f} %" if share > 10 else f"+{share:.2f} %"


def counted(hidden: int, selector: str, refresh: str) -> dict[str, Any]:
    """The last round of a short run: every message of it weighed."""
    from hcsfed.data import load
    from hcsfed.flower import LocalGrid, Strategy, client_app, initial_arrays
    from hcsfed.flower.local_grid import hushed

    federation = load("digits", clients=NODES)
    model, shape = "mlp" if hidden else "logistic", {"hidden": hidden} if hidden else {}  # type: str, dict[str, Any]
    options = {"local.steps": 1, "local.lr": 0.01} | ({"selector.refresh": refresh} if refresh else {})
    asked = Strategy(selector, cohort=COHORT, clients=NODES, options=options)
    start = initial_arrays(federation, model, **shape)
    grid = LocalGrid(client_app(federation, model, **shape), NODES)
    with hushed():
        asked.start(grid, start, num_rounds=ROUNDS, timeout=60)
    record = asked.history[-1]
    return {
        "parameters": sum(array.numpy().size for array in start.values()),
        "messages": sum(each == ROUNDS for *_, each in grid.log),
        "wire_up": record["wire"]["up"],
        "wire_down": record["wire"]["down"],
        "ledger_up": record["upload_bytes"],
        "ledger_down": record["download_bytes"],
    }
