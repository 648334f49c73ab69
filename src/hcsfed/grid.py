"""Many runs at once, resumable as a whole: a run that is finished is not run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from hcsfed import on_processes, on_ray
from hcsfed.errors import bad
from hcsfed.settings import Settings, with_seed
from hcsfed.task import Crew, Task
from hcsfed.variants import Variant, variant


@dataclass(frozen=True)
class Cell:
    """One run of a grid: its name (and folder's name) and its settings."""

    name: str
    settings: Settings


def cells(base: Settings, selectors: Sequence[str | Variant], seeds: Sequence[int]) -> list[Cell]:
    """All pairs of selectors (as :mod:`hcsfed.variants` reads them) and seeds."""
    read = [variant(s) if isinstance(s, str) else s for s in selectors]
    return [Cell(f"{one.slug}-s{seed}", with_seed(one.over(base), seed)) for one in read for seed in seeds]


def run_all(
    grid: Sequence[Cell],
    out: Path,
    *,
    jobs: int = 0,
    on: str = "processes",
    waiting: Callable[[], object] | None = None,
) -> list[Path]:
    """Run every cell into ``out/<name>`` and return the folders.

    ``jobs`` runs at a time (0: one a core), ``on`` this machine's ``processes`` or a cluster (``ray``,
    ``ray:ADDRESS``); ``waiting`` is called about twice a second. What was begun earlier is continued, wherever it was
    begun. Ctrl-C and the first error stop the rest, after they have saved the round under way.
    """
    do_all = crew(on)
    demand()
    folders = [out / cell.name for cell in grid]
    tasks = [Task(cell.settings.nested(), str(folder.absolute())) for cell, folder in zip(grid, folders, strict=True)]
    if tasks:
        do_all(tasks, out.absolute(), jobs, waiting or (lambda: None))
    return folders


def demand(*modules: str) -> None:
    """Refuse to begin where the simulator's modules or these are not installed."""
    for module in ("torch", "numba", "safetensors", *modules):
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)


def crew(on: str) -> Crew:
    """Who does the runs."""
    name, sign, address = on.partition(":")
    if name == "processes" and not sign:
        return on_processes.do_all
    if name == "ray" and bool(sign) == bool(address):
        return partial(on_ray.do_all, address=address)
    raise bad("on", "a grid of runs", "processes, ray or ray:ADDRESS", on)
