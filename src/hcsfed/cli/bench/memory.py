"""``hcsfed bench memory``: the peak of a run with very many clients, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated

import typer

from hcsfed.errors import HcsfedError, bad

GIB = 1 << 30
ROWS, INPUTS, CLASSES = 20, 60, 10
"""Of each client: FedProx's synthetic data has 60 inputs and 10 classes."""

PROGRAM = f"""
import json, resource, sys, tempfile
from pathlib import Path
import numpy as np
from hcsfed.simulate import simulate
from hcsfed.data import pack

given = json.loads(sys.argv[1])
clients = given["clients"]
rng = np.random.default_rng(0)
x = rng.standard_normal((clients * {ROWS}, {INPUTS}), dtype=np.float32)
y = rng.integers(0, {CLASSES}, len(x), dtype=np.uint8)
federation = pack(x, y, x[:1000], y[:1000], offsets=np.arange(0, len(x) + 1, {ROWS}), classes={CLASSES}, name="noise")
del x, y
data = sum(a.nbytes for a in (federation.x, federation.y, federation.offsets, federation.weights))
with tempfile.TemporaryDirectory() as out:
    run = simulate(
        federation,
        model="mlp" if given["model"] else "logistic",
        selector=given["selector"],
        algorithm=given["algorithm"],
        cohort=given["cohort"],
        rounds=given["rounds"],
        steps=given["steps"],
        batch=10,
        out=out,
        options={{"estimator": given["estimator"], **given["model"]}},
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    found = {{
        "dimension": run.about["dimension"],
        "data": data,
        "peak": peak,
        "disk": sum(512 * file.stat().st_blocks for file in Path(out).glob("*.rows")),
        "checkpoint": (Path(out) / "checkpoint.safetensors").stat().st_size,
        "seconds": run.seconds,
    }}
print(json.dumps(found))
"""


def memory(
    clients: Annotated[int, typer.Option(help="N.")] = 100_000,
    cohort: Annotated[int, typer.Option(help="m.")] = 1_000,
    selector: Annotated[str, typer.Option(help="Who picks.")] = "random",
    algorithm: Annotated[str, typer.Option(help="What clients do in a round.")] = "fedavg",
    estimator: Annotated[str, typer.Option(help="What is made of the answers.")] = "default",
    dimension: Annotated[int, typer.Option(help="d at least; 0: that of logistic regression.")] = 0,
    rounds: Annotated[int, typer.Option(help="How many rounds.")] = 3,
    steps: Annotated[int, typer.Option(help="Local steps of 10 rows.")] = 10,
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Peak memory of three rounds with 100,000 clients of 20 rows (below the data and 1 GiB).

    With a dimension of their own, and an algorithm or estimator that keeps d numbers for each client, the whole process
    is to stay below 4 GiB.
    """
    for name, value, least in (
        ("clients", clients, 1),
        ("rounds", rounds, 1),
        ("steps", steps, 1),
        ("dimension", dimension, 0),
    ):
        if value < least:
            raise bad(name, "bench memory", f"an int >= {least}", value)
    # A hidden layer of h has (inputs + 1)·h + (h + 1)·classes parameters.
    hidden = -(-(dimension - CLASSES) // (INPUTS + 1 + CLASSES)) if dimension else 0
    given = {
        "clients": clients,
        "cohort": cohort,
        "selector": selector,
        "algorithm": algorithm,
        "estimator": estimator,
        "rounds": rounds,
        "steps": steps,
        "model": {"model.hidden": max(hidden, 1)} if dimension else {},
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(given)], capture_output=True, text=True)
    if done.returncode:
        raise HcsfedError(f"the run failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    found = given | json.loads(done.stdout.splitlines()[-1])
    limit = 4 * GIB if dimension else found["data"] + GIB
    found["reached"] = found["peak"] < limit
    if json_:
        print(json.dumps(found))
        return
    data, peak, disk, kept = (f"{found[key] / 2**20:,.0f} MiB" for key in ("data", "peak", "disk", "checkpoint"))
    print(f"{clients:,} clients of {ROWS} rows, cohort {cohort:,}, {selector}: data {data}, peak {peak}")
    print(f"{algorithm}, estimator {estimator}, d = {found['dimension']:,}: rows on disk {disk}, checkpoint {kept}")
    print(f"target below {limit / 2**20:,.0f} MiB: {'reached' if found['reached'] else 'missed'}")
