"""Processes of ours: started with a log each, waited for with a deadline, and ended to the last grandchild.

Flower's programs start programs of their own, some of them in a session of their own, and these outlive their parents
by seconds. So every process that we start, and with it every process that it starts, bears a mark in its environment;
what is ended at the end is whatever bears the mark.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType

import psutil

from hcsfed.errors import FederationError

MARK = "HCSFED_FEDERATION"
GRACE, KILLED = 8.0, 20.0  # seconds that SIGTERM and SIGKILL are given
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Started:
    """A process of ours, and where it writes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        """Asking also takes note of its end, without which those who watch it would still see it."""
        return self.process.poll() is None

    def tail(self) -> str:
        """Of its log the last error, or the last words, for the one line that says what went wrong."""
        lines = [line.strip() for line in _COLOURS.sub("", self.log.read_text("utf-8", "replace")).splitlines()]
        said = [line for line in lines if line] or ["nothing"]
        last = next((line for line in reversed(said) if "ERROR" in line), said[-1])
        return f"its log {str(self.log)!r} says: {last[-300:]}"


@dataclass
class Processes:
    """Everything that is started here ends with the ``with`` block, however that is left."""

    logs: Path
    environment: Mapping[str, str]
    started: list[Started] = field(default_factory=list)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def start(self, name: str, command: Sequence[str]) -> Started:
        """Start a process in a session of its own, so that Ctrl-C reaches us alone and we end it in good order."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**self.environment, MARK: self.mark},
                start_new_session=True,
            )
        self.started.append(Started(name, process, log))
        return self.started[-1]

    def end(self, one: Started, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask one process to end, or with SIGKILL end it; what it started notices by itself."""
        with suppress(ProcessLookupError):
            one.process.send_signal(number)

    def alive(self) -> list[psutil.Process]:
        """All that bears our mark, children's children included."""
        for one in self.started:
            one.process.poll()  # a child that has ended but was not asked after still counts as there
        return [process for process in psutil.process_iter() if self._ours(process)]

    def _ours(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE)
        except (psutil.Error, OSError):  # somebody else's, or gone by now
            return False

    def end_all(self) -> None:
        """SIGTERM to all, then SIGKILL to who is still there; a second Ctrl-C goes to the SIGKILL at once."""
        try:
            self._signal(signal.SIGTERM, GRACE)
        except KeyboardInterrupt:
            pass
        finally:
            left = self._signal(signal.SIGKILL, KILLED)
        if left:
            raise FederationError(f"processes {', '.join(str(p.pid) for p in left)} did not end by SIGKILL")

    def _signal(self, number: signal.Signals, seconds: float) -> list[psutil.Process]:
        """Send a signal to all of ours, those too that appear meanwhile; gives who is left."""
        sent: set[int] = set()
        deadline = time.monotonic() + seconds
        while (left := self.alive()) and time.monotonic() < deadline:
            for process in left:
                if process.pid not in sent:
                    sent.add(process.pid)
                    with suppress(psutil.Error):
                        process.send_signal(number)
            time.sleep(0.1)
        return left

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_all()


def wait(
    what: str, seconds: float, ready: Callable[[], bool], *, need: Sequence[Started] = (), every: float = 0.2
) -> None:
    """Wait until something is so, while all processes that it needs are running, but not beyond the deadline."""
    deadline = time.monotonic() + seconds
    while not ready():
        for one in need:
            if not one.running:
                raise FederationError(
                    f"{one.name} ended with exit code {one.process.returncode} while waiting for {what}; {one.tail()}"
                )
        if time.monotonic() > deadline:
            where = f"; {need[0].tail()}" if need else ""
            raise FederationError(f"waited {seconds:.0f} seconds in vain for {what}{where}")
        time.sleep(every)


@contextmanager
def told_to_end() -> Iterator[None]:
    """Let SIGTERM and the closing of the terminal be what Ctrl-C is, so that they too leave nothing behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def quiet_environment(home: Path, programs: Path) -> dict[str, str]:
    """What Flower's programs are told: a folder of their own, our programs first, nothing asked of the network.

    ``OMP_NUM_THREADS`` is one, as many processes share the machine's cores.
    """
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
