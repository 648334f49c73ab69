"""``hcsfed data``: which sets there are, bring one here, look at how it is dealt to clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from hcsfed.data import load
from hcsfed.data.catalogue import CATALOGUE, fetch_set
from hcsfed.data.picture import draw
from hcsfed.data.picture import names as names_of
from hcsfed.errors import SettingError, bad, unknown
from hcsfed.settings import parse_assignments
from hcsfed.types import Federation

app = typer.Typer(help="Sets of data and how they are dealt to clients.", no_args_is_help=True)

_SHADES = " ░▒▓█"
_WIDE = 16  # more classes than this don't fit a table's columns


@app.command("list")
def list_() -> None:
    """Show every named set, where it was found or how much would be downloaded, its licence and reference."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("set", "holds", "where", "licence", "reference"):
        table.add_column(heading, overflow="fold")
    for name, entry in CATALOGUE.items():
        where = entry.place() or f"to download, {entry.size / 1e6:.1f} MB"
        table.add_row(name, entry.holds, where, entry.licence, entry.reference)
    Console().print(table)


@app.command()
def fetch(name: Annotated[str, typer.Argument(help="A set's name, as `hcsfed data list` shows it.")]) -> None:
    """Find a set on this machine, or download it; says where it is."""
    typer.echo(f"{name}: {fetch_set(name).place()}")


@app.command()
def show(
    data: Annotated[str, typer.Option(help="A set's name, an .npz file, or a folder of images by class.")] = "digits",
    partition: Annotated[str, typer.Option(help="How rows are dealt: iid, shard, dirichlet, natural.")] = "default",
    clients: Annotated[int | None, typer.Option(help="N.")] = None,
    seed: Annotated[int, typer.Option(help="Of the partition.")] = 0,
    set: Annotated[list[str] | None, typer.Option(help="Options, such as partition.alpha=0.3.")] = None,
    rows: Annotated[int, typer.Option(help="Clients to list.")] = 20,
    out: Annotated[Path | None, typer.Option(help="Draw it into this .png, .svg or .pdf file.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one object instead.")] = False,
) -> None:
    """Show who holds how many rows of which class, as a table and as a picture."""
    if rows < 0:
        raise bad("rows", "data show", "an int >= 0", rows)
    options = _options(set or [])
    clients = options["partition"].pop("clients", clients)  # one setting, of which --clients is the short form
    federation = load(
        data, partition, clients, seed, data_options=options["data"], partition_options=options["partition"]
    )
    if out is not None:
        draw(federation, out)
    if json_:
        counts = federation.class_counts.tolist()
        about = {"data": federation.name, "clients": federation.clients, "classes": federation.classes}
        typer.echo(json.dumps({**about, "sizes": federation.sizes.tolist(), "class_counts": counts}))
        return
    console = Console()
    console.print(_summary(federation), highlight=False)
    if federation.classes:
        console.print(_heat(federation, console.width), highlight=False, no_wrap=True)
    if rows:
        console.print(_table(federation, rows))
    if federation.clients > rows:
        console.print(f"{federation.clients - rows} more clients; --rows {federation.clients} lists all", style="dim")


def _options(assignments: list[str]) -> dict[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]] = {"data": {}, "partition": {}}
    for key, value in parse_assignments(assignments).items():
        section, _, option = key.partition(".")
        if section not in options or not option:
            raise unknown("setting of data show:", key, ["data.OPTION", "partition.OPTION"])
        if option == "name":
            raise SettingError(f"--set {key} is what --{section} is for")
        options[section][option] = value
    return options


def _summary(federation: Federation) -> str:
    sizes, about = federation.sizes, federation.about
    named = " ".join(f"{k}={v}" for k, v in about["partition"].items() if k != "name")
    return (
        f"{federation.name}, partition {about['partition']['name']} {named}".rstrip()
        + f": {federation.clients:,} clients, {len(federation.x):,} rows "
        + f"({sizes.min():,} to {sizes.max():,} each), {len(federation.test_x):,} test rows, "
        + f"{federation.x.dtype}{list(federation.x.shape[1:])}"
    )


def _heat(federation: Federation, width: int) -> str:
    """A line per class, a place per client (or per few of them): the darker, the larger that class's share there."""
    counts, names = federation.class_counts, names_of(federation)
    margin = max(5, *map(len, names))
    each = -(-len(counts) // max(1, width - margin - 3))  # clients to a place
    starts = np.arange(0, len(counts), each)
    share = np.add.reduceat(counts, starts)
    share = share / share.sum(1, keepdims=True)
    # Rounded up, so that any share that is not zero can be seen.
    shade = np.ceil(share / share.max() * (len(_SHADES) - 1)).astype(int)
    most = np.sort(np.argsort(-counts.sum(0), kind="stable")[:_WIDE])
    title = "class" if len(most) == federation.classes else f"the {_WIDE} most frequent of {federation.classes} classes"
    lines = [f"{names[c]:>{margin}} │" + "".join(_SHADES[s] for s in shade[:, c]) for c in most]
    foot = [" " * margin + " └" + "─" * len(starts), " " * margin + f"  clients 0 to {len(counts) - 1}"]
    return "\n".join([title, *lines, *foot])


def _table(federation: Federation, rows: int) -> Table:
    """Client × class, or, where classes are many, each client's most frequent ones."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("client", "rows", "weight"):
        table.add_column(heading, justify="right")
    counts, names, narrow = federation.class_counts, names_of(federation), federation.classes <= _WIDE
    if narrow:
        for name in names:
            table.add_column(name, justify="right")
    else:
        table.add_column("most frequent classes (labels)")
    for k in range(min(rows, federation.clients)):
        mine = counts[k]
        most = [f"{names[c]} {mine[c]:,}" for c in np.argsort(-mine, kind="stable")[:6] if mine[c]]
        cells = [f"{n:,}" if n else "·" for n in mine] if narrow else [", ".join(most)]
        table.add_row(str(k), f"{federation.sizes[k]:,}", f"{federation.weights[k]:.3g}", *cells)
    return table
