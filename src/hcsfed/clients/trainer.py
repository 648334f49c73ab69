"""What all PyTorch ways of local training share: the parameter vector, the rows, the walk over chunks, evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hcsfed.clients.chunks import Chunks, fitting
from hcsfed.clients.contract import LocalTraining, Updates, steps_of
from hcsfed.clients.dropout import CountedDropout, counted, step_keys
from hcsfed.clients.evaluate import Evaluator
from hcsfed.clients.layout import Layout
from hcsfed.clients.objective import RowLoss, row_loss
from hcsfed.clients.plan import Plan, plan
from hcsfed.clients.probe import Traits, probe
from hcsfed.clients.rows import Rows, numbers
from hcsfed.errors import DataError, SettingError
from hcsfed.types import Federation, Floats, Ints


@dataclass(frozen=True, eq=False)
class Task:
    """What one chunk of clients is to do.

    Parameters
    ----------
    plan
        Their minibatches.
    rows
        int64[clients, steps, batch], the plan's rows as numbers of packed rows.
    keys
        int64[clients, steps], what their dropout masks are hashed from.
    lr
        The rate of this round.
    correction
        float32[clients, trainable], added to every gradient; or None.
    """

    ids: Ints
    plan: Plan
    rows: torch.Tensor
    keys: torch.Tensor
    lr: float
    correction: torch.Tensor | None

    def __len__(self) -> int:
        return len(self.ids)


class TorchTrainer(ABC):
    """A :class:`~hcsfed.clients.contract.Trainer` whose ``_train`` is still to be said.

    Parameters
    ----------
    module
        Trained from its parameters as they stand; a copy is taken.
    dtype
        ``bfloat16``: products in bfloat16 where PyTorch's autocast deems that safe; parameters stay float32.
    loss
        (outputs, targets) → one loss per row; by default cross-entropy, or half the squared error for regression.
    chunk
        Clients at a time; None: from the free memory.
    """

    engine: ClassVar[str]
    widest: ClassVar[int]
    """No more clients at a time than this, on CPU; more would only leave the caches."""

    def __init__(
        self,
        federation: Federation,
        module: nn.Module,
        work: LocalTraining,
        *,
        seed: int,
        device: torch.device | None = None,
        dtype: str = "float32",
        loss: RowLoss | None = None,
        chunk: int | None = None,
    ) -> None:
        self.device = device or torch.device("cpu")
        self.federation = federation
        self.work = work
        self.seed = seed
        self.module = counted(module).to(self.device).train()
        self.loss = loss or row_loss(federation.task)
        self.rows = Rows(federation, self.module, self.device)
        self._dropouts = [m for m in self.module.modules() if isinstance(m, CountedDropout)]
        self.traits = probe(self.module, self.loss, self.rows, self._seeded)
        if loss is None:
            _check_outputs(federation, self.module, self.traits)
        self.layout = Layout.of(self.module)
        if not self.layout.trainable:
            raise SettingError(f"model {type(module).__name__} must have parameters that can be trained, it has none")
        self.dimension = self.layout.dimension
        self._low = dtype == "bfloat16"
        self._start = self.layout.flatten(self.module)
        self._counters = {n: b.clone() for n, b in self.module.named_buffers() if not b.is_floating_point()}
        self._evaluator = Evaluator(federation, self.module, self.layout, self.rows, self.loss, self._precision)
        self._chunks = Chunks(chunk) if chunk else None

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
        ids = np.asarray(ids, np.int64)
        sizes = self.federation.sizes[ids]
        steps = steps_of(self.work, sizes) if steps is None else np.asarray(steps, np.int64)
        start = parameters.detach().to(self.device)
        if self._chunks is None and len(ids):
            most = self.widest if self.device.type == "cpu" else 1 << 30
            self._chunks = Chunks(fitting(self._bytes_per_client(int(steps.max())), self.device, most))

        def compute(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
            fixes = None if correction is None else correction[part, : self.layout.trainable].to(self.device)
            return self._train(start, self._task(ids[part], round, steps[part], fixes))

        for part, (vectors, losses) in self._chunks.over(len(ids), compute) if self._chunks else ():
            yield Updates(ids[part], vectors, losses.double().cpu().numpy(), steps[part])

    def evaluate(self, parameters: torch.Tensor, x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        return self._evaluator.evaluate(parameters, x, y)

    def local_losses(self, parameters: torch.Tensor, ids: Ints) -> Floats:
        return self._evaluator.local_scores(parameters, ids)[0]

    def local_accuracies(self, parameters: torch.Tensor, ids: Ints) -> Floats:
        return self._evaluator.local_scores(parameters, ids)[1]

    @abstractmethod
    def _train(self, start: torch.Tensor, task: Task) -> tuple[torch.Tensor, torch.Tensor]:
        """float32[clients, d] updates and float[clients] mean losses over the local steps."""

    def _bytes_per_client(self, steps: int) -> int:
        return 4 * self.dimension + 20 * steps * self.work.batch

    def _task(self, ids: Ints, round: int, steps: Ints, correction: torch.Tensor | None) -> Task:
        minibatches = plan(self.work, self.seed, round, ids, self.federation.sizes[ids], steps)
        masks = step_keys(self.seed, round, ids, int(steps.max(initial=0)))
        return Task(
            ids,
            minibatches,
            numbers(self.federation.offsets[ids], minibatches.rows).to(self.device),
            torch.from_numpy(masks).to(self.device),
            self.work.lr * self.work.lr_decay**round,
            correction,
        )

    def _mean_loss(self, x: torch.Tensor, y: torch.Tensor, client: int) -> torch.Tensor:
        """The loss of the module as it stands, over one minibatch."""
        try:
            with self._precision():
                return self.loss(self.module(x), y).mean()
        except ValueError as error:
            raise alone(error, client) from error

    def _seed(self, key: torch.Tensor) -> None:
        """Make all that is random in one step of one client a function of its key: call inside ``_seeded``."""
        for layer in self._dropouts:
            layer.key.copy_(key)
        number = int(key) & 2**63 - 1  # for modules that draw from the global generator
        torch.default_generator.manual_seed(number)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(number)

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """A stretch in which the global generator is ours, seeded; it is given back as it was."""
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            self._seed(torch.tensor(self.seed))
            yield

    def _reset_counters(self) -> None:
        """Whole-number buffers start every client as the module had them."""
        for name, buffer in self.module.named_buffers():
            if name in self._counters:
                buffer.copy_(self._counters[name])

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self._low, cache_enabled=False)


def alone(error: ValueError, client: int) -> Exception:
    """Batch-norm refuses a minibatch of one row; say whose it was."""
    if "more than 1 value per channel" not in str(error):
        return error
    return DataError(
        f"batch-norm can't train on a minibatch of one row, which client {client} has; use group or layer "
        "normalisation, or leave such clients out"
    )


def _check_outputs(federation: Federation, module: nn.Module, traits: Traits) -> None:
    targets = federation.y.shape[1:]
    if federation.task == "classification":
        fits = len(traits.outputs) == len(targets) + 1 and traits.outputs[-1] >= federation.classes
        fits = fits and traits.outputs[:-1] == targets
        wanted = (*targets, federation.classes)
    else:
        fits, wanted = prod(traits.outputs) == prod(targets), targets
    if not fits:
        raise SettingError(
            f"outputs of model {type(module).__name__} must have shape {wanted} for a row of {federation.name}, "
            f"got {traits.outputs}"
        )
