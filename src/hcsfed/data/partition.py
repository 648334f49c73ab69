"""What a partition is: which row goes to which client, as pure index maths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hcsfed.errors import DataError, bad
from hcsfed.types import Ints


@dataclass(frozen=True, eq=False)
class Partition:
    """Client k holds rows ``index[offsets[k]:offsets[k+1]]`` of the set that is dealt out."""

    index: Ints
    offsets: Ints

    @property
    def clients(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Ints:
        return np.diff(self.offsets)

    def client(self, k: int) -> Ints:
        """The rows of client k."""
        return self.index[self.offsets[k] : self.offsets[k + 1]]


def offsets_of(sizes: ArrayLike) -> Ints:
    """Sizes n_k → where each client starts, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def from_lists(lists: Sequence[ArrayLike]) -> Partition:
    """One sequence of row numbers per client → a partition."""
    rows = [np.asarray(rows, np.int64).reshape(-1) for rows in lists]
    return Partition(np.concatenate(rows) if rows else np.zeros(0, np.int64), offsets_of([len(r) for r in rows]))


def check_clients(clients: object, owner: str, rows: int) -> int:
    """N must be a whole number of clients who can all have a row."""
    if isinstance(clients, bool) or not isinstance(clients, (int, np.integer)) or clients < 1:
        raise bad("clients", owner, "an int >= 1", clients)
    if clients > rows:
        raise bad("clients", owner, f"an int in [1, {rows}], the number of rows", int(clients))
    return int(clients)


def class_rows(labels: NDArray[Any], owner: str, rng: np.random.Generator) -> list[Ints]:
    """For each class that occurs, its rows in random order. Refuses labels that are not one class per row."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{owner} deals rows by their class, and these rows have no single class each "
            f"(labels are {labels.dtype}{list(labels.shape)}); use partition 'iid' or 'natural'"
        )
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    _, starts = np.unique(labels[order], return_index=True)
    return np.split(order.astype(np.int64), starts[1:])
