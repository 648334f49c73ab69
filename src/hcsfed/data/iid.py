"""Every client a random sample of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from hcsfed.data.partition import Partition, check_clients, offsets_of
from hcsfed.data.sizes import resolve_sizes
from hcsfed.rng import stream


def iid(
    labels: NDArray[Any],
    clients: int,
    *,
    seed: int,
    samples_per_client: int | None = None,
    sizes: str | Sequence[int] | None = None,
) -> Partition:
    """Shuffle the rows and deal them out, without replacement.

    By default every row is dealt and sizes differ by at most one.
    """
    owner, rows = "partition 'iid'", len(labels)
    clients = check_clients(clients, owner, rows)
    n = resolve_sizes(sizes, samples_per_client, clients, rows, owner)
    index = stream(seed, "partition iid").permutation(rows)[: n.sum()]
    return Partition(index, offsets_of(n))
