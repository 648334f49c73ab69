"""``hcsfed bench startup``: what ``import hcsfed`` costs, in fresh interpreters."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Annotated

import typer

from hcsfed.errors import HcsfedError, bad

LIMIT = 0.3
PROGRAM = """
import sys, time
began = time.perf_counter()
import hcsfed
print(time.perf_counter() - began, "torch" in sys.modules)
"""


def startup(
    repeats: Annotated[int, typer.Option(help="Fresh interpreters.")] = 10,
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Seconds for `import hcsfed` (below 0.3, and without PyTorch)."""
    if repeats < 1:
        raise bad("repeats", "bench startup", "an int >= 1", repeats)
    seconds, torch = [], False
    for _ in range(repeats + 1):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
        if done.returncode:
            raise HcsfedError(f"import hcsfed failed: {done.stderr.strip().splitlines()[-1]}")
        took, loaded = done.stdout.split()
        seconds.append(float(took))
        torch = torch or loaded == "True"
    del seconds[0]  # fills the file cache
    best, median, worst = min(seconds), statistics.median(seconds), max(seconds)
    if json_:
        print(json.dumps({"seconds": seconds, "limit": LIMIT, "torch": torch, "reached": median < LIMIT and not torch}))
        return
    verdict = "reached" if median < LIMIT and not torch else "missed"
    print(f"import hcsfed: best {best:.3f} s, median {median:.3f} s, worst {worst:.3f} s of {repeats}")
    print(f"target below {LIMIT} s without PyTorch: {verdict} (PyTorch {'was' if torch else 'not'} imported)")
