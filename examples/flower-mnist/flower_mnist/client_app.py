"""The client: an ordinary Flower app. The one line that hcsfed needs is ``mods=[hcsfed_mod(...)]``."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from flower_mnist import task
from hcsfed.flower import hcsfed_mod
from hcsfed.types import Federation


def mine(context: Context) -> tuple[Federation, int]:
    """The federation, and which share of it this node holds."""
    config, node = context.run_config, context.node_config
    federation = task.shares(str(config["data"]), int(node["num-partitions"]), int(config["seed"]))
    return federation, int(node["partition-id"])


def examples(context: Context) -> int:
    """How many rows this node holds, by which it is weighed."""
    federation, k = mine(context)
    return int(federation.sizes[k])


app = ClientApp(mods=[hcsfed_mod(examples=examples)])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Take the model, train it, send it back: as in any Flower app."""
    torch.set_num_threads(1)
    config, (federation, k) = context.run_config, mine(context)
    model = task.build(federation)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = task.tensors(federation, *federation.client(k))
    draw = 1000 * int(message.content["config"]["server-round"]) + k
    loss = task.train(model, x, y, int(config["local-steps"]), int(config["batch-size"]), float(config["lr"]), draw)
    metrics = MetricRecord({"num-examples": len(x), "num-steps": int(config["local-steps"]), "train_loss": loss})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
