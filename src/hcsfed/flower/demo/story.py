"""The demonstration from its beginning to its end: start, train, lose nodes, check, and leave nothing behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hcsfed.errors import FederationError
from hcsfed.flower.demo import app, check
from hcsfed.flower.demo.certificates import node_key
from hcsfed.flower.demo.check import Verdict
from hcsfed.flower.demo.federation import KEYS, Loopback, loopback, node_name
from hcsfed.flower.demo.processes import Started, told_to_end, wait
from hcsfed.record import read_run
from hcsfed.types import Floats

SEED = 3
START = 300.0  # seconds until the first round is under way, on a busy machine
DEADLINE = 120.0
"""Seconds until an answer counts as missing: more than the minute after which Flower notices that a node is gone."""
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
        return {
            "nodes": self.nodes,
            "rounds": self.rounds,
            "seed": SEED,
            "timeout": DEADLINE,
            "strategy": {
                "selector": "hcsfed",
                "cohort": max(2, self.nodes // 2),
                "seed": SEED,
                "clients": self.nodes,
                "deadline": DEADLINE,
                "max_share": 1.0,  # the simulator knows no bound
                "out": str(folder / "run"),
                "keys": str(folder / KEYS) if self.secure else None,
                "options": {"selector.refresh": self.refresh, "local.lr": 0.05, "local.steps": 20},
            },
        }


@dataclass(frozen=True)
class Outcome:
    """How it went; ``killed`` are the names of the nodes that were ended."""

    demo: Demo
    verdict: Verdict
    killed: list[str]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """All of it, by name."""
        verdict = asdict(self.verdict)
        return {"completed": not self.verdict.complaint, "killed": self.killed, "seconds": self.seconds} | {
            **verdict,
            "demo": asdict(self.demo),
        }


def show(demo: Demo, programs: Path, tell: Tell) -> Outcome:
    """Do all of it; ``tell`` is given a line at each step."""
    begin = time.monotonic()
    with told_to_end(), tempfile.TemporaryDirectory(prefix="hcsfed-federation-") as place:
        folder = Path(place)
        plan = demo.plan(folder)
        tell(f"starting a SuperLink and {demo.nodes} SuperNodes{', with TLS and node keys' if demo.secure else ''}")
        with loopback(folder, demo.nodes, programs, secure=demo.secure) as federation:
            stranger = federation.join(demo.nodes, node_key(folder / "strange", "key")) if demo.secure else None
            run = federation.flwr.run(app.write(folder, plan))
            watch = _Watch(demo, federation, folder / "run", tell)
            federation.flwr.wait(run, START + 3 * demo.rounds * plan["timeout"], watch.look)
            if stranger is not None:
                _turned_away(stranger, federation)
                tell("a node with a key that was not registered was turned away")
        tell("all processes have ended; the same run once more in one process")
        verdict = check.judged(plan, read_run(folder / "run").history, watch.models)
        return Outcome(demo, verdict, watch.killed, time.monotonic() - begin)


@dataclass
class _Watch:
    """Follows a run: notes the model after each round, and ends nodes once the first round is done."""

    demo: Demo
    federation: Loopback
    out: Path
    tell: Tell
    models: dict[int, Floats] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    def look(self) -> bool:
        """Whether all rounds are done."""
        done, model = last(self.out)
        if model is not None and done not in self.models:
            self.models[done] = model
            self.tell(f"round {done} of {self.demo.rounds} is done")
        if done and not self.killed:
            for number in sorted(self.federation.nodes)[self.demo.nodes - self.demo.kill :]:
                self.federation.kill(number, hard=self.demo.hard)
                self.killed.append(node_name(number))
                self.tell(f"{self.killed[-1]} was ended by {'SIGKILL' if self.demo.hard else 'SIGTERM'}")
        if not self.federation.superlink.running:
            raise FederationError(f"the SuperLink ended in mid-run; {self.federation.superlink.tail()}")
        return done == self.demo.rounds


def _turned_away(stranger: Started, federation: Loopback) -> None:
    """The one whose key nobody knows has ended by itself, and was never on the list."""
    wait("the unknown node to be turned away", 120, lambda: not stranger.running)
    if stranger.process.returncode == 0 or len(federation.flwr.nodes()) > federation.size:
        raise FederationError("a node whose key was not registered was let in")


def last(out: Path) -> tuple[int, Floats | None]:
    """The last round of a run's folder that was saved, and the model after it."""
    from safetensors import safe_open

    path = out / "checkpoint.safetensors"
    if not path.exists():
        return 0, None
    with safe_open(path, "numpy") as file:
        return int(file.metadata()["round"]), file.get_tensor("parameters").astype(np.float64)
