"""pfl-research: its SimulatedBackend and FederatedAveraging, in one process or, with PEER_PROCESSES=2, in two."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise

import torch

from protocol import Parameters, Task, serve

PROCESSES = int(os.environ.get("PEER_PROCESSES", "1"))
RANK = int(os.environ.get("PFL_WORKER_RANK", "0"))


def second_process() -> subprocess.Popen[bytes] | None:
    """Start pfl's other worker, as its guide on several processes says: an address each, the first one leads."""
    if PROCESSES == 1 or RANK:
        return None
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    os.environ["PFL_WORKER_ADDRESSES"] = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    other = subprocess.Popen(
        [sys.executable, *sys.argv],
        env={**os.environ, "PFL_WORKER_RANK": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    os.environ["PFL_WORKER_RANK"] = "0"
    return other


class Module(torch.nn.Module):
    """The model with the two methods that pfl asks for."""

    def __init__(self, layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.train()
        return torch.nn.functional.cross_entropy(self.layers(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, object]:
        raise NotImplementedError("no evaluation stands in the timed round")


def main() -> None:
    other = second_process()
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByUser
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    if PROCESSES > 1:  # a core each; one process alone is left as PyTorch starts it
        torch.set_num_threads(1)
    task = Task.read(sys.argv[1])
    x, y, offsets = (torch.from_numpy(a) for a in task.rows())
    users = [PyTorchTensorDataset((x[a:b], y[a:b])) for a, b in pairwise(offsets)]
    rows = int(offsets[1])
    # pfl counts epochs, not steps: as many passes over a client's rows as make up the steps.
    work = NNTrainHyperParams(
        local_batch_size=task.batch,
        local_num_epochs=task.steps * task.batch // rows,
        local_learning_rate=task.lr,
    )
    queue: list[int] = []  # whom pfl's user sampler hands out next
    dataset = FederatedDataset(users.__getitem__, lambda: queue.pop(0))
    backend = SimulatedBackend(training_data=dataset, val_data=dataset, postprocessors=[WeightByUser()])
    models, starts = {}, {}
    for name in ("logistic", "mlp"):
        starts[name] = [torch.from_numpy(p) for p in task.initial(name)]
        shapes = [p.shape for p in starts[name] if p.ndim == 2]
        layers: list[torch.nn.Module] = []
        for out, into in shapes:
            layers += [torch.nn.Linear(into, out), torch.nn.ReLU()]
        module = Module(torch.nn.Sequential(*layers[:-1]))
        models[name] = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))

    def round_of(name: str, ids: list[int]) -> tuple[float, Callable[[], Parameters]]:
        if other is not None and other.stdin is not None:
            other.stdin.write(f'{{"model": "{name}", "ids": {ids}, "save": null, "once": true}}\n'.encode())
            other.stdin.flush()
        model = models[name]
        with torch.no_grad():
            for p, start in zip(model.pytorch_model.parameters(), starts[name], strict=True):
                p.copy_(start)
        queue[:] = ids
        # What `run` does in an iteration. Not in iteration 0: that one always evaluates, and evaluation is not timed.
        algorithm = FederatedAveraging()
        settings = NNAlgorithmParams(
            central_num_iterations=1, evaluation_frequency=10**9, train_cohort_size=len(ids), val_cohort_size=None
        )
        (context,), _, _ = algorithm.get_next_central_contexts(model, 2, settings, work)
        began = time.perf_counter()
        statistics, metrics = backend.gather_results(model, algorithm, central_context=context)
        algorithm.process_aggregated_statistics(context, metrics, model, statistics)
        seconds = time.perf_counter() - began
        return seconds, lambda: [p.detach().numpy().copy() for p in model.pytorch_model.parameters()]

    serve({"pfl": version("pfl"), "torch": torch.__version__, "processes": str(PROCESSES)}, round_of)
    if other is not None and other.stdin is not None:
        other.stdin.close()
        other.wait()


if __name__ == "__main__":
    main()
