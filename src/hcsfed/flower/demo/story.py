"""The demonstration from its beginning to its end: start, train, lose nodes, check, and leave nothing behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hcsfed.errors import FederationError
from hcsfed.flower.demo import app, check
from hcsfed.flower.demo.certificates import node_key
from hcsfed.flower.demo.federation import KEYS, Loopback, loopback, node_name
from hcsfed.flower.demo.processes import Started, told_to_end, wait
from hcsfed.record import RoundRecord, read_run

SEED = 3
DEADLINE, SHORT = 60.0, 45.0
"""Seconds until an answer counts as missing; the second where Flower takes a minute to notice that a node is gone."""
Tell = Callable[[str], object]


@dataclass(frozen=True)
class Demo:
    """What is shown.

    Parameters
    ----------
    refresh
        ``fresh``: everyone trains in every round. ``stale``: the picked alone.
    secure
        With TLS and node keys, and with one node more whose key nobody knows.
    kill, hard
        How many nodes end in mid-run, and whether by SIGKILL.
    """

    nodes: int = 6
    rounds: int = 3
    refresh: str = "fresh"
    secure: bool = True
    kill: int = 0
    hard: bool = False

    def plan(self, folder: Path) -> dict[str, Any]:
        """What the app is told."""
        deadline = SHORT if self.hard else DEADLINE
        return {
            "nodes": self.nodes,
            "rounds": self.rounds,
            "seed": SEED,
            "timeout": deadline,
            "strategy": {
                "selector": "hcsfed",
                "cohort": max(2, self.nodes // 2),
                "seed": SEED,
                "clients": self.nodes,
                "deadline": deadline,
                "out": str(folder / "run"),
                "keys": str(folder / KEYS) if self.secure else None,
                "options": {"selector.refresh": self.refresh, "local.lr": 0.05, "local.steps": 20},
            },
        }


@dataclass(frozen=True)
class Outcome:
    """How it went.

    Parameters
    ----------
    killed
        Names of the nodes that were ended.
    undisturbed
        Rounds from the first on in which nobody was missing.
    complaint
        What is wrong with the run; empty where nothing is.
    difference
        The largest difference of a parameter from the same run in one process.
    """

    demo: Demo
    history: list[RoundRecord]
    killed: list[str]
    undisturbed: int
    complaint: str
    difference: float
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """All of it, by name."""
        return {**asdict(self), "completed": not self.complaint}


def show(demo: Demo, programs: Path, tell: Tell) -> Outcome:
    """Do all of it; ``tell`` is given a line at each step."""
    begin = time.monotonic()
    with told_to_end(), tempfile.TemporaryDirectory(prefix="hcsfed-federation-") as place:
        folder = Path(place)
        plan = demo.plan(folder)
        tell(f"starting a SuperLink and {demo.nodes} SuperNodes{', with TLS and node keys' if demo.secure else ''}")
        with loopback(folder, demo.nodes, programs, secure=demo.secure) as federation:
            stranger = federation.join(demo.nodes, node_key(folder / "strange", "key")) if demo.secure else None
            run = federation.flwr.run(app.write(folder, plan), {})
            killed = _watch(demo, federation, folder / "run", run, tell)
            if stranger is not None:
                _turned_away(stranger, federation)
                tell("a node with a key that was not registered was turned away")
        tell("all processes have ended; the same run once more in one process")
        history, model = list(read_run(folder / "run").history), _model(folder / "run")
        again = check.repeated(plan, history)[1] if len(history) == demo.rounds else model
        return Outcome(
            demo,
            history,
            killed,
            check.undisturbed(history),
            check.complaint(plan, history, model),
            check.difference(model, again),
            time.monotonic() - begin,
        )


def _watch(demo: Demo, federation: Loopback, out: Path, run: str, tell: Tell) -> list[str]:
    """Follow the run to its end, and end nodes once its first round is done."""
    patience = 120 + 3 * demo.rounds * (SHORT if demo.hard else DEADLINE)
    deadline, asked, told = time.monotonic() + patience, time.monotonic(), 0
    killed: list[str] = []
    while True:
        done = _done(out)
        if done > told:
            tell(f"round {done} of {demo.rounds} is done")
            told = done
        if done and not killed:
            for number in sorted(federation.nodes)[demo.nodes - demo.kill :]:
                federation.kill(number, hard=demo.hard)
                killed.append(node_name(number))
                tell(f"{killed[-1]} was ended by {'SIGKILL' if demo.hard else 'SIGTERM'}")
        if done == demo.rounds or time.monotonic() - asked > 10:
            asked = time.monotonic()
            if (status := federation.flwr.status(run)).startswith("finished"):
                if status != "finished:completed":
                    raise FederationError(f"the run ended as {status}: {_last_words(federation, run)}")
                return killed
        if not federation.superlink.running:
            raise FederationError(f"the SuperLink ended in mid-run; {federation.superlink.tail()}")
        if time.monotonic() > deadline:
            raise FederationError(f"the run was not over after {patience:.0f} seconds, in round {done + 1}")
        time.sleep(0.5)


def _turned_away(stranger: Started, federation: Loopback) -> None:
    """The one whose key nobody knows has ended by itself, and was never on the list."""
    wait("the unknown node to be turned away", 60, lambda: not stranger.running)
    if stranger.process.returncode == 0 or len(federation.flwr.nodes()) > federation.size:
        raise FederationError("a node whose key was not registered was let in")


def _done(out: Path) -> int:
    return len(read_run(out).history) if (out / "settings.json").exists() else 0


def _model(out: Path) -> Any:
    from safetensors.numpy import load_file

    return load_file(out / "checkpoint.safetensors")["parameters"]


def _last_words(federation: Loopback, run: str) -> str:
    lines = [line.strip() for line in federation.flwr.log(run).splitlines() if line.strip()]
    return lines[-1] if lines else "its log is empty"
