"""``hcsfed study reach``: clients that are away, late or silent: what becomes of the mean, and how long it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hcsfed.cli import flags as f
from hcsfed.cli.study import frame
from hcsfed.cli.study.frame import Question
from hcsfed.errors import bad

if TYPE_CHECKING:
    from hcsfed.settings import Settings

SESSIONS = "sessions.csv"
AWAY: dict[str, dict[str, Any]] = {
    "everyone, always": {"name": "always"},
    "half, each by its own dice": {"name": "independent"},
    "some often, some seldom": {"name": "independent", "spread": 0.45},
    "some often, some seldom, by class": {"name": "class"},
    "by day and night": {"name": "diurnal"},
    "by day and night, by class": {"name": "diurnal", "phase": "class"},
    "in ten groups": {"name": "groups"},
    "in groups by class": {"name": "groups", "by": "class"},
    "long absences": {"name": "trace", "file": SESSIONS},
}
SPEED: dict[str, Any] = {"name": "lognormal", "step": 0.1, "message": 1.0, "spread": 0.5}
# From the second on with a deadline: what the median client takes.
LATE: dict[str, dict[str, Any]] = {
    "wait for all": {},
    "until the median client's time": {"reach.over_select": 1},
    "the same, as many asked as it takes": {"reach.over_select": 0},
    "the same, one answer in five lost": {"reach.over_select": 0, "reach.lost": 0.2},
}
CORRECTIONS = ("ignore", "known", "estimated")


@dataclass(frozen=True)
class Situation:
    """Circumstances, and how weights are corrected for them."""

    about: str
    title: str
    correction: str
    settings: Mapping[str, Any]

    @property
    def slug(self) -> str:
        return "-".join([self.title.replace(",", "").replace("'", "").replace(" ", "-"), self.correction])


def reach(
    selectors: Annotated[str, typer.Option("--selectors", help="Who picks; options as in cube:local=true.")] = (
        "random,pivotal,cube,frontier"
    ),
    target: f.Target = "0.8",
    at: Annotated[int, typer.Option("--at", help="Round of full participation whose updates are asked for.")] = 10,
    asks: Annotated[int, typer.Option("--asks", help="Rounds at that model, after a hundred to learn.")] = 600,
    seeds: frame.Seeds = 3,
    data: f.Data = "mnist",
    partition: f.Partition = "dirichlet",
    clients: f.Clients = "100",
    model: f.Model = "logistic",
    cohort: f.Cohort = "10",
    rounds: f.Rounds = "80",
    lr: f.Rate = "0.01",
    set_: f.Assign = None,
    out: frame.Out = Path("runs/reach"),
    jobs: frame.Jobs = 0,
    on: f.On = "processes",
    result: frame.Result = None,
) -> None:
    """Models of who is there and of who answers in time, each with weights left alone and corrected.

    Bias² and variance are those of the weighted sum at one model; rounds and simulated time are of runs. The same
    command with the same --out continues where it was.
    """
    from hcsfed.grid import Cell
    from hcsfed.settings import merge, with_seed
    from hcsfed.variants import variants

    frame.check(seeds, jobs)
    for name, value, least in (("at", at, 0), ("asks", asks, 2)):
        if value < least:
            raise bad(name, "study", f"an int ≥ {least}", value)
    (aim,) = frame.accuracies(target or "")
    base = f.settings_from(
        None,
        set_,
        data=data,
        partition=partition,
        clients=clients,
        model=model,
        cohort=cohort,
        rounds=rounds,
        lr=lr,
        target=target,
    )
    chosen = variants(selectors, "study")
    every = situations(base, sessions(out / SESSIONS, base))
    cases = [(one, here, merge(one.over(base), here.settings)) for here, one in product(every, chosen)]
    grid = [
        Cell(f"{here.about}/{here.slug}/{one.slug}-s{seed}", with_seed(told, seed))
        for one, here, told in cases
        for seed in range(seeds)
    ]
    # The weighted sum is not all of the estimate where the server guesses, too.
    plain = [cell for cell in grid if weighs(cell.settings)]
    questions = [Question(c.name, measured, {"settings": c.settings.nested(), "at": at, "asks": asks}) for c in plain]
    moments = dict(zip([cell.name for cell in plain], frame.answers(questions, out / "moments", jobs), strict=True))
    runs = frame.done(grid, out / "runs", jobs, on)
    rows = []
    for i, (one, here, _) in zip(range(0, len(grid), seeds), cases, strict=True):
        here_found = [moments[cell.name] for cell in grid[i : i + seeds] if cell.name in moments]
        row: dict[str, Any] = {"about": here.about, "situation": here.title, "correction": here.correction}
        row |= {"selector": one.label, "moments": here_found}
        row["rounds"] = [run.rounds_to(aim) for run in runs[i : i + seeds]]
        row["seconds"] = [run.simulated_seconds_to(aim) for run in runs[i : i + seeds]]
        row["accuracy"] = [run.final_accuracy for run in runs[i : i + seeds]]
        rows.append(row)
    frame.write(result, base, seeds, at=at, asks=asks, rows=rows)
    print(shown(rows, aim))


def situations(base: Settings, trace: Path) -> list[Situation]:
    """Each with all corrections; where all are there, or all are waited for, there is nothing to correct."""
    found = []
    deadline = SPEED["message"] + SPEED["step"] * base.local.steps
    for title, availability in AWAY.items():
        model = {**availability, "file": str(trace)} if "file" in availability else availability
        for correction in CORRECTIONS if model["name"] != "always" else CORRECTIONS[:1]:
            found.append(Situation("away", title, correction, {"availability": model, "reach.absence": correction}))
    for title, waiting in LATE.items():
        until = {"speed": SPEED, "reach.deadline": deadline} if waiting else {"speed": SPEED}
        for correction in CORRECTIONS if waiting else CORRECTIONS[:1]:
            found.append(Situation("late", title, correction, {**until, **waiting, "reach.response": correction}))
    return found


def sessions(path: Path, base: Settings, rows: int = 240, stay: float = 0.95) -> Path:
    """A trace of who is there, in stretches of 20 rounds on average and as long away, written if it is not there."""
    from hcsfed.rng import stream

    if not path.exists():
        clients = int(base.partition.options["clients"])
        luck = stream(0, "sessions").random((rows, clients))
        there = np.zeros((rows, clients), bool)
        there[0] = luck[0] < 0.5
        for t in range(1, rows):
            there[t] = there[t - 1] ^ (luck[t] >= stay)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, there, fmt="%d", delimiter=",")
    return path


def weighs(settings: Settings) -> bool:
    """Whether the estimate is the weighted sum of the answers."""
    from hcsfed.choices import build_estimator
    from hcsfed.select import SELECTORS

    selector = SELECTORS.build(settings.selector.name, **settings.selector.options)
    return build_estimator(settings, selector).name == "weighted"


def measured(settings: Mapping[str, Any], at: int, asks: int) -> dict[str, Any]:
    """Bias, variance and answers of one situation, with one seed."""
    from hcsfed.assemble import assemble
    from hcsfed.cli.study.path import scenes
    from hcsfed.cli.study.presence import presence
    from hcsfed.settings import Settings, merge

    parts = assemble(merge(Settings(), settings))
    return presence(parts, scenes(parts, at + 1)[-1], asks, before=100)


def shown(rows: Sequence[Mapping[str, Any]], target: float) -> str:
    """For each of the two questions a table of bias² · variance and one of the way to the target."""
    parts = []
    for about, told in (("away", "Who is there"), ("late", "Who answers, where clients are slow")):
        of = [row for row in rows if row["about"] == about]
        selectors = list(dict.fromkeys(row["selector"] for row in of))
        weighed = [s for s in selectors if any(row["moments"] for row in of if row["selector"] == s)]
        table = {(row["situation"], row["correction"], row["selector"]): row for row in of}
        lines = list(dict.fromkeys(key[:2] for key in table))
        head = ["", "weights"]
        goal = f"rounds to {100 * target:g} %" + (" · minutes" if about == "late" else "")
        parts += [
            f"**{told}**: bias² · variance of the weighted sum",
            frame.markdown(head + weighed, [[*k, *(spread(table[*k, s]) for s in weighed)] for k in lines], 2),
            f"**{told}**: {goal} · final accuracy",
            frame.markdown(head + selectors, [[*k, *(way(table[*k, s]) for s in selectors)] for k in lines], 2),
        ]
    return "\n\n".join(parts)


def spread(row: Mapping[str, Any]) -> str:
    bias2, variance, noise = (
        float(np.mean([m[figure] for m in row["moments"]])) for figure in ("bias2", "variance", "noise")
    )
    return f"{frame.short(bias2) if bias2 > 3 * noise else '–'} · {frame.short(variance)}"


def way(row: Mapping[str, Any]) -> str:
    words = [frame.mean(row["rounds"])]
    if row["about"] == "late":
        words.append(frame.mean([None if s is None else s / 60 for s in row["seconds"]]))
    return " · ".join([*dict.fromkeys(words), frame.percent(row["accuracy"], "{:.1f}")])
