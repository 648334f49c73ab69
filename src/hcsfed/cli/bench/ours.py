"""Our side of ``hcsfed bench engine``, in a process of its own: ``python -m hcsfed.cli.bench.ours FOLDER``.

It writes the task's folder, from which everyone trains, and then answers like a peer (``benchmarks/protocol.py``), for
several engines: the backend that hcsfed picks, others that it can be told to take, whole rounds, and the roofline.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hcsfed.cli.bench.figures import LOOP, MODELS, OURS, ROUND, SGEMM, VMAP, flops
from hcsfed.cli.bench.task import store
from hcsfed.clients import LocalTraining, Trainer, build_module, make_trainer
from hcsfed.clients.vmapped import VmapTrainer
from hcsfed.data import load
from hcsfed.simulate import simulate
from hcsfed.types import Federation, Ints

CLIENTS, SIZE = 100, 2048
SLICE = 0.2  # as in the peers' protocol
WORK = LocalTraining(steps=50, batch=50, lr=0.01)
CNN_WORK = LocalTraining(steps=10, batch=50, lr=0.01)
BACKENDS = {OURS: "auto", LOOP: "loop"}

Round = Callable[[], torch.Tensor]


class Engines:
    """Everything that can be asked for, made once."""

    def __init__(self) -> None:
        self.federation = load("mnist", partition="shard", clients=CLIENTS)
        self.images = coloured(np.random.default_rng(0), clients=10, size=500)
        self._trainers: dict[tuple[str, str], Trainer] = {}
        self._square = torch.randn(SIZE, SIZE)
        self._cnn_flops: int | None = None

    def trainer(self, engine: str, model: str) -> Trainer:
        key = engine, model
        if key not in self._trainers:
            federation, work = (self.images, CNN_WORK) if model == "cnn" else (self.federation, WORK)
            if engine == VMAP:  # which hcsfed would take for another small module, but not for this one
                trainer: Trainer = VmapTrainer(federation, build_module(federation, model, 0), work, seed=0)
            else:
                trainer = make_trainer(federation, model, work, seed=0, backend=BACKENDS[engine])
            self._trainers[key] = trainer
        return self._trainers[key]

    def seconds(self, engine: str, model: str, ids: Ints) -> tuple[float, Round]:
        """One round, and how to read its averaged model."""
        if engine == SGEMM:
            return self.operations(model, len(ids)) / self._rate(), lambda: torch.zeros(0)
        if engine == ROUND:
            ends: list[float] = []
            simulate(
                self.federation, model=model, selector="random", cohort=len(ids), rounds=9, eval_every=1,
                listeners=(lambda _: ends.append(time.perf_counter()),),
            )  # fmt: skip
            return float(np.median(np.diff(ends))), lambda: torch.zeros(0)
        trainer = self.trainer(engine, model)
        start = trainer.initial()
        began = time.perf_counter()
        chunks = list(trainer.train(start, ids, 0))  # every client's update is there in full
        seconds = time.perf_counter() - began
        return seconds, lambda: start + torch.cat([chunk.vectors for chunk in chunks]).mean(dim=0)

    def _rate(self) -> float:
        """Operations a second of a large product, by PyTorch's library or by NumPy's, whichever is faster here."""
        array, rates = self._square.numpy(), []
        for product in (lambda: torch.mm(self._square, self._square), lambda: array @ array):
            began = time.perf_counter()
            product()
            rates.append(2 * SIZE**3 / (time.perf_counter() - began))
        return max(rates)

    def operations(self, model: str, clients: int) -> int:
        """Floating-point operations of a round by the direct algorithm."""
        if model != "cnn":
            return flops(MODELS[model], clients * WORK.steps * WORK.batch)
        if self._cnn_flops is None:
            self._cnn_flops = counted(self.images)
        return clients * CNN_WORK.steps * self._cnn_flops


def coloured(rng: np.random.Generator, clients: int, size: int) -> Federation:
    """Noise in the shape of CIFAR-10: convolutions cost the same whatever they look at."""
    rows = clients * size
    x = rng.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8)
    y = rng.integers(0, 10, rows)
    return Federation(
        "noise", x, y, np.arange(0, rows + 1, size), x[:10], y[:10], np.full(clients, 1 / clients), 10, scale=1 / 255
    )


def counted(images: Federation) -> int:
    """What PyTorch counts for one step of the convolutional model: matrix products and convolutions, both ways."""
    from torch.utils.flop_counter import FlopCounterMode

    module = build_module(images, "cnn", 0)
    x = torch.from_numpy(images.x[: CNN_WORK.batch]).float()
    with FlopCounterMode(display=False) as counter:
        loss = torch.nn.functional.cross_entropy(module(x), torch.from_numpy(images.y[: CNN_WORK.batch]))
        torch.autograd.backward(loss)
    return int(counter.get_total_flops())


def layers(model: str, vector: torch.Tensor) -> list[np.ndarray[Any, Any]]:
    """A parameter vector as weight [out, in] and bias [out], layer by layer."""
    widths, parts, at = MODELS[model], [], 0
    for ins, outs in pairwise(widths):
        for shape in ((outs, ins), (outs,)):
            count = int(np.prod(shape))
            parts.append(vector[at : at + count].numpy().reshape(shape))
            at += count
    return parts


def write(folder: Path, engines: Engines) -> None:
    """The folder that everyone reads."""
    federation = engines.federation
    for name, array in {
        "x": federation.x, "y": federation.y, "offsets": federation.offsets,
        "test_x": federation.test_x, "test_y": federation.test_y,
    }.items():  # fmt: skip
        np.save(folder / f"{name}.npy", array)
    for model in MODELS:
        store(folder / f"{model}.npz", layers(model, engines.trainer(OURS, model).initial()))
    about = {
        "steps": WORK.steps, "batch": WORK.batch, "lr": WORK.lr, "scale": federation.scale, "shift": federation.shift,
        "clients": federation.clients, "classes": federation.classes,
    }  # fmt: skip
    (folder / "task.json").write_text(json.dumps(about))


def main() -> None:
    mouth = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(os.cpu_count() or 1)
    engines = Engines()
    write(Path(sys.argv[1]), engines)
    versions = {name: version(name) for name in ("hcsfed", "torch", "numpy", "numba")}
    mouth.write(json.dumps({"ready": True, "versions": versions}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        ids = np.asarray(request["ids"], np.int64)
        seconds: list[float] = []
        began = time.perf_counter()
        while time.perf_counter() - began < SLICE or not seconds:
            took, result = engines.seconds(request["engine"], request["model"], ids)
            seconds.append(took)
        if request["save"]:
            store(Path(request["save"]), layers(request["model"], result()))
        mouth.write(json.dumps({"seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
