"""The clients that the data came with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.partition import Partition, from_lists
from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Ints


def natural(labels: NDArray[Any], clients: int | None, *, seed: int, offsets: Ints) -> Partition:
    """Leave the rows with whom they belong; where fewer ``clients`` are asked for than there are, draw that many."""
    there = len(offsets) - 1
    if clients is None or clients == there:
        return Partition(np.arange(len(labels)), np.asarray(offsets, np.int64))
    if isinstance(clients, bool) or not isinstance(clients, (int, np.integer)) or not 1 <= clients < there:
        raise bad("clients", "partition 'natural'", f"an int in [1, {there}], the clients of the set", clients)
    chosen = np.sort(stream(seed, "partition natural").permutation(there)[:clients])
    return from_lists([np.arange(offsets[k], offsets[k + 1]) for k in chosen])
