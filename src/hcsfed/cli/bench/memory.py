"""``hcsfed bench memory``: the peak of a run with very many clients, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated

import typer

from hcsfed.errors import HcsfedError, bad

LIMIT = 1 << 30
ROWS, INPUTS, CLASSES = 20, 60, 10
"""Of each client: FedProx's synthetic data has 60 inputs and 10 classes."""

PROGRAM = f"""
import json, resource, sys
import numpy as np
from hcsfed.simulate import simulate
from hcsfed.data import pack

clients, cohort = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
x = rng.standard_normal((clients * {ROWS}, {INPUTS}), dtype=np.float32)
y = rng.integers(0, {CLASSES}, len(x))
federation = pack(x, y, x[:1000], y[:1000], offsets=np.arange(0, len(x) + 1, {ROWS}), classes={CLASSES}, name="noise")
del x, y
data = sum(a.nbytes for a in (federation.x, federation.y, federation.offsets, federation.weights))
run = simulate(federation, model="logistic", selector=sys.argv[3], cohort=cohort, rounds=3, steps=10, batch=10)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"data": data, "peak": peak * (1 if sys.platform == "darwin" else 1024), "seconds": run.seconds}}))
"""


def memory(
    clients: Annotated[int, typer.Option(help="N.")] = 100_000,
    cohort: Annotated[int, typer.Option(help="m.")] = 1_000,
    selector: Annotated[str, typer.Option(help="Who picks.")] = "random",
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Peak memory of three rounds with 100,000 clients of 20 rows (below the data and 1 GiB)."""
    if clients < 1:
        raise bad("clients", "bench memory", "an int >= 1", clients)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(clients), str(cohort), selector], capture_output=True, text=True
    )
    if done.returncode:
        raise HcsfedError(f"the run failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    found |= {"clients": clients, "cohort": cohort, "selector": selector}
    found["reached"] = found["peak"] < found["data"] + LIMIT
    if json_:
        print(json.dumps(found))
        return
    data, peak = found["data"] / 2**20, found["peak"] / 2**20
    print(
        f"{clients:,} clients of {ROWS} rows, cohort {cohort:,}, {selector}: data {data:,.0f} MiB, peak {peak:,.0f} MiB"
    )
    print(f"target below the data and 1,024 MiB: {'reached' if found['reached'] else 'missed'}")
