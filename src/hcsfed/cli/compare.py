"""``hcsfed compare``: several selectors, several seeds, one table and one report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from hcsfed.cli import flags as f
from hcsfed.errors import bad


def compare(
    selectors: f.Selectors,
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds, counted from --seed.")] = 3,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 0,
    data: f.Data = None,
    partition: f.Partition = None,
    clients: f.Clients = None,
    model: f.Model = None,
    algorithm: f.Algorithm = None,
    cohort: f.Cohort = None,
    rounds: f.Rounds = None,
    target: f.Target = None,
    eval_every: f.EvalEvery = None,
    steps: f.Steps = None,
    epochs: f.Epochs = None,
    batch: f.Batch = None,
    lr: f.Rate = None,
    device: f.Device = None,
    backend: f.Backend = None,
    config: f.Config = None,
    set_: f.Assign = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of all runs; what is finished there is kept.")] = Path(
        "runs/compare"
    ),
    report: Annotated[Path | None, typer.Option("--report", help="The report. [OUT/report.html]")] = None,
    picture: f.PictureAt = None,
    jobs: Annotated[int, typer.Option("--jobs", help="Runs at a time; 0: one a core.")] = 0,
    on: f.On = "processes",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list, and nothing else.")] = False,
) -> None:
    """Run every selector with every seed, print means with intervals, and write the report.

    The same command with the same --out continues where it was.
    """
    if seeds < 1:
        raise bad("seeds", "compare", "an int ≥ 1", seeds)
    if jobs < 0:
        raise bad("jobs", "compare", "an int ≥ 0", jobs)
    from hcsfed.variants import variants

    chosen = variants(selectors, "compare")
    base = f.settings_from(
        config,
        set_,
        data=data,
        partition=partition,
        clients=clients,
        model=model,
        algorithm=algorithm,
        cohort=cohort,
        rounds=rounds,
        target=target,
        eval_every=eval_every,
        steps=steps,
        epochs=epochs,
        batch=batch,
        lr=lr,
        device=device,
        backend=backend,
    )
    from hcsfed.grid import cells, demand, run_all

    demand("jinja2")
    from rich.console import Console

    from hcsfed.cli.show import bars, shown
    from hcsfed.record import read_run
    from hcsfed.report import look_again, summarise, summary_table, write_page

    grid = cells(base, chosen, range(seed, seed + seeds))
    with bars(quiet=as_json or not sys.stderr.isatty()) as live:
        tasks = {cell.name: live.add_task(cell.name, total=cell.settings.rounds, accuracy="") for cell in grid}

        def look() -> None:
            for name, task in tasks.items():
                if (out / name / "settings.json").exists() and (history := read_run(out / name).history):
                    live.update(task, completed=len(history), accuracy=shown(history[-1]))

        folders = run_all(grid, out, jobs=jobs, on=on, waiting=look)
    runs = [read_run(folder) for folder in folders]
    page = report or out / "report.html"
    write_page(runs, page, [] if picture is None else look_again(runs, picture))
    if as_json:
        print(json.dumps([run.as_json() for run in runs]))
        return
    console = Console()
    console.print(summary_table(summarise(runs)))
    console.print(f"report: {page}", soft_wrap=True)
