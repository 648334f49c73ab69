"""Who to begin with when clients differ in size, come and go, are slow, or are served badly: the evidence by situation.

Run ``python benchmarks/situations.py runs``; the same command continues where it was, and ends by writing
``results/situations.json``. ``python benchmarks/situations.py show`` prints the tables of docs/which-selector.md.

Every situation is a federation with something special, in which some selectors run with some seeds: logistic
regression, N = 100, m = 10, 50 steps of 50 rows at a rate of 0.01, 100 or 200 rounds. Of each run are kept: rounds to
the target, and what they cost in uploads, local steps and simulated seconds (where there is a clock: until the slowest
of those asked has answered, or until the deadline); the test accuracy after the last round; and the accuracy of that
model on the rows of the clients themselves, in the mean over all clients and over the tenth that fares worst.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file

from hcsfed.assemble import assemble
from hcsfed.grid import Cell, cells, run_all
from hcsfed.record import Run, read_run
from hcsfed.settings import Settings, merge
from presets import table

RESULTS = Path(__file__).parent / "results" / "situations.json"
RUNS = Path("runs") / "situations"
SEEDS, ROUNDS = 3, 100
MIXED = {"name": "dirichlet", "alpha": 0.1}


@dataclass(frozen=True)
class Situation:
    """What is special, who is tried, and which accuracy is to be reached."""

    settings: Mapping[str, Any]
    selectors: str
    target: float = 0.8


SITUATIONS = {
    "sizes differ tenfold": Situation(
        {"partition": {**MIXED, "sizes": "paper"}},
        "full,random,md,clustered-size,importance,pivotal,cube,frontier",
    ),
    "a few clients hold most rows": Situation(
        {"data": "synthetic", "partition": {"name": "natural"}},
        "full,random,md,clustered-size,importance,pivotal,cube,frontier",
        target=0.65,
    ),
    "three in ten within reach": Situation(
        {"partition": MIXED, "availability": {"name": "independent", "chance": 0.3}},
        "full,random,pivotal,pivotal:refresh=fresh,cube,cube:refresh=fresh,hcsfed:features=sketch:refresh=stale,"
        "hcsfed:features=sketch,frontier,power-of-choice,divfl",
    ),
    "speeds differ": Situation(
        {"partition": MIXED, "speed": {"name": "lognormal", "spread": 1.0}},
        "full,random,oort,pivotal,cube,frontier,hcsfed,random:reach.deadline=12,oort:reach.deadline=12,"
        "pivotal:reach.deadline=12,cube:reach.deadline=12,frontier:reach.deadline=12",
    ),
    "speeds differ, a longer way": Situation(
        {"partition": MIXED, "speed": {"name": "lognormal", "spread": 1.0}, "rounds": 200},
        "full,random,oort,pivotal,cube,frontier,random:reach.deadline=12,oort:reach.deadline=12,"
        "pivotal:reach.deadline=12,cube:reach.deadline=12,frontier:reach.deadline=12",
        target=0.88,
    ),
    "whom losses guide": Situation(
        {"partition": MIXED},
        "full,random,power-of-choice,power-of-choice:candidates=20,loss-importance,pivotal,cube,frontier",
    ),
    "whom losses guide, two classes per client": Situation(
        {"partition": {"name": "shard", "classes_per_client": 2}},
        "full,random,power-of-choice,power-of-choice:candidates=20,loss-importance,pivotal,cube,frontier",
    ),
}


def base() -> Settings:
    told = {"data": "mnist", "partition.clients": 100, "cohort": 10, "rounds": ROUNDS, "local.lr": 0.01}
    return merge(Settings(), told)


def grid() -> dict[str, list[Cell]]:
    """The runs of each situation, selector by selector."""
    found = {}
    for title, one in SITUATIONS.items():
        settings = merge(base(), one.settings, {"partition.clients": 100, "target": one.target})
        slug = title.replace(" ", "-").replace(",", "")
        selectors = [s for s in one.selectors.split(",") if s]
        found[title] = [Cell(f"{slug}/{c.name}", c.settings) for c in cells(settings, selectors, range(SEEDS))]
    return found


def measure() -> list[dict[str, Any]]:
    rows = []
    asked = grid()
    run_all([cell for some in asked.values() for cell in some], RUNS, jobs=int(sys.argv[2]) if sys.argv[2:] else 0)
    for title, some in asked.items():
        selectors = [s for s in SITUATIONS[title].selectors.split(",") if s]
        for i, selector in enumerate(selectors):
            runs = [read_run(RUNS / cell.name) for cell in some[i * SEEDS : (i + 1) * SEEDS]]
            rows.append({"situation": title, "selector": selector, "runs": [figures(run) for run in runs]})
        print(f"{title}: done", file=sys.stderr)
    return rows


def figures(run: Run) -> dict[str, Any]:
    """What is kept of a run."""
    target = run.settings["target"]
    reached = run.rounds_to(target)
    waited = [record["simulated_seconds"] for record in run.history[:reached]]
    clients = np.sort(served(run))
    return {
        "rounds": reached,
        "upload_bytes": run.total("upload_bytes", target),
        "local_steps": run.total("local_steps", target),
        "seconds": None if reached is None or None in waited else round(sum(waited), 1),
        "accuracy": round(run.final_accuracy or 0.0, 4),
        "clients": round(float(clients.mean()), 4),
        "worst": round(float(clients[: max(len(clients) // 10, 1)].mean()), 4),
    }


def served(run: Run) -> np.ndarray:
    """How well the last model does on each client's own rows."""
    parts = assemble(merge(Settings(), run.settings))
    model = torch.from_numpy(load_file(run.folder / "checkpoint.safetensors")["parameters"])
    accuracies: np.ndarray = parts.trainer.local_accuracies(model, np.arange(parts.federation.clients))  # type: ignore[attr-defined]
    return accuracies


def tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """A table for each situation."""
    for title, one in SITUATIONS.items():
        mine = [row for row in rows if row["situation"] == title]
        timed = any(run["seconds"] is not None for row in mine for run in row["runs"])
        columns = [("rounds", 1, 1), ("local_steps", 1e3, 1), *([("seconds", 1, 0)] if timed else [])]
        head = [f"rounds to {one.target:.0%}", "steps, k", *(["simulated s"] if timed else [])]
        lines = []
        for row in mine:
            line = [spread([run[name] for run in row["runs"]], unit, digits) for name, unit, digits in columns]
            line += [f"{100 * np.mean([run[name] for run in row['runs']]):.1f}" for name in ("accuracy", "worst")]
            lines.append([f"`{row['selector']}`", *line])
        yield title, table(["selector", *head, "accuracy, %", "of the worst tenth"], lines)


def spread(values: Sequence[float | None], unit: float, digits: int) -> str:
    """Mean (least … most); how many missed where some did."""
    there = [value / unit for value in values if value is not None]
    if len(there) < len(values):
        return f"{len(values) - len(there)} of {len(values)} missed"
    whole = all(value == round(value) for value in there)
    low, high = (f"{value:.{0 if whole else digits}f}" for value in (min(there), max(there)))
    return f"{np.mean(there):.{digits}f}" + ("" if low == high else f" ({low} … {high})")


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "runs":
        kept = {
            "versions": {name: version(name) for name in ("hcsfed", "torch", "numpy")}
            | {"python": platform.python_version()},
            "seeds": SEEDS,
            "rows": measure(),
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    elif what != "show":
        sys.exit("python benchmarks/situations.py runs [JOBS] | show")
    for title, text in tables(json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]):
        print(f"{title}\n\n{text}")


if __name__ == "__main__":
    main()
