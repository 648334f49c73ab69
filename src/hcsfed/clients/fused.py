"""The fast path on CPU for linear models and stacks of Linear and ReLU: one client at a time on each core, compiled.

A client's whole round is one call (:func:`hcsfed.clients.fused_steps.train_one`) that holds no Python lock, so plain threads
share the clients out, the next one to whoever is free. A client's numbers depend on neither the threads nor the others.
No thread outlives a call: forked processes and other threads may train at the same time.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hcsfed.clients.contract import LocalTraining, Updates, steps_of
from hcsfed.clients.fused_steps import pack, padded, score, train_one
from hcsfed.errors import DataError
from hcsfed.rng import keys
from hcsfed.types import Federation, Floats, Ints

_CHUNK = 1 << 26  # floats of updates held at a time
_BLOCK = 512  # rows that one thread evaluates before it asks for more


def supports(module: nn.Module, federation: Federation, work: LocalTraining, device: torch.device) -> bool:
    """Whether the fused kernels compute just what this module, these rows and this work mean."""
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
        and len({id(p) for p in linears}) == len(linears)
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
    """Trains the clients of a federation for which :func:`supports` is true. See :class:`hcsfed.clients.contract.Trainer`."""

    device = torch.device("cpu")
    engine: ClassVar[str] = "fused"

    def __init__(self, federation: Federation, module: nn.Module, work: LocalTraining, *, seed: int) -> None:
        layers = _linears(module)
        if layers is None:
            raise DataError(f"the fused kernels train stacks of Linear and ReLU, got {type(module).__name__}")
        self.work = work
        self.seed = seed
        self._federation = federation
        self._shape = _shape(layers)
        self._start = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
        self.dimension = len(self._start)
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
        work, offsets = self.work, self._federation.offsets
        ids = np.asarray(ids, np.int64)
        steps = steps_of(work, self._federation.sizes[ids]) if steps is None else np.asarray(steps, np.int64)
        lr = work.lr * work.lr_decay**round
        keep = np.float32(1 - lr * (work.weight_decay + work.mu))
        walk = work.epochs > 0 or work.draw == "permutation"
        client_keys = keys(self.seed, "minibatch", round, ids)
        vector = parameters.detach().numpy()
        origin = self._padded(vector)
        pull = lr * work.mu * vector if work.mu else None
        fixes = None if correction is None else correction.detach().numpy()
        everyone = np.zeros(0, np.float32) if pull is None else self._padded(pull)
        size = max(1, _CHUNK // self.dimension)
        for first in range(0, len(ids), size):
            chunk = slice(first, min(first + size, len(ids)))
            vectors = torch.empty(chunk.stop - first, self.dimension)
            out, losses = vectors.numpy(), np.zeros(len(vectors))

            def one(i: int, first: int = first, out: Any = out, losses: Floats = losses) -> None:
                k = ids[first + i]
                rows = slice(offsets[k], offsets[k + 1])
                drift = everyone
                if fixes is not None:
                    push = -lr * fixes[first + i]
                    drift = self._padded(push if pull is None else pull + push)
                losses[i] = train_one(
                    self._x[rows], self._y[rows], *self._affine, client_keys[first + i], steps[first + i],
                    work.batch, walk, lr, keep, drift, origin, self._shape, out[i],
                )  # fmt: skip

            _share(one, len(vectors))
            yield Updates(ids[chunk], vectors, losses, steps[chunk])

    def evaluate(self, parameters: torch.Tensor, x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        x, y = self._rows(x, y)
        origin = self._padded(parameters.detach().numpy())
        starts = range(0, len(x), _BLOCK)
        sums = np.zeros((len(starts), 2))

        def one(i: int) -> None:
            rows = slice(starts[i], starts[i] + _BLOCK)
            sums[i] = score(x[rows], y[rows], *self._affine, origin, self._shape)

        _share(one, len(starts))
        loss, right = sums.sum(axis=0)
        return float(loss / len(x)), float(right / len(x))

    def local_losses(self, parameters: torch.Tensor, ids: Ints) -> Floats:
        offsets = self._federation.offsets
        origin = self._padded(parameters.detach().numpy())
        losses = np.zeros(len(ids))

        def one(i: int) -> None:
            rows = slice(offsets[ids[i]], offsets[ids[i] + 1])
            total, _ = score(self._x[rows], self._y[rows], *self._affine, origin, self._shape)
            losses[i] = total / (rows.stop - rows.start)

        _share(one, len(ids))
        return losses

    def _rows(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Flat rows and their labels, as the kernels read them: without any check."""
        kind = np.uint8 if x.dtype == np.uint8 else np.float32
        x = np.ascontiguousarray(x, kind).reshape(len(x), -1)
        y = np.ascontiguousarray(y, np.int64)
        ins, outs = int(self._shape[0, 0]), int(self._shape[-1, 1])
        if x.shape[1] != ins or y.shape != (len(x),):
            raise DataError(f"a model of {ins} inputs needs rows of {ins} entries with one label each, got {x.shape}")
        if len(y) and not 0 <= y.min() <= y.max() < outs:
            raise DataError(f"labels must be in [0, {outs - 1}], got {y.min()} … {y.max()}")
        return x, y

    def _padded(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        ins, outs, _, bias, _ = self._shape[-1]
        flat = np.zeros(bias + padded(outs), np.float32)
        pack(np.ascontiguousarray(vector, np.float32), self._shape, flat)
        return flat


def _shape(layers: list[nn.Linear]) -> Ints:
    """Where each layer stands in the padded parameters (see :mod:`hcsfed.clients.fused_steps`)."""
    rows, at = [], 0
    for layer in layers:
        bias = at + layer.out_features * padded(layer.in_features)
        rows.append((layer.in_features, layer.out_features, at, bias, int(layer.bias is not None)))
        at = bias + padded(layer.out_features)
    return np.array(rows, np.int64)


def _share(job: Callable[[int], None], count: int) -> None:
    """Do ``job(0) … job(count − 1)`` on as many threads as PyTorch would use; the caller's own is one of them."""
    turns = itertools.count()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not failures and (i := next(turns)) < count:
                job(i)
        except BaseException as failure:  # handed to the caller: a thread of its own has nobody to tell
            failures.append(failure)

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(min(torch.get_num_threads(), count) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
