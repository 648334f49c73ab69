"""The direction of an update, without its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hcsfed.features.contract import Context, blocks, float_bytes
from hcsfed.types import Features


@dataclass(frozen=True)
class Cosine:
    """u/‖u‖: squared distances are 2 − 2·cos of the angle between two updates. A zero update stays zero."""

    name: ClassVar[str] = "cosine"
    privacy: ClassVar[str] = "Shows the whole update up to its length."

    def encode(self, updates: Any, context: Context) -> Features:
        out = np.empty(tuple(updates.shape), np.float32)
        for at, rows in blocks(updates):
            norms = np.linalg.norm(rows.astype(np.float64), axis=1)
            out[at] = rows / np.where(norms > 0, norms, 1)[:, None]
        return out

    def nbytes(self, k: int) -> int:
        return float_bytes(k)
