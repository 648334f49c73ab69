"""``hcsfed paper``: the experiments of the HCSFed paper, with its figures beside ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hcsfed.cli import flags as f
from hcsfed.errors import SettingError, bad

if TYPE_CHECKING:
    from hcsfed.paper.plan import Work
    from hcsfed.paper.preset import Experiment

STORED = "stored"
_HELP = (
    "table1, table3, table4, rounds, clusters, compression, ablation, ratio, fednova, rates, heterogeneity, variance, "
    "picture, or all."
)


def paper(
    name: Annotated[str, typer.Argument(help=_HELP, show_default=False)],
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds, counted from 0.")] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, small data, a few rounds: what is printed means nothing.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder of all runs; what is finished there is kept.")] = Path(
        "runs/paper"
    ),
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    jobs: Annotated[int, typer.Option("--jobs", help="Runs at a time; 0: one a core.")] = 0,
    on: f.On = "processes",
    only: Annotated[
        str, typer.Option("--only", help="Run these data sets or models alone, e.g. mnist,fashion-mnist/mlp.")
    ] = "",
    skip: Annotated[str, typer.Option("--skip", help="Run all but these data sets or models, e.g. cnn.")] = "",
    plan_alone: Annotated[bool, typer.Option("--plan", help="Say what would be run, and run nothing.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; show what stands in --out.")] = False,
    from_: Annotated[
        str, typer.Option("--from", help=f"Run nothing; show the figures of a file, or those shipped: {STORED}.")
    ] = "",
    collect: Annotated[
        Path | None, typer.Option("--collect", help="Run nothing; write what is finished in --out into this file.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Folder of the page. [OUT/report]")] = None,
) -> None:
    """Run an experiment of the HCSFed paper, and show our figures beside the paper's, with a verdict per claim.

    A run that several experiments need is run once. The same command with the same --out continues where it was, and
    shows what there is.
    """
    if seeds < 1:
        raise bad("seeds", "paper", "an int ≥ 1", seeds)
    if jobs < 0:
        raise bad("jobs", "paper", "an int ≥ 0", jobs)
    if device not in ("auto", "cpu", "cuda"):
        raise bad("device", "paper", "one of auto, cpu, cuda", device)
    if sum((plan_alone, show, bool(from_), collect is not None)) > 1:
        raise SettingError("give one of --plan, --show, --from and --collect, they exclude each other")
    from hcsfed.paper.plan import plan
    from hcsfed.paper.preset import experiments

    seeds = 1 if quick else seeds
    asked = experiments(name, quick=quick)
    words = [tuple(word.strip() for word in text.split(",") if word.strip()) for text in (only, skip)]
    work = plan(asked, range(seeds), only=words[0], skip=words[1], device=device)
    if work.cells and not (show or from_ or collect):
        _announce(work, asked, out, jobs)
    if plan_alone:
        return
    if not (show or from_ or collect):
        _run(work, out, jobs, on)
        _measure(asked, seeds, out, quick=quick)
    from hcsfed.paper import store
    from hcsfed.paper.collect import MEASURED, collected, finished, stored

    command = _command(name, seeds, quick, only, skip)
    if collect:
        found = finished(collected(out, command), work, {one.name for one in asked})
        store.write(collect, found)
        print(f"written: {collect}, {len(found.runs)} runs, {len(found.measured)} measurements")
        return
    figures = (stored() if from_ == STORED else store.read(Path(from_))) if from_ else collected(out, command)
    from hcsfed.paper.claims import summary
    from hcsfed.paper.page import write_page
    from hcsfed.paper.show import text

    for one in asked:
        print(text(one, figures, seeds))
    if len(asked) > 1:
        print(f"## The claims\n\n{summary(asked, figures, seeds).markdown()}\n")
    page = write_page(asked, figures, seeds, report or (out / "report"), None if from_ else out / MEASURED)
    print(f"report: {page}")


def _command(name: str, seeds: int, quick: bool, only: str, skip: str) -> str:
    """The command that makes these runs, without where they lie and how many were run at a time."""
    words = ["hcsfed paper", name, "--quick" if quick else f"--seeds {seeds}"]
    words += [f"{flag} {text}" for flag, text in (("--only", only), ("--skip", skip)) if text]
    return " ".join(words)


def _announce(work: Work, asked: Sequence[Experiment], out: Path, jobs: int) -> None:
    """What is to be done and how long that should take."""
    from hcsfed.on_processes import cores
    from hcsfed.paper.plan import seconds_left
    from hcsfed.report.words import number

    undone = work.undone(out)
    least = sum(len(one.points) for one in asked)
    said = f"{len(work.cells)} runs for {least} cells of tables and figures, {len(undone)} of them to do"
    if undone:
        left = seconds_left(undone, out)
        at_a_time = max(1, min(jobs or cores(), len(undone)))
        whole, shared = number(left, "seconds"), number(left / at_a_time, "seconds")
        said += f": about {whole} of one core, {shared} with {at_a_time} at a time"
    print(said, file=sys.stderr, flush=True)


def _run(work: Work, out: Path, jobs: int, on: str) -> None:
    from hcsfed.cli.show import bars
    from hcsfed.data.catalogue import fetch_set
    from hcsfed.grid import run_all
    from hcsfed.paper.plan import rounds_done

    undone = work.undone(out)
    if not undone:
        return
    for data in sorted({cell.settings.data.name for cell in undone}):
        fetch_set(data)  # what is missing is said before the runs, not after hours of them
    total = sum(cell.settings.rounds for cell in undone)
    with bars(quiet=not sys.stderr.isatty()) as live:
        task = live.add_task("rounds", total=total, accuracy="")

        def look() -> None:
            live.update(task, completed=sum(rounds_done(out / cell.name) for cell in undone))

        run_all(undone, out, jobs=jobs, on=on, waiting=look)


def _measure(asked: Sequence[Experiment], seeds: int, out: Path, *, quick: bool) -> None:
    """What needs no runs; once done for these seeds it is kept."""
    import json

    from hcsfed.paper.collect import MEASURED
    from hcsfed.paper.measure import measure

    for one in asked:
        path = out / MEASURED / f"{one.name}.json"
        if one.show not in ("variance", "heterogeneity", "picture"):
            continue
        if path.exists() and json.loads(path.read_text("utf-8"))["seeds"] >= seeds:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        figures = measure(one, range(seeds), path.parent, quick=quick)
        path.write_text(json.dumps({"seeds": seeds, **figures}) + "\n", encoding="utf-8")
