"""A random projection that is never written down: the count sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.features.contract import Context, encode_rows, float_bytes
from hcsfed.jit import compiled
from hcsfed.rng import keys
from hcsfed.types import Features


@dataclass(frozen=True)
class Sketch:
    """k sums of signed numbers: each parameter is added, with a random sign, to one random entry.

    ⟨Sx, Sy⟩ is ⟨x, y⟩ in the mean, with a variance of at most (‖x‖²‖y‖² + ⟨x, y⟩²)/k (Charikar, Chen & Farach-Colton,
    ICALP 2002; Weinberger et al., ICML 2009), so distances between clients survive. Entries and signs follow from the
    seed alone: vectors of different rounds are comparable, and the projection is linear, so that sums of updates have
    the sums of their sketches. Takes one pass over the update, and d bytes for the entries and signs.

    Parameters
    ----------
    size
        k, numbers that a client sends.
    """

    size: int = 64

    name: ClassVar[str] = "sketch"
    privacy: ClassVar[str] = "Shows k linear combinations of a client's update; whoever knows the seed knows which."

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 1 << 15:
            raise bad("size", self.name, f"an int in [1, {1 << 15}]", self.size)

    def encode(self, updates: Any, context: Context) -> Features:
        width = min(self.size, updates.shape[1])
        key = f"{self.name}-{width}-{updates.shape[1]}"
        if key not in context.memo:
            context.memo[key] = entries(updates.shape[1], width, context.seed)
        plan = context.memo[key]

        def encode(row: NDArray[np.float32]) -> NDArray[np.float64]:
            out = np.zeros(2 * width)
            compiled(_add)(np.ascontiguousarray(row), plan, out)
            return out[:width] - out[width:]

        return encode_rows(updates, width, encode)

    def nbytes(self, k: int) -> int:
        return float_bytes(k)


def entries(dimension: int, width: int, seed: int) -> NDArray[Any]:
    """Where each parameter is added: entry j for a plus, ``width + j`` for a minus."""
    plan = np.empty(dimension, np.min_scalar_type(2 * width - 1))
    for start in range(0, dimension, 1 << 20):
        at = np.arange(start, min(start + (1 << 20), dimension))
        # The high bits of the hash times 2k: even up to 2k/2⁶⁴.
        plan[at] = ((keys(seed, "sketch", 0, at) >> np.uint64(32)) * np.uint64(2 * width)) >> np.uint64(32)
    return plan


def _add(row: Any, plan: Any, out: Any) -> None:
    for i in range(len(row)):
        out[plan[i]] += row[i]
