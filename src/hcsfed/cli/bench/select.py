"""``hcsfed bench select``: how long a selection takes, how much memory, and what its short cuts lose."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from hcsfed.cli.bench.engine import default_file, write
from hcsfed.cli.bench.machine import machine
from hcsfed.cli.bench.peers import scripts
from hcsfed.cli.bench.selection.finding import Finding
from hcsfed.errors import bad

METHOD = (
    "Rivals take turns in one process, after a first call that is not counted; ratios compare the best turns, and the "
    "best, median and worst turn of each are given. Nobody is held to one thread: np.sort uses one by nature. "
    "Inertia is the sum of squared distances to the nearest centre; the optimum is that of a dynamic programme. GC "
    "counts from the update to the feature, with the check that all numbers are finite. Real updates are those of the "
    "first client, which holds one class. faiss's k-means runs with its default subsample and iterations, then "
    "assigns all clients. Memory is the peak of a process of its own, Python and libraries included. Variances are "
    "Monte Carlo, with the standard error of their ratio. With a hundred clients, selectors that learn have learned "
    "for twenty rounds, and each takes four times as many turns."
)
PACKAGES = ("hcsfed", "numpy", "scipy", "scikit-learn", "numba", "torch", "faiss-cpu")


def questions(quick: bool, repeats: int) -> dict[str, Callable[[], Iterator[Finding]]]:
    """By name, in the order in which they are asked."""
    from hcsfed.cli.bench.selection import alike, compression, designs, hundred, scale

    return {
        "gc-inertia": lambda: compression.good(quick),
        "gc-time": lambda: compression.fast(quick, repeats),
        "million": lambda: scale.findings(quick, repeats),
        "designs": lambda: designs.findings(quick),
        "clustered-updates": lambda: alike.findings(quick, repeats),
        "hundred": lambda: hundred.findings(4 * repeats),
    }


def select(
    only: Annotated[str, typer.Option(help="Questions to ask, with commas between them; all by default.")] = "",
    repeats: Annotated[int, typer.Option(help="Turns that everyone takes.")] = 5,
    quick: Annotated[bool, typer.Option(help="Small sizes and two repeats: to see that it runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where the figures go, as JSON.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time, memory and quality of one selection, beside NumPy's sort, faiss's k-means and the exact designs."""
    if repeats < 1:
        raise bad("repeats", "bench select", "an int >= 1", repeats)
    repeats = 2 if quick else repeats
    asked = questions(quick, repeats)
    names = [name.strip() for name in only.split(",")] if only else list(asked)
    for name in names:
        if name not in asked:
            raise bad("only", "bench select", "some of " + ", ".join(asked), name)
    about, began = machine(), time.perf_counter()
    found: list[Finding] = []
    for name in names:
        say(name)
        for finding in asked[name]():
            found.append(finding)
            say(f"{name}: {finding.case}")
    say("")
    result = {
        "method": METHOD,
        **about,
        "versions": {name: version(name) for name in PACKAGES if installed(name)},
        "repeats": repeats,
        "quick": quick,
        "took": round(time.perf_counter() - began, 1),
        "findings": [asdict(finding) | {"reached": finding.reached} for finding in found],
    }
    write(result, out or default_file("select", scripts(), quick or bool(only)))
    if json_:
        print(json.dumps(result))
    else:
        from hcsfed.cli.bench.show_select import show

        show(result)


def say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def installed(package: str) -> bool:
    modules: dict[str, Any] = {"scikit-learn": "sklearn", "faiss-cpu": "faiss"}
    return importlib.util.find_spec(modules.get(package, package)) is not None
