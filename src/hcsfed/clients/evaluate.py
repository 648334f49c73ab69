"""Losses and accuracies of one parameter vector, in evaluation mode, on the test set or on each client's own rows."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from hcsfed.clients.chunks import Chunks
from hcsfed.clients.layout import Layout
from hcsfed.clients.objective import RowLoss, hits
from hcsfed.clients.rows import Rows
from hcsfed.types import Federation, Floats, Ints

_HELD_BYTES = 1 << 28  # a converted test set up to this size is kept for the next round
_ROWS = 2_000  # rows at a time
_BLOCK = 1 << 16  # rows whose scores are held at a time


class Evaluator:
    """Applies a model to rows it does not train on."""

    def __init__(
        self,
        federation: Federation,
        module: nn.Module,
        layout: Layout,
        rows: Rows,
        loss: RowLoss,
        precision: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._federation = federation
        self._module = copy.deepcopy(module).eval()
        self._layout = layout
        self._rows = rows
        self._loss = loss
        self._precision = precision
        self._chunks = Chunks(_ROWS)
        self._held: tuple[NDArray[Any], NDArray[Any], torch.Tensor, torch.Tensor] | None = None

    def evaluate(self, parameters: torch.Tensor, x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        """Mean loss and accuracy (NaN for regression) over these rows."""
        held = self._kept(x, y)

        def rows(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
            return (held[0][part], held[1][part]) if held else self._rows.convert(x[part], y[part])

        sums = sum(scores.sum(1) for scores in self._scores(parameters, len(x), rows))
        loss, accuracy = (np.full(2, np.nan) if isinstance(sums, int) else sums / len(x)).tolist()
        return loss, accuracy

    def local_scores(self, parameters: torch.Tensor, ids: Ints) -> tuple[Floats, Floats]:
        """Mean loss and accuracy of the same parameters on each client's own rows."""
        ids = np.asarray(ids, np.int64)
        sizes = self._federation.sizes[ids]
        block = (np.cumsum(sizes) - sizes) // _BLOCK  # neighbours that are scored together
        cuts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(ids)]
        parts = [self._block(parameters, ids[a:b], sizes[a:b]) for a, b in itertools.pairwise(cuts) if b > a]
        losses, accuracies = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0))
        return losses, accuracies

    def _block(self, parameters: torch.Tensor, ids: Ints, sizes: Ints) -> Floats:
        first = np.cumsum(sizes) - sizes
        index = np.arange(sizes.sum()) + np.repeat(self._federation.offsets[ids] - first, sizes)
        numbers = torch.from_numpy(index).to(self._rows.device)
        scores = self._scores(parameters, len(index), lambda part: self._rows.take(numbers[part]))
        means: Floats = np.add.reduceat(np.concatenate(list(scores), axis=1), first, axis=1) / sizes
        return means

    def _scores(
        self, parameters: torch.Tensor, count: int, rows: Callable[[slice], tuple[torch.Tensor, torch.Tensor]]
    ) -> Iterator[Floats]:
        """float64[2, rows], losses and hits, a chunk at a time."""
        vector = parameters.detach().to(self._rows.device)
        state = {**self._layout.parameter_views(vector), **self._layout.buffer_views(vector)}

        def score(part: slice) -> Floats:
            x, y = rows(part)
            with torch.inference_mode(), self._precision():
                outputs = functional_call(self._module, state, (x,))
                right = hits(outputs, y) if self._rows.labels else torch.full((len(x),), torch.nan)
                both = torch.stack([self._loss(outputs, y).float(), right.to(outputs.device)])
            return both.double().cpu().numpy()

        return (scores for _, scores in self._chunks.over(count, score))

    def _kept(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The rows as the model reads them, kept for the next call on the same arrays; None where too large."""
        if self._held is None or self._held[0] is not x or self._held[1] is not y:
            self._held = None
            if 0 < 4 * x.size <= _HELD_BYTES:
                self._held = x, y, *self._rows.convert(x, y)
        return self._held[2:] if self._held else None
