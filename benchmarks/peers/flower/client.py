"""The client app: an ordinary PyTorch loop. A module of its own, so that Ray's processes import it by name."""

from __future__ import annotations

import os
from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from protocol import Task


@cache
def data() -> tuple[Task, torch.Tensor, torch.Tensor, list[int]]:
    """Read once in each of Ray's processes."""
    torch.set_num_threads(1)
    task = Task.read(os.environ["PEER_FOLDER"])
    x, y, offsets = task.rows()
    return task, torch.from_numpy(x), torch.from_numpy(y), offsets.tolist()


@cache
def module(shapes: tuple[tuple[int, int], ...]) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for out, into in shapes:
        layers += [torch.nn.Linear(into, out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """The steps of one client: minibatches walk through a new permutation of the rows in every epoch."""
    task, x, y, offsets = data()
    k = int(context.node_config["partition-id"])
    x, y = x[offsets[k] : offsets[k + 1]], y[offsets[k] : offsets[k + 1]]
    state = message.content["arrays"].to_torch_state_dict()
    net = module(tuple(tuple(p.shape) for p in state.values() if p.ndim == 2))
    net.load_state_dict(state)
    optimizer = torch.optim.SGD(net.parameters(), lr=task.lr)
    order, at = torch.randperm(len(x)), 0
    for _ in range(task.steps):
        if at >= len(x):
            order, at = torch.randperm(len(x)), 0
        rows = order[at : at + task.batch]
        at += task.batch
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
    answer = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"num-examples": len(x), "partition": k}),
    }
    return Message(content=RecordDict(answer), reply_to=message)
