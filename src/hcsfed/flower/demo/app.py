"""The Flower app that the demonstration runs: digits, one share a node, and a strategy of ours.

It is found by name where hcsfed is installed, so the bundle that Flower sends around holds its configuration alone.
"""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from hcsfed.data import load
from hcsfed.flower.handlers import client_app, evaluator, initial_arrays
from hcsfed.flower.strategy import Strategy
from hcsfed.types import Federation

PROJECT = """
[project]
name = "hcsfed-demo"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "hcsfed"

[tool.flwr.app.components]
serverapp = "hcsfed.flower.demo.app:server"
clientapp = "hcsfed.flower.demo.app:client"

[tool.flwr.app.config]
plan = {plan}
"""
FEW = 100


def write(folder: Path, plan: dict[str, Any]) -> Path:
    """The app's folder, as ``flwr run`` wants it."""
    app = folder / "app"
    app.mkdir(parents=True)
    (app / "pyproject.toml").write_text(PROJECT.format(plan=json.dumps(json.dumps(plan))), encoding="utf-8")
    return app


def plan_of(context: Context) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(str(context.run_config["plan"]))
    return plan


@cache
def shares(nodes: int, seed: int) -> Federation:
    """Who holds what: every node some classes more than others, as long as there are rows enough for that."""
    if nodes > FEW:
        return load("digits", clients=nodes, seed=seed, partition="iid")
    return load("digits", clients=nodes, seed=seed, partition="dirichlet", partition_options={"alpha": 0.5})


@cache
def clients(nodes: int, seed: int) -> ClientApp:
    return client_app(shares(nodes, seed))


def strategy(plan: dict[str, Any]) -> Strategy:
    """As the plan says; its ``strategy`` holds what :class:`~hcsfed.flower.Strategy` is given."""
    return Strategy(**plan["strategy"])


client = ClientApp()


@client.train()
@client.evaluate()
def serve(message: Message, context: Context) -> Message:
    """A node's answer to whatever it is asked."""
    plan = plan_of(context)
    return clients(plan["nodes"], plan["seed"])(message, context)


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and judge the model after each round."""
    plan = plan_of(context)
    train(grid, plan, strategy(plan))


def train(grid: Grid, plan: dict[str, Any], chosen: Strategy) -> ArrayRecord:
    """All rounds of the plan, on any grid; gives the model."""
    federation = shares(plan["nodes"], plan["seed"])
    start, judge = initial_arrays(federation, seed=plan["seed"]), evaluator(federation)

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        if plan.get("watch"):
            watch(Path(plan["watch"]))
        return judge(server_round, arrays)

    result = chosen.start(grid, start, num_rounds=plan["rounds"], timeout=plan["timeout"], evaluate_fn=evaluate)
    return result.arrays


def watch(path: Path) -> None:
    """Write down what time it is, and how much memory this process has."""
    import psutil

    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"at": time.time(), "rss": psutil.Process().memory_info().rss}) + "\n")
