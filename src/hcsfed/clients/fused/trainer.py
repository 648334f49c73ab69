"""Clients shared out over threads, each trained in one compiled call.

A client's whole round is one call (:func:`hcsfed.clients.fused.kernel.train_one`) that does without Python's lock, so
plain threads will do: the next client goes to whoever is free. No thread outlives a call, and none of numba's or
OpenMP's is started: forked processes and several threads may train at the same time. A client's floats depend neither
on the other clients nor on the number of threads.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hcsfed.clients.contract import LocalTraining, Updates, steps_of
from hcsfed.clients.fused.kernel import score_each, train_one
from hcsfed.clients.fused.packing import pack, padded
from hcsfed.clients.layout import Layout
from hcsfed.errors import DataError
from hcsfed.rng import keys
from hcsfed.types import Federation, Floats, Ints

_TrainOne = Callable[[int, NDArray[np.float32]], float]

_CHUNK = 1 << 26  # floats of updates held at a time
_BLOCK = 512  # rows of a test set that one thread scores before it asks for more


def supports(module: nn.Module, federation: Federation, work: LocalTraining, device: torch.device) -> bool:
    """Whether the kernels compute just what this module, these rows and this work mean."""
    layers = _linears(module)
    x, y = federation.x, federation.y
    return (
        device.type == "cpu"
        and layers is not None
        and federation.task == "classification"
        and work.momentum == 0
        and x.dtype in (np.uint8, np.float32)
        and y.ndim == 1
        and y.dtype.kind in "iu"
        and int(np.prod(x.shape[1:])) == layers[0].in_features
        and federation.classes <= layers[-1].out_features
    )


def _linears(module: nn.Module) -> list[nn.Linear] | None:
    """The Linear layers of a stack Flatten? (Linear ReLU)* Linear; None for anything else."""
    parts = list(_leaves(module))
    if parts and type(parts[0]) is nn.Flatten and (parts[0].start_dim, parts[0].end_dim) == (1, -1):
        del parts[0]
    linears, between = parts[::2], parts[1::2]
    plain = (
        len(parts) % 2 == 1
        and all(type(p) is nn.Linear for p in linears)
        and all(type(p) is nn.ReLU for p in between)
        and len({id(w) for p in linears for w in p.parameters()}) == sum(len(list(p.parameters())) for p in linears)
        and all(w.requires_grad and w.dtype == torch.float32 for w in module.parameters())
        and not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in module.modules())
    )
    return [p for p in linears if isinstance(p, nn.Linear)] if plain else None


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    if type(module) is not nn.Sequential:
        yield module
        return
    for child in module:
        yield from _leaves(child)


class FusedTrainer:
    """Trains the clients of a federation for which :func:`supports` is true.

    See :class:`hcsfed.clients.contract.Trainer`. All settings but momentum are the kernel's own.
    """

    device = torch.device("cpu")
    engine: ClassVar[str] = "fused"

    def __init__(self, federation: Federation, module: nn.Module, work: LocalTraining, *, seed: int) -> None:
        layers = _linears(module)
        if layers is None:
            raise DataError(f"the fused kernels train stacks of Linear and ReLU, got {type(module).__name__}")
        self.work = work
        self.seed = seed
        self.layout = Layout.of(module)
        self.dimension = self.layout.dimension
        self._start = self.layout.flatten(module)
        self._shape = _shape(layers)
        self._offsets = np.asarray(federation.offsets, np.int64)
        self._x, self._y = self._rows(federation.x, federation.y)
        self._affine = (np.float32(federation.scale), np.float32(federation.shift))

    def initial(self) -> torch.Tensor:
        return self._start.clone()

    def train(
        self,
        parameters: torch.Tensor,
        ids: Ints,
        round: int,
        *,
        steps: Ints | None = None,
        correction: torch.Tensor | None = None,
    ) -> Iterator[Updates]:
        work, ids = self.work, np.asarray(ids, np.int64)
        starts, stops = self._offsets[ids], self._offsets[ids + 1]
        steps = steps_of(work, stops - starts) if steps is None else np.asarray(steps, np.int64)
        client_keys = keys(self.seed, "minibatch", round, ids)
        lr = work.lr * work.lr_decay**round
        walk = work.epochs > 0 or work.draw == "permutation"
        # w − η·(∇ + λ·w + μ·(w − w_0) + c) = keep · w + drift − η·∇
        vector = parameters.detach().numpy()
        origin = self._padded(vector)
        keep = np.float32(1 - lr * (work.weight_decay + work.mu))
        pull = lr * work.mu * vector
        shared = self._padded(pull) if work.mu else np.zeros(0, np.float32)
        fixes = None if correction is None else correction.detach().numpy()

        def one(i: int, update: NDArray[np.float32]) -> float:
            """Train client ``ids[i]``."""
            rows = slice(starts[i], stops[i])
            drift = shared if fixes is None else self._padded(pull - lr * fixes[i])
            loss: float = train_one(
                self._x[rows], self._y[rows], *self._affine, client_keys[i], steps[i], work.batch, walk,
                lr, keep, drift, origin, self._shape, update,
            )  # fmt: skip
            return loss

        size = max(1, _CHUNK // self.dimension)
        for first in range(0, len(ids), size):
            part = slice(first, min(first + size, len(ids)))
            vectors = torch.empty(part.stop - first, self.dimension)
            losses = np.empty(len(vectors))
            _share(partial(_fill, one, first, vectors.numpy(), losses), len(vectors))
            yield Updates(ids[part], vectors, losses, steps[part])

    def evaluate(self, parameters: torch.Tensor, x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        if not len(x):
            return np.nan, np.nan
        x, y = self._rows(x, y)
        cuts = np.append(np.arange(0, len(x), _BLOCK), len(x))
        loss, right = self._scores(parameters, x, y, cuts[:-1], cuts[1:]).sum(0) / len(x)
        return float(loss), float(right)

    def local_losses(self, parameters: torch.Tensor, ids: Ints) -> Floats:
        return self._local(parameters, ids)[:, 0]

    def local_accuracies(self, parameters: torch.Tensor, ids: Ints) -> Floats:
        return self._local(parameters, ids)[:, 1]

    def _local(self, parameters: torch.Tensor, ids: Ints) -> Floats:
        ids = np.asarray(ids, np.int64)
        starts, stops = self._offsets[ids], self._offsets[ids + 1]
        return self._scores(parameters, self._x, self._y, starts, stops) / (stops - starts)[:, None]

    def _scores(self, parameters: torch.Tensor, x: NDArray[Any], y: NDArray[Any], starts: Ints, stops: Ints) -> Floats:
        """Summed loss and number of right answers on rows ``starts[i]:stops[i]``."""
        flat = self._padded(parameters.detach().numpy())
        sums = np.empty((len(starts), 2))
        size = max(1, len(starts) // 64)

        def some(turn: int) -> None:
            part = slice(turn * size, (turn + 1) * size)
            score_each(x, y, starts[part], stops[part], *self._affine, flat, self._shape, sums[part])

        _share(some, -(-len(starts) // size))
        return sums

    def _rows(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Flat rows and their labels as the kernels read them: without looking whether a number is in its range."""
        kind = np.uint8 if x.dtype == np.uint8 else np.float32
        x = np.ascontiguousarray(x, kind).reshape(len(x), -1)
        y = np.ascontiguousarray(y, np.int64)
        ins, outs = int(self._shape[0, 0]), int(self._shape[-1, 1])
        if x.shape[1] != ins or y.shape != (len(x),):
            raise DataError(f"the model needs rows of {ins} entries with a label each, got {x.shape} and {y.shape}")
        if len(y) and not 0 <= y.min() <= y.max() < outs:
            raise DataError(f"labels must be in [0, {outs - 1}], got {y.min()} to {y.max()}")
        # Memory-mapped rows are read-only, which is a type of its own to numba: so all are, and are compiled for once.
        x, y = x.view(), y.view()
        x.flags.writeable = y.flags.writeable = False
        return x, y

    def _padded(self, vector: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        outs, bias = self._shape[-1, 1], self._shape[-1, 3]
        flat = np.zeros(bias + padded(outs), np.float32)
        pack(np.ascontiguousarray(vector, np.float32), self._shape, flat)
        return flat


def _fill(one: _TrainOne, first: int, updates: NDArray[np.float32], losses: Floats, i: int) -> None:
    losses[i] = one(first + i, updates[i])


def _shape(layers: list[nn.Linear]) -> Ints:
    """Where each layer stands in the padded parameters (see :mod:`hcsfed.clients.fused.packing`)."""
    rows, at = [], 0
    for layer in layers:
        bias = at + layer.out_features * padded(layer.in_features)
        rows.append((layer.in_features, layer.out_features, at, bias, int(layer.bias is not None)))
        at = bias + padded(layer.out_features)
    return np.array(rows, np.int64)


def _share(job: Callable[[int], None], count: int) -> None:
    """Do ``job(0)`` … ``job(count − 1)`` on as many threads as PyTorch would use; the caller's own is one of them."""
    turns = itertools.count()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not failures and (turn := next(turns)) < count:
                job(turn)
        except BaseException as failure:  # a helper has nobody to tell; the caller raises it
            failures.append(failure)

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(min(torch.get_num_threads(), count) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
