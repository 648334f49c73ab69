"""``hcsfed picture``: clients in the plane, as they are and as a selector sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hcsfed.cli import flags as f


def picture(
    selectors: f.Selectors = "hcsfed",
    at: Annotated[int, typer.Option("--at", min=0, help="Round of full participation, counted from 0.")] = 10,
    seed: Annotated[str | None, typer.Option("--seed", help="Everything random follows from it. [0]")] = None,
    data: f.Data = None,
    partition: f.Partition = None,
    clients: f.Clients = None,
    model: f.Model = None,
    cohort: f.Cohort = None,
    lr: f.Rate = None,
    config: f.Config = None,
    set_: f.Assign = None,
    out: Annotated[Path, typer.Option("--out", help="An .svg, .png or .pdf file.")] = Path("clusters.svg"),
) -> None:
    """Draw clients by what they have learned, beside the features by which a selector compares them.

    Both by their first two principal components; colour is the cluster, size the probability to be picked.
    """
    from hcsfed.report.paper import check_format

    check_format(out, "picture")
    settings = f.settings_from(
        config,
        set_,
        seed=seed,
        data=data,
        partition=partition,
        clients=clients,
        model=model,
        cohort=cohort,
        lr=lr,
    )
    from hcsfed.report.clusters import Scene, draw_clusters
    from hcsfed.variance import looks
    from hcsfed.variants import variants

    scenes = [Scene.of(look) for look in looks(settings, variants(selectors, "picture"), at)]
    draw_clusters(scenes, f"{settings.data.name}, partition {settings.partition.name}, round {at}", out)
    typer.echo(f"written: {out}")
