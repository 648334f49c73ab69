"""``hcsfed study ageing``: does it help to visit clients of whom the server has not heard for long?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hcsfed.cli import flags as f
from hcsfed.cli.study import frame
from hcsfed.cli.study.frontier import PARTITIONS
from hcsfed.errors import bad

if TYPE_CHECKING:
    from hcsfed.record import Run

COSTS = ("upload_bytes", "local_steps")


def ageing(
    selectors: Annotated[str, typer.Option("--selectors", help="Who goes by old features or norms.")] = (
        "hcsfed:features=sketch:refresh=stale,importance:refresh=stale:floor=0.1,"
        "importance:refresh=stale:floor=0.5,pivotal,cube"
    ),
    ages: Annotated[str, typer.Option("--ages", help="max_age in rounds, separated by commas; 0: never.")] = "0,20,40",
    targets: Annotated[str, typer.Option("--targets", help="Test accuracies, separated by commas.")] = "0.8,0.85",
    seeds: frame.Seeds = 3,
    data: f.Data = "mnist",
    clients: f.Clients = "100",
    model: f.Model = "logistic",
    cohort: f.Cohort = "10",
    rounds: f.Rounds = "80",
    lr: f.Rate = "0.01",
    set_: f.Assign = None,
    out: frame.Out = Path("runs/ageing"),
    jobs: frame.Jobs = 0,
    on: f.On = "processes",
    result: frame.Result = None,
) -> None:
    """Old features with and without a bound on their age, on three partitions: rounds, costs, and how old they are.

    The same command with the same --out continues where it was.
    """
    from hcsfed.grid import Cell
    from hcsfed.settings import merge, parse_value, with_seed
    from hcsfed.variants import variants

    frame.check(seeds, jobs)
    aims, bounds = frame.accuracies(targets), _ages(ages)
    chosen = variants(selectors, "study")
    base = f.settings_from(None, set_, data=data, model=model, cohort=cohort, rounds=rounds, lr=lr)
    cases = [
        (title, one.label, bound, merge(one.over(dealt), {"selector.max_age": bound}))
        for title, partition in PARTITIONS.items()
        for dealt in [merge(base, {"partition": {**partition, "clients": parse_value(clients or "100")}})]
        for one in chosen
        for bound in bounds
    ]
    for *_, told in cases:
        _checked(told)
    slugs = [f"{title.lower().replace(' ', '-')}/{label.replace(':', '+')}-{bound}" for title, label, bound, _ in cases]
    grid = [
        Cell(f"{slug}-s{seed}", with_seed(told, seed))
        for slug, (*_, told) in zip(slugs, cases, strict=True)
        for seed in range(seeds)
    ]
    runs = frame.done(grid, out, jobs, on)
    rows = []
    for i, (title, label, bound, _) in zip(range(0, len(grid), seeds), cases, strict=True):
        row: dict[str, Any] = {"partition": title, "selector": label, "max_age": bound}
        rows.append(row | figures(runs[i : i + seeds], aims))
    frame.write(result, base, seeds, rows=rows)
    print(shown(rows, aims))


def _ages(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() for part in parts):
        raise bad("ages", "study", "rounds (ints ≥ 0) separated by commas", text)
    return [int(part) for part in parts]


def _checked(settings: Any) -> None:
    """A selector without old features or norms has nothing whose age could be bounded: said before the runs."""
    from hcsfed.select import SELECTORS

    selector = SELECTORS.build(settings.selector.name, **settings.selector.options)
    if selector.claims.trains == "all":
        raise bad("selectors", "study", "such as know clients by old messages (refresh=stale)", selector.name)


def figures(runs: Sequence[Run], targets: Sequence[float]) -> dict[str, Any]:
    """Per seed: rounds to each target and what they cost, and the ages that the server picked by."""
    found: dict[str, Any] = {f"rounds to {aim:g}": [run.rounds_to(aim) for run in runs] for aim in targets}
    for cost in COSTS:
        found |= {f"{cost} to {aim:g}": [run.total(cost, aim) for run in runs] for aim in targets}
    each = [age(run) for run in runs]
    return found | {"mean age": [mean for mean, _ in each], "oldest": [oldest for _, oldest in each]}


def age(run: Run) -> tuple[float, int]:
    """How many rounds ago clients were heard last, before a pick: the mean over rounds and clients, and the most."""
    ages = np.zeros(run.about["federation"]["clients"], np.int64)  # all were heard in the opening
    seen = []
    for record in run.history[:-1]:
        ages += 1
        ages[record["ids"]] = 0
        seen.append(ages.copy())
    return (float(np.mean(seen)), int(np.max(seen))) if seen else (0.0, 0)


def shown(rows: Sequence[Mapping[str, Any]], targets: Sequence[float]) -> str:
    """A line a partition, selector and bound."""
    head = ["partition", "selector", "`max_age`", *(f"rounds to {100 * aim:g} %" for aim in targets)]
    head += [f"steps to {100 * targets[-1]:g} %", "mean age", "oldest"]
    lines = [
        [
            row["partition"],
            f"`{row['selector']}`",
            str(row["max_age"]),
            *(frame.mean(row[f"rounds to {aim:g}"]) for aim in targets),
            frame.mean(row[f"local_steps to {targets[-1]:g}"], "{:,.0f}"),
            f"{np.mean(row['mean age']):.1f}",
            str(max(row["oldest"])),
        ]
        for row in rows
    ]
    return frame.markdown(head, lines, 2)
