"""Local training of many clients in one computation, for any module: ``torch.func`` maps the gradient over clients.

Clients take their steps side by side. Where they differ (minibatches of other sizes, fewer steps) short minibatches are
filled up with rows of weight 0, provided that the module treats every row for itself. A module that does not,
batch-norm above all, gets only those clients together whose minibatches are equally long, and no filling.

For fixed shapes the mapped gradient is traced once into plain tensor operations, which spares ``torch.func``'s own
work in every step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, grad_and_value, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from hcsfed.clients.dropout import key_names
from hcsfed.clients.sgd import descend
from hcsfed.clients.trainer import Task, TorchTrainer, alone

_RARE = 8  # steps; shapes that are seldom met are not worth a trace

Shapes = tuple[torch.Size, int]
State = dict[str, torch.Tensor]
Tensors = list[torch.Tensor]


class VmapTrainer(TorchTrainer):
    """Many clients at once by ``torch.func``."""

    engine: ClassVar[str] = "vmap"
    widest: ClassVar[int] = 20

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._keys = key_names(self.module)
        self._mapped = vmap(grad_and_value(self._weighted_loss), in_dims=(0, None, 0, 0, 0, 0))
        self._uses: Counter[Shapes] = Counter()
        self._traced: dict[Shapes, Callable[..., tuple[Tensors, torch.Tensor]]] = {}

    def _bytes_per_client(self, steps: int) -> int:
        copies = 5 + (self.work.momentum > 0)
        return 4 * copies * self.dimension + self.work.batch * (3 * self.traits.row_bytes + 20 * steps)

    def _train(self, start: torch.Tensor, task: Task) -> tuple[torch.Tensor, torch.Tensor]:
        train = self._side_by_side if self.traits.rows_apart else self._by_length
        with torch.no_grad():
            vectors = start.repeat(len(task), 1)
            try:
                losses = train(vectors, start, task)
            except ValueError as error:
                counts = np.where(task.plan.counts > 0, task.plan.counts, np.iinfo(np.int32).max)
                raise alone(error, task.ids[counts.min(axis=1).argmin()]) from error
            return vectors.sub_(start), losses / torch.from_numpy(task.plan.steps).to(self.device)

    # Modules that treat every row for itself

    def _side_by_side(self, vectors: torch.Tensor, start: torch.Tensor, task: Task) -> torch.Tensor:
        """All clients' steps in one stack, those who are done first standing last. Returns the summed losses."""
        plan = task.plan
        order = np.argsort(-plan.steps, kind="stable")
        place = torch.from_numpy(order).to(self.device)
        counts = plan.counts[order]
        rows, keys = task.rows[place], task.keys[place]
        correction = None if task.correction is None else task.correction[place]
        weights = torch.from_numpy(_row_weights(counts, rows.shape[2])).to(self.device)
        stack = _Stack(self, vectors, start, correction)
        sums = torch.zeros(len(task), device=self.device)
        for s in range(rows.shape[1]):
            active = int((plan.steps > s).sum())
            width, batch = _bucket(active, len(task)), _bucket(int(counts[:active, s].max()), rows.shape[2])
            x, y = self.rows.take(rows[:width, s, :batch])
            tensors = [t[:width] for t in stack.tensors]
            gradients, losses = self._step(
                tensors, self.layout.buffer_views(start), x, y, weights[:width, s, :batch], keys[:width, s]
            )
            sums[:width] += losses
            stack.descend([g[:active] for g in gradients], slice(0, active), task.lr)
        back = torch.argsort(place)  # all started alike, so only now it matters whose row is whose
        if plan.steps.min() < plan.steps.max():
            vectors.copy_(vectors[back])
        return sums[back]

    def _step(self, *inputs: Any) -> tuple[Tensors, torch.Tensor]:
        """Every client's gradient and minibatch loss; a client with weights of 0 has a gradient of 0."""
        tensors, _, x, *_ = inputs
        shapes = x.shape, len(tensors[0])
        self._uses[shapes] += 1
        if self._uses[shapes] <= _RARE:
            gradients, losses = self._mapped(*inputs)
            return gradients, losses
        if shapes not in self._traced:
            # A plain lambda: the tracer counts the parameters of what it is given, and `self` misleads it.
            self._traced[shapes] = make_fx(lambda *given: self._mapped(*given))(*inputs)
        return self._traced[shapes](*inputs)

    def _weighted_loss(
        self,
        tensors: Tensors,
        buffers: State,
        x: torch.Tensor,
        y: torch.Tensor,
        weight: torch.Tensor,
        key: torch.Tensor,
    ) -> torch.Tensor:
        outputs = self._apply(tensors, buffers | dict.fromkeys(self._keys, key), x)
        with self._precision():
            return (self.loss(outputs, y) * weight).sum()

    # Modules whose rows meet, or that change buffers as they train

    def _by_length(self, vectors: torch.Tensor, start: torch.Tensor, task: Task) -> torch.Tensor:
        """Each step once per length of minibatch, for those clients that have one of that length."""
        buffers = self.layout.buffer_views(vectors)
        buffers |= {n: b.expand(len(task), *b.shape).clone() for n, b in self._counters.items()}
        stack = _Stack(self, vectors, start, task.correction)
        sums = torch.zeros(len(task), device=self.device)
        mapped = vmap(grad_and_value(self._mean_loss_and_buffers, has_aux=True))
        for s in range(task.rows.shape[1]):
            counts = task.plan.counts[:, s]
            for count in np.unique(counts[counts > 0]):
                mine = torch.from_numpy(np.flatnonzero(counts == count)).to(self.device)
                x, y = self.rows.take(task.rows[mine, s, : int(count)])
                before = {n: b[mine] for n, b in buffers.items()} | dict.fromkeys(self._keys, task.keys[mine, s])
                gradients, (losses, after) = mapped([t[mine] for t in stack.tensors], before, x, y)
                for name, buffer in buffers.items():
                    buffer[mine] = after[name]
                sums[mine] += losses
                stack.descend(gradients, mine, task.lr)
        return sums

    def _mean_loss_and_buffers(
        self, tensors: Tensors, buffers: State, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, State]:
        outputs = self._apply(tensors, buffers, x)
        with self._precision():
            return self.loss(outputs, y).mean(), buffers

    def _apply(self, tensors: Tensors, buffers: State, x: torch.Tensor) -> torch.Tensor:
        state = {e.name: t for e, t in zip(self.layout.parameters, tensors, strict=True)} | buffers
        with self._precision():
            outputs: torch.Tensor = functional_call(self.module, state, (x,))
        return outputs


class _Stack:
    """The trainable tensors of a chunk, one row per client, on their way down."""

    def __init__(self, trainer: VmapTrainer, vectors: torch.Tensor, start: torch.Tensor, correction: Any) -> None:
        def views(v: torch.Tensor) -> Tensors:
            return list(trainer.layout.parameter_views(v).values())

        self._work = trainer.work
        self.tensors = views(vectors)
        self._origin = views(start)
        self._correction = None if correction is None else views(correction)
        self._velocity = [torch.zeros_like(t) for t in self.tensors] if self._work.momentum else None

    def descend(self, gradients: Tensors, who: slice | torch.Tensor, lr: float) -> None:
        """A step of these clients; the others stay where they are."""
        tensors = [t[who] for t in self.tensors]
        velocity = None if self._velocity is None else [v[who] for v in self._velocity]
        correction = None if self._correction is None else [c[who] for c in self._correction]
        descend(self._work, lr, tensors, gradients, origin=self._origin, correction=correction, velocity=velocity)
        if isinstance(who, torch.Tensor):  # then these were copies
            for whole, part in zip(
                [*self.tensors, *(self._velocity or ())], [*tensors, *(velocity or ())], strict=True
            ):
                whole[who] = part


def _row_weights(counts: NDArray[np.int32], batch: int) -> NDArray[np.float32]:
    """1/count for the rows of a minibatch, 0 for what fills it up."""
    filled = np.arange(batch) < counts[..., None]
    return (filled / np.maximum(counts, 1)[..., None]).astype(np.float32)


def _bucket(count: int, most: int) -> int:
    """The least of most, most/2, most/4, … that holds count: few shapes to trace, at most twice the work."""
    while most // 2 >= count and most > 1:
        most //= 2
    return most
