"""How many clients are trained at once: as many as fit, and fewer when they turn out not to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import psutil
import torch

T = TypeVar("T")

_SHARE = 0.5  # of the free memory; the rest is for what was not foreseen


def free_bytes(device: torch.device) -> int:
    """Memory that can be had on the device now."""
    if device.type == "cuda":
        # What torch keeps for itself and does not use is free as well.
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    return int(psutil.virtual_memory().available)


def fitting(bytes_per_client: int, device: torch.device, at_most: int) -> int:
    """The number of clients, a power of two or ``at_most``, that should fit into the free memory."""
    fit = int(free_bytes(device) * _SHARE) // max(1, bytes_per_client)
    # Powers of two: a run and its repetition cut alike although a little more or less is free.
    return at_most if fit >= at_most else 1 << max(0, fit.bit_length() - 1)


def out_of_memory(error: BaseException) -> bool:
    """Whether a smaller chunk might have avoided this."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("can't allocate memory", "not enough memory", "CUDA out of memory")
    )


class Chunks:
    """Walks over clients a chunk at a time, with smaller chunks from the first one that did not fit."""

    def __init__(self, size: int) -> None:
        self.size = max(1, size)

    def over(self, count: int, compute: Callable[[slice], T]) -> Iterator[tuple[slice, T]]:
        """``compute(part)`` for consecutive parts of ``range(count)``."""
        at = 0
        while at < count:
            part = slice(at, min(at + self.size, count))
            result = self._attempt(part, compute)
            if result is not None:
                yield part, result
                at = part.stop

    def _attempt(self, part: slice, compute: Callable[[slice], T]) -> T | None:
        width = part.stop - part.start
        try:
            return compute(part)
        except (MemoryError, RuntimeError) as error:
            if width == 1 or not out_of_memory(error):
                raise
        # Outside the handler, so that the failed attempt's tensors are gone before the next one.
        self.size = width // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None
