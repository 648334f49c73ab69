"""``hcsfed study frontier``: full participation's rounds, at what share of its cost?"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hcsfed.cli import flags as f
from hcsfed.errors import bad

if TYPE_CHECKING:
    from hcsfed.record import Run

PARTITIONS: dict[str, dict[str, Any]] = {
    "one class": {"name": "shard", "classes_per_client": 1},
    "two shards": {"name": "shard", "classes_per_client": 2},
    "Dirichlet 0.1": {"name": "dirichlet", "alpha": 0.1},
}
BASELINE = "full"
COSTS = ("upload_bytes", "download_bytes", "local_steps")


def frontier(
    selectors: Annotated[
        str, typer.Option("--selectors", help="Held against full participation; options as in frontier:opening=0.")
    ] = "random,cube,pivotal,frontier,frontier:design=pivotal,frontier:opening=0",
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds, counted from 0.")] = 3,
    targets: Annotated[str, typer.Option("--targets", help="Test accuracies, separated by commas.")] = "0.8,0.85",
    data: f.Data = "mnist",
    clients: f.Clients = "100",
    model: f.Model = "logistic",
    cohort: f.Cohort = "10",
    rounds: f.Rounds = "60",
    lr: f.Rate = "0.01",
    set_: f.Assign = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of all runs; what is finished there is kept.")] = Path(
        "runs/frontier"
    ),
    jobs: Annotated[int, typer.Option("--jobs", help="Runs at a time; 0: one a core.")] = 0,
    on: f.On = "processes",
    result: Annotated[Path | None, typer.Option("--result", help="Where to write the figures as JSON.")] = None,
) -> None:
    """How close to full participation, and at what share of its cost, on three partitions.

    Everything that clients send and compute is counted, the opening included. The same command with the same --out
    continues where it was.
    """
    from hcsfed.cli.show import bars
    from hcsfed.grid import Cell, cells, run_all
    from hcsfed.record import read_run
    from hcsfed.settings import merge, parse_value
    from hcsfed.variants import variants

    if seeds < 1:
        raise bad("seeds", "study", "an int ≥ 1", seeds)
    aims = _accuracies(targets)
    chosen = variants(f"{BASELINE},{selectors}", "study")
    base = f.settings_from(None, set_, data=data, model=model, cohort=cohort, rounds=rounds, lr=lr)
    grid = []
    for title, partition in PARTITIONS.items():
        where = merge(base, {"partition": {**partition, "clients": parse_value(clients or "100")}})
        slug = title.lower().replace(" ", "-")
        grid += [Cell(f"{slug}/{cell.name}", cell.settings) for cell in cells(where, chosen, range(seeds))]
    with bars(quiet=not sys.stderr.isatty()) as live:
        task = live.add_task("runs", total=len(grid), accuracy="")
        folders = run_all(
            grid,
            out,
            jobs=jobs,
            on=on,
            waiting=lambda: live.update(
                task, completed=sum((out / c.name / "checkpoint.safetensors").exists() for c in grid)
            ),
        )
    runs = iter([read_run(folder) for folder in folders])
    found = {title: {one.label: [next(runs) for _ in range(seeds)] for one in chosen} for title in PARTITIONS}
    rows = figures(found, aims)
    if result:
        about = {"versions": next(iter(found.values()))[BASELINE][0].about["versions"], "seeds": seeds}
        result.parent.mkdir(parents=True, exist_ok=True)
        result.write_text(json.dumps({**about, "settings": base.nested(), "rows": rows}, indent=1) + "\n", "utf-8")
    print(table(rows))


def figures(found: Mapping[str, Mapping[str, Sequence[Run]]], targets: Sequence[float]) -> list[dict[str, Any]]:
    """Partition, selector and target → rounds by seed, and costs to the target as a share of full participation's.

    A share divides the sums over all seeds; where a run missed the target it is None.
    """
    rows = []
    for partition, by_selector in found.items():
        for target in targets:
            whole = [_spent(run, target) for run in by_selector[BASELINE]]
            for selector, runs in by_selector.items():
                spent = [_spent(run, target) for run in runs]
                row: dict[str, Any] = {"partition": partition, "target": target, "selector": selector}
                row["rounds"] = [s["rounds"] for s in spent]
                for figure in ("rounds", *COSTS):
                    mine, full = ([s[figure] for s in side] for side in (spent, whole))
                    reached = None not in mine and None not in full
                    row[f"{figure}_share"] = round(sum(mine) / sum(full), 4) if reached else None
                rows.append(row)
    return rows


def _spent(run: Run, target: float) -> dict[str, Any]:
    return {"rounds": run.rounds_to(target)} | {figure: run.total(figure, target) for figure in COSTS}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The figures in Markdown."""
    head = ["partition", "target", "selector", "rounds", "× full", "uploads", "local steps"]
    lines = [head, ["---"] * 3 + ["---:"] * 4]
    for row in rows:
        missed = sum(r is None for r in row["rounds"])
        mean = f"{missed} of {len(row['rounds'])} missed" if missed else f"{np.mean(row['rounds']):.1f}"
        shares = [row[f"{figure}_share"] for figure in ("rounds", "upload_bytes", "local_steps")]
        ratio = "–" if shares[0] is None else f"{shares[0]:.2f}"
        costs = ["–" if share is None else f"{share:.1%}" for share in shares[1:]]
        lines.append([row["partition"], f"{row['target']:.0%}", f"`{row['selector']}`", mean, ratio, *costs])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _accuracies(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < accuracy <= 1 for accuracy in found):
        raise bad("targets", "study", "accuracies in (0, 1] separated by commas", text)
    return found
