"""Many runs at once, one process a core, resumable as a whole: a run that is finished is not run again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from hcsfed.errors import HcsfedError
from hcsfed.settings import Settings, merge, with_seed
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
    grid: Sequence[Cell], out: Path, *, jobs: int = 0, waiting: Callable[[], object] | None = None
) -> list[Path]:
    """Run every cell into ``out/<name>`` and return the folders.

    ``jobs`` processes (0: one a core) share the cores; ``waiting`` is called about twice a second. What was begun
    earlier is continued. Ctrl-C and the first error stop the rest, after they have saved the round under way.
    """
    cores = _cores()
    jobs = max(1, min(jobs or cores, len(grid)))
    threads = max(1, cores // jobs)
    folders = [out / cell.name for cell in grid]
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(jobs, context, _prepare, (threads, stop, os.getpid())) as pool:
        try:
            with _no_ctrl_c_for_children():
                futures: set[Future[None]] = {
                    pool.submit(_run_cell, cell.settings.nested(), str(folder))
                    for cell, folder in zip(grid, folders, strict=True)
                }
            while futures:
                done, futures = wait(futures, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                if waiting:
                    waiting()
        except BrokenProcessPool as error:
            raise HcsfedError(
                "a run's process was killed (out of memory?); the same command continues where it was"
            ) from error
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return folders


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _no_ctrl_c_for_children() -> Iterator[None]:
    """Processes started here never see Ctrl-C, not even while they import: this one tells them when to stop."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_to_stop: Callable[[], bool] = bool  # of a child: whether it was told to stop, or its parent is gone


def _prepare(threads: int, stop: Event, parent: int) -> None:
    import numba
    import torch

    def to_stop() -> bool:
        return stop.is_set() or os.getppid() != parent

    global _to_stop
    _to_stop = to_stop
    torch.set_num_threads(threads)
    numba.set_num_threads(min(threads, numba.get_num_threads()))


def _run_cell(settings: dict[str, Any], folder: str) -> None:
    from hcsfed.assemble import assemble
    from hcsfed.simulate import run

    def check(record: object = None) -> None:
        if _to_stop():
            raise KeyboardInterrupt

    check()
    run(assemble(merge(Settings(), settings)), out=Path(folder), resume=True, listeners=(check,))
