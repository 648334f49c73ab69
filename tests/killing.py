"""A process without threads that forks runs and kills them by SIGKILL; prints what became of them as JSON.

Apart from the tests, so that every killed run is forked from a process in which everything is loaded: twenty real
processes then start and die in seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import hcsfed
from hcsfed import shelf
from hcsfed.record import folder, read_run

SETTINGS = {"rounds": 400, "cohort": 4, "steps": 5, "lr": 0.05, "seed": 3}
# Two tables of rows, both in files: every limit is forced to be too small.
ROWS = {"rounds": 120, "algorithm": "scaffold", "options": {"estimator.name": "fedvarp", "row_memory": 0}}
PLACES = ("before the line", "inside the line", "before the checkpoint", "inside the checkpoint")


def go_on(out: Path | None, more: dict | None = None) -> None:
    hcsfed.simulate("digits", out=out, resume=True, **{**SETTINGS, **(more or {})})


def forked(work: Callable[[], None]) -> int:
    """Start ``work`` in a process of its own; gives its id."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0 if sys.exc_info()[0] is None else 1)
    return child


def ended(child: int) -> int:
    """How it ended: 0, an exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def numbers(out: Path) -> list[dict]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in read_run(out).history]


def done(out: Path) -> int:
    return len(read_run(out).history) if (out / "settings.json").exists() else 0


def kill_at_random(out: Path, kills: int, more: dict | None = None) -> int:
    """Kill a run over and over at random moments; gives the most rounds that one kill has cost."""
    moments, lost = np.random.default_rng(0), 0
    for _ in range(kills):
        before = done(out)
        child = forked(lambda: go_on(out, more))
        goal, deadline = before + int(moments.integers(0, 15)), time.monotonic() + 60
        while done(out) <= goal and time.monotonic() < deadline:
            pass
        time.sleep(float(moments.uniform(0, 0.003)))
        seen = done(out)
        os.kill(child, signal.SIGKILL)
        if ended(child) != -signal.SIGKILL:
            raise SystemExit("the run was over before it could be killed")
        checkpoint = folder._read_checkpoint(out / "checkpoint.safetensors")
        lost = max(lost, seen - (checkpoint[0] if checkpoint else 0))
    return lost


def die_in(out: Path, place: str, when: int) -> None:
    """Run until round ``when`` and die at a chosen place in the writing of that round."""
    save = folder.RunFolder.save

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def half(path: Path, content: bytes) -> None:
        path.with_name(path.name + ".part").write_bytes(content[: len(content) // 2])
        die()

    def dying_save(self, record, arrays):
        if record["round"] == when:
            if place == "before the line":
                die()
            if place == "inside the line":
                self._rounds.write(folder._line(record)[:40])
                self._rounds.flush()
                die()
            folder._replace = die if place == "before the checkpoint" else half
        save(self, record, arrays)

    folder.RunFolder.save = dying_save
    go_on(out)


def die_in_a_row(out: Path, when: int) -> None:
    """Run, and die with half of a row on disk, the ``when``-th that is written."""
    written = 0

    def half(number: int, content: memoryview, at: int) -> int:
        nonlocal written
        written += 1
        if written < when:
            return whole(number, content, at)
        whole(number, content[: len(content) // 2], at)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    whole, shelf.os.pwrite = os.pwrite, half
    go_on(out, ROWS)


def main(place: Path) -> None:
    torch.set_num_threads(1)
    go_on(None)  # loads and compiles everything
    go_on(place / "whole")
    expected = numbers(place / "whole")
    told = {"lost": kill_at_random(place / "random", 20)}
    go_on(place / "random")
    told["random"] = numbers(place / "random") == expected
    for where in PLACES:
        out = place / where
        signals = [
            ended(forked(lambda out=out, where=where, when=when: die_in(out, where, when))) for when in (1, 2, 30)
        ]
        go_on(out)
        told[where] = signals == [-signal.SIGKILL] * 3 and numbers(out) == expected
    go_on(place / "rows", ROWS)
    expected = numbers(place / "rows")
    told["rows lost"] = kill_at_random(place / "rows at random", 8, ROWS)
    go_on(place / "rows at random", ROWS)
    told["rows at random"] = numbers(place / "rows at random") == expected
    out = place / "inside a row"
    signals = [ended(forked(lambda when=when: die_in_a_row(out, when))) for when in (1, 6, 13, 8, 200)]
    go_on(out, ROWS)
    told["inside a row"] = signals == [-signal.SIGKILL] * 5 and numbers(out) == expected
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
