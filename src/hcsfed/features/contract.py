"""What a feature is: a client's update made short, so that the server can compare clients before it picks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hcsfed.types import Features, Ints

_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class Context:
    """What every client has anyway before it encodes, so that two clients' vectors are comparable.

    Parameters
    ----------
    seed, round
        Of the run; whatever a feature draws follows from them.
    aggregate
        The last aggregated update, d numbers; None in the first round.
    output_bias
        Where in an update the bias of the last layer stands.
    ids
        The clients whose updates the rows are; by default 0, 1, …
    labels
        Their class counts, a row each.
    memo
        What a feature works out once a round and uses for each block of rows; share it between the blocks of a round.
    """

    seed: int = 0
    round: int = 0
    aggregate: NDArray[Any] | None = None
    output_bias: slice | None = None
    ids: Ints | None = None
    labels: NDArray[Any] | None = None
    memo: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Feature(Protocol):
    """A frozen dataclass of settings. Rows are encoded one by one: how they are put into blocks changes nothing."""

    name: ClassVar[str]
    privacy: ClassVar[str]
    """What the vector tells the server that the server would not learn from a sum of updates."""

    def encode(self, updates: Any, context: Context) -> Features:
        """One float32 vector per row of ``updates``, a NumPy array or a torch tensor on any device.

        A row that holds NaN or an infinity gives a vector that is not finite, which no selector will use.
        """
        ...

    def nbytes(self, k: int) -> int:
        """Bytes that a client sends for a vector of k numbers."""
        ...


def float_bytes(k: int) -> int:
    """Of k numbers sent as float32."""
    return 4 * k


def blocks(updates: Any) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """The rows as NumPy float32, in blocks of up to 64 MiB, so that a GPU's tensor is never copied as a whole."""
    count, width = updates.shape
    rows = max(1, _BLOCK // max(width, 1))
    for start in range(0, count, rows):
        at = slice(start, min(start + rows, count))
        yield at, as_numpy(updates[at])


def as_numpy(values: Any) -> NDArray[np.float32]:
    """A NumPy array as it is, a torch tensor through host memory; torch itself is not needed."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    return np.asarray(values, np.float32)


def encode_rows(updates: Any, width: int, encode: Any, *, checked: bool = False) -> Features:
    """``encode(row)`` for each row; rows that are not finite become NaN (``checked``: encode sees to that itself)."""
    out = np.full((updates.shape[0], width), np.nan, np.float32)
    for at, rows in blocks(updates):
        for target, row in zip(out[at], rows, strict=True):
            if checked or np.isfinite(row).all():
                target[:] = encode(row)
    return out
