"""Flower's simulation engine: FedAvg through Ray, a core per client app, the client a plain PyTorch loop.

``run_simulation`` drives the same engine as ``flwr run``; here the ServerApp takes its orders from the harness. The
clock holds what ``FedAvg.start`` does in a round without evaluation: configure, send and receive, aggregate.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_HOME": os.environ.get("FLWR_HOME") or tempfile.mkdtemp(prefix="flwr-"),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

import numpy as np
import torch
from client import app, module
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from protocol import Parameters, Task, serve

FOLDER = sys.argv[1]

server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    task = Task.read(FOLDER)
    strategy = FedAvg(fraction_evaluate=0.0)
    nodes: dict[int, int] = {}  # client → node

    def messages(arrays: ArrayRecord, ids: list[int]) -> list[Message]:
        record = RecordDict({"arrays": arrays, "config": ConfigRecord({"server-round": 1})})
        to = [nodes[k] for k in ids] if nodes else list(grid.get_node_ids())
        return [Message(content=record, message_type="train", dst_node_id=node) for node in to]

    starts = {}
    for name in ("logistic", "mlp"):
        shapes = tuple(tuple(p.shape) for p in task.initial(name) if p.ndim == 2)
        keys = module(shapes).state_dict().keys()
        starts[name] = ArrayRecord({key: torch.from_numpy(p) for key, p in zip(keys, task.initial(name), strict=True)})
    while len(list(grid.get_node_ids())) < task.clients:
        time.sleep(0.1)
    # The start-up round: everyone once, which also tells which node is which client.
    for reply in grid.send_and_receive(messages(starts["logistic"], []), timeout=300):
        if reply.has_error():
            raise RuntimeError(f"a client app failed: {reply.error.reason}")
        nodes[int(reply.content["metrics"]["partition"])] = reply.metadata.src_node_id

    def round_of(name: str, ids: list[int]) -> tuple[float, Callable[[], Parameters]]:
        began = time.perf_counter()
        replies = grid.send_and_receive(messages(starts[name], ids), timeout=300)
        arrays, _ = strategy.aggregate_train(1, replies)
        seconds = time.perf_counter() - began
        if arrays is None:
            raise RuntimeError("no client answered")
        return seconds, lambda: [np.asarray(p) for p in arrays.to_numpy_ndarrays()]

    serve({"flwr": version("flwr"), "ray": version("ray"), "torch": torch.__version__}, round_of)


if __name__ == "__main__":
    os.environ["PEER_FOLDER"] = FOLDER
    cores = os.cpu_count() or 1
    run_simulation(
        server,
        app,
        num_supernodes=Task.read(FOLDER).clients,
        backend_config={
            "init_args": {"num_cpus": cores, "_node_ip_address": "127.0.0.1"},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
