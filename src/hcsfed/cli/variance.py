"""``hcsfed variance``: how far each selector's estimate is from full participation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hcsfed.cli import flags as f
from hcsfed.errors import bad
from hcsfed.settings import with_seed

if TYPE_CHECKING:
    from rich.table import Table

    from hcsfed.theory import Error, Link
    from hcsfed.variance import Row

_THEOREM_CLUSTERS = 10


def variance(
    selectors: f.Selectors,
    at: Annotated[str, typer.Option("--at", help="Rounds of full participation, counted from 0.")] = "0,10",
    draws: Annotated[int, typer.Option("--draws", help="Selections per selector and round.")] = 200,
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds, counted from --seed.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 0,
    data: f.Data = None,
    partition: f.Partition = None,
    clients: f.Clients = None,
    model: f.Model = None,
    algorithm: f.Algorithm = None,
    cohort: f.Cohort = None,
    steps: f.Steps = None,
    epochs: f.Epochs = None,
    batch: f.Batch = None,
    lr: f.Rate = None,
    device: f.Device = None,
    backend: f.Backend = None,
    config: f.Config = None,
    set_: f.Assign = None,
    theorem: Annotated[
        str | None,
        typer.Option("--theorem", help="Show Theorem 1's chain too, with clusters on these features, e.g. gc-shared."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for variance.json and variance.svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> None:
    """Ask every selector many times about the same updates: how far is its estimate from everyone's?

    The error is ‖estimate − full‖² / ‖full‖², mean over draws, parted into bias² and variance. Updates are those of
    full participation at the rounds of --at. What a selector knows is heard fresh at each of them.
    """
    if seeds < 1:
        raise bad("seeds", "variance", "an int ≥ 1", seeds)
    rounds = sorted({_round(part) for part in at.split(",")})
    base = f.settings_from(
        config,
        set_,
        data=data,
        partition=partition,
        clients=clients,
        model=model,
        algorithm=algorithm,
        cohort=cohort,
        steps=steps,
        epochs=epochs,
        batch=batch,
        lr=lr,
        device=device,
        backend=backend,
    )
    from rich.console import Console

    from hcsfed import variance as measure
    from hcsfed.variants import variants

    chosen = variants(selectors, "variance")
    rows = [row for s in range(seed, seed + seeds) for row in measure.errors(with_seed(base, s), chosen, rounds, draws)]
    means = {t: {one.label: mean(rows, t, one.label) for one in chosen} for t in rounds}
    links = dict(measure.theorem(with_seed(base, seed), theorem, _THEOREM_CLUSTERS, rounds)) if theorem else {}
    told = as_dict(base.nested(), rows, links, draws)
    if out is not None:
        from hcsfed.report.spread import draw_errors

        draw_errors(means, f"{base.data.name}, partition {base.partition.name}", out / "variance.svg")
        (out / "variance.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(told))
        return
    console = Console()
    console.print(table(means, seeds, draws))
    for t, each in links.items():
        console.print(chain_table(t, each))
    if out is not None:
        console.print(f"written: {out / 'variance.json'}, {out / 'variance.svg'}", soft_wrap=True)


def mean(rows: Sequence[Row], round_: int, label: str) -> Error:
    """Over seeds; its standard error is that of the draws for one seed, that between seeds for more."""
    import numpy as np

    from hcsfed.theory import Error

    of = [row.error for row in rows if row.round == round_ and row.selector == label]
    totals = np.array([e.total for e in of])
    spread = totals.std(ddof=1) / np.sqrt(len(of)) if len(of) > 1 else of[0].spread
    bias2, variance, noise = np.mean([[e.bias2, e.variance, e.noise] for e in of], axis=0)
    return Error(float(totals.mean()), float(bias2), float(variance), float(spread), float(noise))


def as_dict(settings: dict[str, Any], rows: Sequence[Row], links: dict[int, list[Link]], draws: int) -> dict[str, Any]:
    """What is printed with --json and written with --out."""
    from hcsfed.select import SELECTORS

    del settings["selector"], settings["seed"], settings["rounds"], settings["target"], settings["eval_every"]
    return {
        "settings": settings,
        "draws": draws,
        "rows": [
            {
                "seed": row.seed,
                "round": row.round,
                "selector": row.selector,
                "total": row.error.total,
                "bias2": row.error.bias2,
                "variance": row.error.variance,
                "standard_error": row.error.spread,
                "unbiased": SELECTORS.build(row.selector.split(":")[0]).claims.unbiased,
            }
            for row in rows
        ],
        "theorem_1": [
            {"round": t, "design": one.design, "large": one.large, "exact": one.exact, "whole": one.whole}
            for t, each in links.items()
            for one in each
        ],
    }


def table(means: dict[int, dict[str, Error]], seeds: int, draws: int) -> Table:
    """A block a round, a line a selector."""
    from rich.table import Table
    from rich.text import Text

    source = f"over {seeds} seeds" if seeds > 1 else f"of {draws} draws"
    shown = Table(
        caption=f"In units of ‖full‖²; ± {source}; · no bias seen.",
        caption_justify="left",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    shown.add_column("", overflow="fold")
    for head in ("total", "±", "bias²", "variance"):
        shown.add_column(head, justify="right", no_wrap=True)
    for t, of in means.items():
        shown.add_row(Text(f"round {t}", style="bold"))
        for name, e in of.items():
            bias2 = short(e.bias2) if e.biased else "·"
            shown.add_row(Text(f"  {name}"), short(e.total), short(e.spread), bias2, short(e.variance))
    return shown


def chain_table(round_: int, links: Sequence[Link]) -> Table:
    """Theorem 1 at one round; a value above the one before it is marked."""
    from rich.table import Table

    shown = Table(
        title=f"Theorem 1 at round {round_}",
        title_justify="left",
        caption="↑ where the chain is broken.",
        caption_justify="left",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    for head in ("", "paper's large form", "exact, fractional places", "exact, whole places"):
        shown.add_column(head, justify="right" if head else "left")
    before: dict[str, float] = {}
    for one in links:
        cells = []
        for column in ("large", "exact", "whole"):
            value = getattr(one, column)
            broken = value is not None and value > before.get(column, float("inf")) * (1 + 1e-9)
            cells.append("–" if value is None else short(value) + (" ↑" if broken else ""))
            before[column] = before.get(column, 0.0) if value is None else value
        shown.add_row(one.design, *cells)
    return shown


def short(value: float) -> str:
    """Two significant digits below 1, two decimals above."""
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.2g}" if abs(value) >= 1e-4 else f"{value:.0e}"


def _round(text: str) -> int:
    if not text.strip().isdigit():
        raise bad("at", "variance", "rounds counted from 0, separated by commas", text)
    return int(text)
