"""``hcsfed bench flower``: what a server of ours costs with many nodes, in Flower's own simulation engine."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from hcsfed.cli.bench.machine import machine
from hcsfed.cli.bench.peers import scripts
from hcsfed.errors import HcsfedError, bad

SHARE, GROWTH = 0.05, 0.02
"""Of a round's seconds, those that selection and aggregation may take; of the server's memory, what rounds may add."""
SEED = 0


def flower(
    nodes: Annotated[int, typer.Option(help="How many virtual nodes.")] = 1000,
    cohort: Annotated[int, typer.Option(help="How many answer a round.")] = 50,
    rounds: Annotated[int, typer.Option(help="How many rounds.")] = 10,
    selector: Annotated[str, typer.Option(help="Who picks.")] = "hcsfed",
    refresh: Annotated[
        str, typer.Option(help="fresh: everyone trains in every round; stale: the picked alone.")
    ] = "fresh",
    out: Annotated[Path | None, typer.Option(help="Where the figures go, as JSON.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Memory and seconds of the server with a thousand virtual nodes, ten rounds, a cohort of fifty.

    Ray listens on loopback only, and everything that is started ends with the command.
    """
    for name, value, least in (("nodes", nodes, 2), ("cohort", cohort, 1), ("rounds", rounds, 4)):
        if value < least:
            raise bad(name, "bench flower", f"an int >= {least}", value)
    for module in ("flwr", "ray", "torch"):
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)
    given = {"nodes": nodes, "cohort": cohort, "rounds": rounds, "selector": selector, "refresh": refresh}
    found = machine() | {"versions": {name: version(name) for name in ("flwr", "ray")}} | given | measured(given)
    benchmarks = scripts()
    path = out or (benchmarks and benchmarks / "results" / f"flower-{refresh}.json")
    if path:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found) if json_ else "\n".join(told(found)))


def measured(given: dict[str, Any]) -> dict[str, Any]:
    """One run, and what was seen of it round by round."""
    from hcsfed.flower.demo import app
    from hcsfed.flower.demo.federation import engine
    from hcsfed.record import read_run

    with tempfile.TemporaryDirectory(prefix="hcsfed-bench-") as place:
        folder = Path(place)
        seen = folder / "seen.jsonl"
        plan = {
            "nodes": given["nodes"],
            "rounds": given["rounds"],
            "seed": SEED,
            "timeout": 600.0,
            "watch": str(seen),
            "strategy": {
                "selector": given["selector"],
                "cohort": given["cohort"],
                "seed": SEED,
                "clients": given["nodes"],
                "wait": 300.0,
                "out": str(folder / "run"),
                "options": {"selector.refresh": given["refresh"], "local.steps": 5, "local.batch": 1},
            },
        }

        def moments() -> list[dict[str, Any]]:
            return [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []

        with engine(folder, Path(sys.executable).parent) as flwr:
            run = flwr.run(app.write(folder, plan), virtual=given["nodes"])
            flwr.wait(run, 3600, lambda: len(moments()) > given["rounds"])
        history = read_run(folder / "run").history
        if any(record["missing"] or record["reachable"] != given["nodes"] for record in history):
            raise HcsfedError("some of the virtual nodes did not answer: the machine is too busy for this")
        return figures(history, moments())


def figures(history: Sequence[dict[str, Any]], moments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """From the rounds' own records and from the moments at which they ended."""
    seconds = [after["at"] - before["at"] for before, after in pairwise(moments)]
    ours = [sum(record["seconds"].get(stage, 0.0) for stage in ("select", "aggregate")) for record in history]
    memory = [moment["rss"] for moment in moments[1:]]
    share = sum(ours[1:]) / sum(seconds[1:])  # the first round loads, compiles and fills caches
    half = len(memory) // 2
    growth = max(memory[half:]) / max(memory[1:half]) - 1
    return {
        "seconds": [round(each, 3) for each in seconds],
        "select_and_aggregate": [round(each, 5) for each in ours],
        "memory": memory,
        "share": share,
        "growth": growth,
        "reached": {"share": share < SHARE, "growth": growth < GROWTH},
        "wire": [{"up": record["wire"]["up"], "down": record["wire"]["down"]} for record in history],
        "ledger": [{"up": record["upload_bytes"], "down": record["download_bytes"]} for record in history],
    }


def told(found: dict[str, Any]) -> list[str]:
    """The figures as lines for people."""
    first, last = (found["memory"][k] / 2**20 for k in (1, -1))
    later = sorted(found["seconds"][1:])
    who = f"{found['nodes']:,} virtual nodes, cohort {found['cohort']}, {found['selector']} {found['refresh']}"
    verdict = {name: "reached" if reached else "missed" for name, reached in found["reached"].items()}
    return [
        f"{who}: round 1 {found['seconds'][0]:.1f} s, median of the others {later[len(later) // 2]:.2f} s",
        f"selection and aggregation: {100 * found['share']:.2f} % of the rounds after the first "
        f"(target below {100 * SHARE:.0f} %: {verdict['share']})",
        f"server's memory: {first:.0f} MiB after round 2, {last:.0f} MiB after the last; second half over first "
        f"{100 * found['growth']:+.1f} % (target below {100 * GROWTH:.0f} %: {verdict['growth']})",
    ]
