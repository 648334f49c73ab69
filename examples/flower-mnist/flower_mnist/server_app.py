"""The server: hcsfed's strategy where Flower's FedAvg would stand."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from flower_mnist import task
from hcsfed.flower import Strategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """All rounds, the model judged after each."""
    torch.set_num_threads(1)
    config = context.run_config
    seed, clients = int(config["seed"]), int(config["clients"])
    federation = task.shares(str(config["data"]), clients, seed)
    model = task.build(federation, seed)
    x, y = task.tensors(federation, federation.test_x, federation.test_y)

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = task.test(model, x, y)
        print(f"round {server_round}: test accuracy {accuracy:.3f}", flush=True)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    strategy = Strategy(
        str(config["selector"]),
        cohort=int(config["cohort"]),
        seed=seed,
        clients=clients,
        deadline=float(config["deadline"]),
        out=str(config["out"]) or None,
        keys=str(config["keys"]) or None,
        options={"selector.refresh": str(config["refresh"])},
    )
    strategy.start(
        grid, ArrayRecord(model.state_dict()), num_rounds=int(config["num-server-rounds"]), evaluate_fn=evaluate
    )
