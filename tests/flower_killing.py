"""Servers of a Flower federation that are killed by SIGKILL, over and over; prints what became of them as JSON.

Apart from the tests, as ``killing.py`` is: every server is forked from a process in which everything is loaded.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file

from flower_runs import CLIENTS, app, run, strategy
from hcsfed.flower import LocalGrid
from hcsfed.record import read_run
from killing import done, ended, forked

RUNS = {
    "oort": {"algorithm": "scaffold"},
    "hcsfed": {"selector.refresh": "stale", "estimator": "fedvarp"},
    "frontier": {"row_memory": 0, "server": "adam"},  # updates of all clients in a file
    "importance": {},
}
ROUNDS, KILLS = 60, 6


class Slow(LocalGrid):
    """As slow as it takes for whoever wants to kill the server to be in time, however busy the machine is."""

    def send_and_receive(self, messages, *, timeout=None):
        time.sleep(0.02)
        return super().send_and_receive(messages, timeout=timeout)


def go_on(selector: str, out: Path, nodes: type[LocalGrid] = LocalGrid) -> None:
    """Run to the end, from where the folder stands."""
    run(strategy(selector, given={"out": out}, **RUNS[selector]), ROUNDS, nodes(app(), CLIENTS))


def told(out: Path) -> tuple[list, dict]:
    """The history, but for what depends on the clock and on how often nodes were met, and all memories at the end."""
    history = [{k: v for k, v in r.items() if k not in ("seconds", "wire")} for r in read_run(out).history]
    return history, load_file(out / "checkpoint.safetensors")


def kill_at_random(selector: str, out: Path) -> list[int]:
    """In which rounds the server was killed."""
    draw, rounds = np.random.default_rng(1), []
    for _ in range(KILLS):
        server = forked(lambda: go_on(selector, out, Slow))
        goal, deadline = done(out) + int(draw.integers(1, 8)), time.monotonic() + 300
        while done(out) < goal and time.monotonic() < deadline:
            pass
        time.sleep(float(draw.uniform(0, 0.08)))  # anywhere in the round that follows
        os.kill(server, signal.SIGKILL)
        if ended(server) != -signal.SIGKILL:
            raise SystemExit("the run was over before its server could be killed")
        rounds.append(done(out))
    return rounds


def main(place: Path) -> None:
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    told_of = {}
    for selector in RUNS:
        go_on(selector, place / f"{selector}-whole")
        expected, memories = told(place / f"{selector}-whole")
        out = place / f"{selector}-killed"
        killed = kill_at_random(selector, out)
        go_on(selector, out)
        history, found = told(out)
        names = [name for name, array in memories.items() if name != "estimator.kept" or array.ndim == 2]  # not places
        told_of[selector] = {
            "killed": killed,
            "history": history == expected,
            "memories": sorted(memories) == sorted(found)
            and all(np.array_equal(memories[name], found[name], equal_nan=True) for name in names),
        }
    print(json.dumps(told_of))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
