"""A set of data before it is dealt to clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hcsfed.types import Ints, Task


@dataclass(frozen=True, eq=False)
class Source:
    """Training rows and test rows, and, where the set has clients of its own, whose rows they are.

    Parameters
    ----------
    x, y, test_x, test_y
        As in :class:`hcsfed.types.Federation`, in any order.
    scale, shift
        What turns stored numbers into the model's: ``x · scale + shift``.
    offsets
        The natural partition: rows are in the order of clients, client k owning ``offsets[k]:offsets[k+1]``. None where
        the set has no clients of its own.
    owned
        Nobody else uses these arrays, so packing may overwrite them rather than hold a second copy.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[Any]
    test_x: NDArray[Any]
    test_y: NDArray[Any]
    classes: int
    task: Task = "classification"
    scale: float = 1.0
    shift: float = 0.0
    offsets: Ints | None = None
    owned: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)
