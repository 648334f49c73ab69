"""The class counts themselves: what other features guess at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.features.contract import Context, float_bytes
from hcsfed.types import Features


@dataclass(frozen=True)
class Labels:
    """The share of each class among a client's labels.

    Grouping clients by what they hold instead of what they learn (for example FedLECC, arXiv:2603.08911). Sent once,
    needs no training; says nothing of how far the model has got with a class.
    """

    name: ClassVar[str] = "labels"
    privacy: ClassVar[str] = "Reveals how many of its labels a client has of each class, exactly."

    def encode(self, updates: Any, context: Context) -> Features:
        if context.labels is None or context.labels.ndim != 2 or not context.labels.shape[1]:
            raise bad("context", "feature labels", "given with class counts", None)
        counts = context.labels.astype(np.float64)
        return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), np.float32)

    def nbytes(self, k: int) -> int:
        return float_bytes(k)
