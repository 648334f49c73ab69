"""A few classes per client, no row twice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.partition import Partition, check_clients, class_rows, offsets_of
from hcsfed.data.sizes import check_samples
from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Bools, Ints

PAPER_SAMPLES = 500


def shard(
    labels: NDArray[Any],
    clients: int,
    *,
    seed: int,
    classes_per_client: int = 1,
    samples_per_client: int | None = None,
) -> Partition:
    """Give every client rows of k classes, the same number of each, and no row to two clients.

    With ``classes_per_client=1`` and N = 100 this is the paper's non-IID MNIST: ten clients a class, 500 images each.
    Two classes a client is the set-up of McMahan et al., AISTATS 2017.

    The N·k places are spread over the C classes as evenly as they go: every class stands at ⌊N·k/C⌋ or ⌈N·k/C⌉ clients,
    and which classes stand at one more is drawn. Clients are numbered in the order of their classes.

    Parameters
    ----------
    classes_per_client
        k. Where it does not divide ``samples_per_client``, a client's first classes have one row more.
    samples_per_client
        Rows of each client; by default 500, or as many as the rarest class allows.
    """
    owner = "partition 'shard'"
    clients = check_clients(clients, owner, len(labels))
    rng = stream(seed, "partition shard")
    rows = class_rows(labels, owner, rng)
    k = classes_per_client
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= len(rows):
        raise bad("classes_per_client", owner, f"an int in [1, {len(rows)}], the number of classes", k)
    holds = _deal_classes(clients, int(k), len(rows), rng)
    stock = np.array([len(r) for r in rows])
    most = int(k * (stock // np.maximum(holds.sum(0), 1))[holds.any(0)].min())
    samples = min(PAPER_SAMPLES, most) if samples_per_client is None else check_samples(samples_per_client, owner)
    if samples < k:
        remedy = f"the rarest class allows {most}: take fewer clients" if most < k else ""
        raise bad("samples_per_client", owner, f"at least classes_per_client = {k}", samples, remedy)
    need = _rows_of_each(holds, samples)
    if (need.sum(0) > stock).any():
        raise bad("samples_per_client", owner, f"an int in [{k}, {most}] for {clients} clients of {k} classes", samples)
    return _take(need, rows)


def _deal_classes(clients: int, k: int, classes: int, rng: np.random.Generator) -> Bools:
    """N × classes: who holds what. Every client takes the k classes with the most places left, ties drawn."""
    left = np.full(classes, clients * k // classes)
    left[rng.permutation(classes)[: clients * k % classes]] += 1
    holds = np.zeros((clients, classes), bool)
    for client in range(clients):
        # Places left differ by at most one at any time, so k classes with a place left always remain.
        taken = np.lexsort((rng.random(classes), -left))[:k]
        holds[client, taken] = True
        left[taken] -= 1
    return holds[np.lexsort(~holds.T[::-1])]


def _rows_of_each(holds: Bools, samples: int) -> Ints:
    """N × classes: how many rows."""
    k = int(holds[0].sum())
    nth = np.cumsum(holds, axis=1) - 1
    return np.where(holds, samples // k + (nth < samples % k), 0).astype(np.int64)


def _take(need: Ints, rows: list[Ints]) -> Partition:
    """Hand out the rows of each class from the top."""
    ends = np.cumsum(need, axis=0)
    index = [
        rows[c][ends[client, c] - need[client, c] : ends[client, c]]
        for client in range(len(need))
        for c in np.flatnonzero(need[client])
    ]
    return Partition(np.concatenate(index), offsets_of(need.sum(1)))
