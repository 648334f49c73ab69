"""A grid's runs on a Ray cluster. What a dying node leaves unfinished is taken up from the run's folder elsewhere.

All nodes share the folder of the runs; it is what makes a run travel. Ray itself is told to repeat nothing: it can't
know how far a run got, nor whether a worker that it has lost sight of is still writing. Here a run whose worker is gone
is sent again, waits for the folder's lock (a worker outlives its node by a moment), and goes on after the last round
saved. So no run is lost and no round is done twice, but the one under way.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hcsfed.errors import FolderInUseError, HcsfedError, RunFolderError, bad
from hcsfed.interrupt import gentle
from hcsfed.record import read_run
from hcsfed.task import Task, use_threads

TRIES = 3  # times that a run's worker may die without having saved a round
PATIENCE = 300.0  # seconds that a folder may stay locked, or the cluster without a node
ANSWER = 10.0  # seconds in which an address has to answer
SAME = ("hcsfed", "torch", "numpy", "numba")  # what a run's numbers depend on
OBJECT_STORE = 80 * 2**20  # bytes; nothing but settings crosses Ray


@dataclass(frozen=True)
class _Try:
    """A task and how its earlier tries went: how many in a row saved nothing, and the round reached then."""

    task: Task
    again: bool = False
    in_vain: int = 0
    reached: int = 0

    def next(self, reason: Exception) -> _Try:
        reached = _reached(self.task.folder)
        in_vain = self.in_vain + 1 if reached == self.reached else 1
        if in_vain == TRIES:
            raise HcsfedError(
                f"the worker of run {self.task.folder!r} died {TRIES} times after round {reached} "
                f"({str(reason).splitlines()[0]}); the same command continues where it was"
            )
        return replace(self, again=True, in_vain=in_vain, reached=reached)


def do_all(tasks: Sequence[Task], out: Path, jobs: int, waiting: Callable[[], object], *, address: str = "") -> None:
    """The :data:`~hcsfed.task.Crew` of a Ray cluster; without an address, of a Ray of its own on this machine.

    A run takes one CPU, and one GPU where its settings ask for ``cuda``.
    """
    ray: Any = import_module("ray")
    with ExitStack() as stack:
        stack.enter_context(_cluster(ray, address or os.environ.get("RAY_ADDRESS", ""), jobs))
        _enough(ray, tasks)
        mark = stack.enter_context(_mark(out))
        versions = {name: _version(name) for name in SAME}
        send = _sender(ray, versions, mark)
        queue, under_way = deque(_Try(task) for task in tasks), dict[Any, _Try]()
        stack.callback(_stop, ray, under_way)
        alive = time.monotonic()
        while queue or under_way:
            while queue and (not jobs or len(under_way) < jobs):
                one = queue.popleft()
                under_way[send(one)] = one
            for ref in ray.wait(list(under_way), timeout=0.5)[0]:
                one = under_way.pop(ref)
                if lost := _lost(ray, ref):
                    queue.append(one.next(lost))
            if ray.cluster_resources().get("CPU", 0) >= 1:
                alive = time.monotonic()
            elif time.monotonic() - alive > PATIENCE:
                raise HcsfedError("no node of the Ray cluster is left; the same command continues where it was")
            waiting()


def _lost(ray: Any, ref: Any) -> Exception | None:
    """How the worker died, if it did; what the run itself raised is raised here."""
    try:
        complaint = ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        raise cause if isinstance(cause, HcsfedError) else error from None
    except ray.exceptions.RayError as error:
        return error  # type: ignore[no-any-return]
    if complaint:
        raise HcsfedError(complaint)
    return None


def _stop(ray: Any, under_way: dict[Any, Any]) -> None:
    """End what is still under way, after it has saved its round."""
    left = list(under_way)
    for ref in left:
        ray.cancel(ref, force=False)
    while left:
        left = ray.wait(left, timeout=0.5)[1]


def _sender(ray: Any, versions: dict[str, str], mark: str) -> Callable[[_Try], Any]:
    """What sends a try to a node that has room, and gives Ray's reference to it."""

    def on_node(
        versions: dict[str, str], settings: dict[str, Any], folder: str, again: bool, mark: str, here: str
    ) -> str | None:
        # Travels as its code, since a node without hcsfed could not look it up; gives what is wrong with the node.
        from importlib.metadata import PackageNotFoundError, version
        from socket import gethostname

        for name, wanted in versions.items():
            try:
                there = version(name)
            except PackageNotFoundError:
                there = "none"
            if there != wanted:
                return f"Ray node {gethostname()} has {name} {there}, this machine {wanted}; install the same there"
        from hcsfed.on_ray import do

        return do(settings, folder, again, mark, here)

    remote = {cuda: ray.remote(num_cpus=1, num_gpus=int(cuda), max_retries=0)(on_node) for cuda in (False, True)}

    def send(one: _Try) -> Any:
        task = one.task
        cuda = task.settings["device"] == "cuda"
        return remote[cuda].remote(versions, dict(task.settings), task.folder, one.again, mark, os.getcwd())

    return send


def do(settings: dict[str, Any], folder: str, again: bool, mark: str, here: str) -> str | None:
    """On a node: do the task, or say what is wrong with the node."""
    if not _sees(mark):
        return (
            f"Ray node {socket.gethostname()} does not see the folder {str(Path(mark).parent)!r}; "
            "--out must be a folder that all nodes share"
        )
    with suppress(OSError):
        os.chdir(here)  # data and models are looked for where the command was given
    use_threads(1)
    until = time.monotonic() + (PATIENCE if again else 0.0)
    with gentle() as check:  # Ray cancels a task as Ctrl-C would
        while True:
            try:
                Task(settings, folder).do(check)
                return None
            except FolderInUseError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)


def _sees(mark: str) -> bool:
    """Whether the mark is there; a network's folder may show it a little later."""
    for _ in range(10):
        with suppress(OSError):
            if Path(mark).name in os.listdir(Path(mark).parent):
                return True
        time.sleep(0.2)
    return False


@contextmanager
def _mark(out: Path) -> Iterator[str]:
    """A file by which a node knows this very folder from one that has its name only."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".shared-", dir=out) as file:
            yield file.name
    except OSError as error:
        if isinstance(error, HcsfedError):
            raise
        raise RunFolderError(f"cannot use the folder {str(out)!r}: {error.strerror or error}") from error


def _enough(ray: Any, tasks: Sequence[Task]) -> None:
    """A task that no node has room for would wait for ever."""
    there = ray.cluster_resources()
    needed = {"CPU"} | {"GPU" for task in tasks if task.settings["device"] == "cuda"}
    for resource in sorted(needed):
        if there.get(resource, 0) < 1:
            raise HcsfedError(f"the Ray cluster has no {resource}, of which a run needs one")


def _reached(folder: str) -> int:
    return len(read_run(folder).history) if (Path(folder) / "settings.json").exists() else 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@contextmanager
def _cluster(ray: Any, address: str, jobs: int) -> Iterator[None]:
    """Connected to the cluster, or to a Ray that is started for this and listens on loopback only."""
    own = None
    said: dict[str, Any] = {"address": address}
    if address in ("", "local"):
        own = tempfile.mkdtemp(prefix="hcsfed-ray-")  # short: Ray's sockets lie in it
        said = {
            "address": "local",
            "num_cpus": jobs or None,  # None: the machine's
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": own,
        }
    elif address != "auto":
        _answers(address)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        try:
            with _bent(), warnings.catch_warnings(action="ignore"):
                ray.init(**said, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray has no class of its own for what may go wrong here
            why = " ".join(str(error).split())
            raise HcsfedError(f"no connection to Ray{address and f' at {address}'}: {why}") from error
        yield
    finally:
        ray.shutdown()
        if own:
            shutil.rmtree(own, ignore_errors=True)


def _answers(address: str) -> None:
    """Ray tries for minutes where nobody is."""
    host, sign, port = address.removeprefix("ray://").rpartition(":")
    if not sign or not port.isdigit():
        raise bad("address", "Ray", "host:port, ray://host:port, auto or local", address)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
    except (OSError, OverflowError) as error:
        raise HcsfedError(f"no answer from Ray at {address}: {error}") from error


@contextmanager
def _bent() -> Iterator[None]:
    """Two private points of Ray, bent while it connects.

    It takes 127.0.0.1 for a mistake, puts the machine's outer address in its place and listens everywhere. And it
    prints a dead node's log on standard output, where our own results stand.
    """
    points: list[tuple[Any, str, Any]] = [
        (import_module("ray._private.services"), "resolve_ip_for_localhost", lambda host: host),
        (import_module("ray._private.worker"), "listen_error_messages", lambda worker, stopped: None),
    ]
    before = [getattr(module, name) for module, name, _ in points]
    for module, name, value in points:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(points, before, strict=True):
            setattr(module, name, value)
