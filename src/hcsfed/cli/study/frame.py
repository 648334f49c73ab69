"""What stands around the question of every study: flags, figures that are computed once, and how they are shown."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hcsfed.errors import RunFolderError, bad

if TYPE_CHECKING:
    from hcsfed.grid import Cell
    from hcsfed.record import Run
    from hcsfed.settings import Settings

Seeds = Annotated[int, typer.Option("--seeds", help="How many seeds, counted from 0.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of all runs; what is finished there is kept.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Runs at a time; 0: one a core.")]
Result = Annotated[Path | None, typer.Option("--result", help="Where to write the figures as JSON.")]


def check(seeds: int, jobs: int) -> None:
    """Before anything is computed."""
    for name, value, least in (("seeds", seeds, 1), ("jobs", jobs, 0)):
        if value < least:
            raise bad(name, "study", f"an int ≥ {least}", value)


def done(grid: Sequence[Cell], out: Path, jobs: int, on: str) -> list[Run]:
    """All runs of a grid, with a bar while they go on; what is finished in ``out`` is not run again."""
    from hcsfed.cli.show import bars
    from hcsfed.grid import run_all
    from hcsfed.record import read_run

    open_ = [cell for cell in grid if not _finished(out / cell.name, cell.settings)]
    kept = len(grid) - len(open_)

    def begun() -> int:
        return kept + sum((out / cell.name / "checkpoint.safetensors").exists() for cell in open_)

    with bars(quiet=not sys.stderr.isatty()) as live:
        task = live.add_task("runs", total=len(grid), completed=kept, accuracy="")
        run_all(open_, out, jobs=jobs, on=on, waiting=lambda: live.update(task, completed=begun()))
    return [read_run(out / cell.name) for cell in grid]


def _finished(folder: Path, settings: Settings) -> bool:
    """Whether this very run is there, with all of its rounds: then there is no need to put it together again."""
    from hcsfed.record import read_run

    try:
        run = read_run(folder)
    except RunFolderError:
        return False
    return run.settings == json.loads(json.dumps(settings.nested())) and len(run.history) >= settings.rounds


@dataclass(frozen=True)
class Question:
    """Something that is measured without a run: ``ask(**given)`` gives figures. ``name`` is where they are kept."""

    name: str
    ask: Callable[..., Mapping[str, Any]]
    given: Mapping[str, Any]


def answers(questions: Sequence[Question], out: Path, jobs: int) -> list[dict[str, Any]]:
    """The figures of all, each kept in ``out/<name>.json`` together with what was asked, and not measured again."""
    from hcsfed.cli.show import bars
    from hcsfed.on_processes import cores, no_ctrl_c_for_children

    found = {q.name: _kept(out / f"{q.name}.json", q) for q in questions}
    open_ = [q for q in questions if found[q.name] is None]
    workers = min(jobs or cores(), len(open_)) or 1
    with bars(quiet=not sys.stderr.isatty()) as live:
        task = live.add_task("measured", total=len(questions), completed=len(questions) - len(open_), accuracy="")
        threads = max(1, cores() // workers)
        with ProcessPoolExecutor(workers, get_context("spawn"), _prepare, (threads, os.getpid())) as pool:
            try:
                with no_ctrl_c_for_children():
                    asked = {pool.submit(q.ask, **q.given): q for q in open_}
                for future in as_completed(asked):
                    question, figures = asked[future], dict(future.result())
                    _keep(out / f"{question.name}.json", question, figures)
                    found[question.name] = figures
                    live.advance(task)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    return [found[q.name] or {} for q in questions]


def _prepare(threads: int, parent: int) -> None:
    """A process that measures, and that ends when nobody waits for it any more: it has nothing to save."""
    from hcsfed.task import use_threads

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    use_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    Thread(target=watch, daemon=True).start()


def _kept(path: Path, question: Question) -> dict[str, Any] | None:
    """What was found out earlier, if the same was asked."""
    try:
        there = json.loads(path.read_text("utf-8"))
        same = there["given"] == json.loads(json.dumps(question.given))
        return dict(there["found"]) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(path: Path, question: Question, found: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".part")
        beside.write_text(json.dumps({"given": question.given, "found": found}) + "\n", "utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise RunFolderError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def write(path: Path | None, settings: Settings, seeds: int, rows: Sequence[Mapping[str, Any]], **asked: Any) -> None:
    """The figures as JSON, a row a line, with what they depend on."""
    if path is None:
        return
    from importlib.metadata import version

    about = {"versions": {name: version(name) for name in ("hcsfed", "torch", "numpy")}, "seeds": seeds}
    told = json.dumps({**about, **asked, "settings": settings.nested()}, indent=1).removesuffix("\n}")
    lines = ",\n  ".join(json.dumps(_rounded(row)) for row in rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{told},\n "rows": [\n  {lines}\n ]\n}}\n', "utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _rounded(value: Any) -> Any:
    """Numbers to six digits: the others depend on the machine."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A Markdown table; the first ``words`` columns are words, the others are numbers."""
    lines = [list(head), ["---"] * words + ["---:"] * (len(head) - words), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def accuracies(text: str) -> list[float]:
    """Targets as one writes them: separated by commas."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < accuracy <= 1 for accuracy in found):
        raise bad("targets", "study", "accuracies in (0, 1] separated by commas", text)
    return found


def mean(values: Sequence[float | None], form: str = "{:.1f}") -> str:
    """The mean over seeds; where some seed has none, how many."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return f"{len(values) - len(known)} of {len(values)} missed"
    return form.format(np.mean(known))


def short(value: float) -> str:
    """Two or three digits that count: 0.047, 1.3, 24, 1,600."""
    if abs(value) < 1e-9:
        return "0"
    if abs(value) < 10:
        return f"{value:.2g}"
    return f"{value if abs(value) < 1000 else float(f'{value:.2g}'):,.0f}"


def percent(values: Sequence[float | None], form: str = "{:.0f}") -> str:
    """The mean share over seeds; a dash where some seed has none, as without classes or after a divergence."""
    known = [value for value in values if value is not None]
    return f"{form.format(100 * np.mean(known))} %" if len(known) == len(values) else "–"
