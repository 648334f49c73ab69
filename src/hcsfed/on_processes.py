"""A grid's runs on this machine, one process a core."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.synchronize import Event
from pathlib import Path
from threading import Lock, Thread

from hcsfed.errors import HcsfedError
from hcsfed.task import Task, use_threads


def do_all(tasks: Sequence[Task], out: Path, jobs: int, waiting: Callable[[], object]) -> None:
    """The :data:`~hcsfed.task.Crew` of processes, which share the cores."""
    available = cores()
    jobs = max(1, min(jobs or available, len(tasks)))
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(jobs, context, _prepare, (max(1, available // jobs), stop, os.getpid())) as pool:
        try:
            with no_ctrl_c_for_children():
                futures: set[Future[None]] = {pool.submit(_do, task) for task in tasks}
            while futures:
                done, futures = wait(futures, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                waiting()
        except BrokenProcessPool as error:
            raise HcsfedError(
                "a run's process was killed (out of memory?); the same command continues where it was"
            ) from error
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def no_ctrl_c_for_children() -> Iterator[None]:
    """Processes started here never see Ctrl-C, not even while they import: this one tells them when to stop."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_to_stop: Callable[[], bool] = bool  # of a child: whether it was told to stop, or its parent is gone
_at_work = Lock()  # of a child: while it has a task


def _prepare(threads: int, stop: Event, parent: int) -> None:
    def to_stop() -> bool:
        return stop.is_set() or os.getppid() != parent

    global _to_stop
    _to_stop = to_stop
    use_threads(threads)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A child whose parent was killed would wait for its next task for ever."""
    if parent := parent_process():
        parent.join()
        with _at_work:
            os._exit(1)


def _do(task: Task) -> None:
    def check(record: object) -> None:
        if _to_stop():
            raise KeyboardInterrupt

    with _at_work:
        task.do(check)
