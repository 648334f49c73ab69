"""Your own arrays → a :class:`~hcsfed.data.source.Source`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hcsfed.data.pack import checked
from hcsfed.data.partition import offsets_of
from hcsfed.data.source import Source
from hcsfed.errors import DataError, bad
from hcsfed.rng import stream
from hcsfed.types import Ints, Task


def from_arrays(
    x: ArrayLike,
    y: ArrayLike,
    test_x: ArrayLike | None = None,
    test_y: ArrayLike | None = None,
    *,
    clients: ArrayLike | None = None,
    classes: int | None = None,
    task: Task | None = None,
    scale: float | None = None,
    shift: float = 0.0,
    test: float = 0.2,
    seed: int = 0,
    name: str = "arrays",
) -> Source:
    """Rows and labels in memory, or memory-mapped.

    Parameters
    ----------
    x, y
        Rows, and a class per row (ints from 0), a row of classes, or, for regression, floats.
    test_x, test_y
        The test set; where left out, the share ``test`` of the rows is drawn for it: of every client's rows,
        rounded down, where ``clients`` is given; else evenly over the classes.
    clients
        Who each row belongs to (any values; one per row): the natural partition, in the order of the sorted values.
    classes
        By default one more than the largest label.
    task
        By default ``regression`` where labels are floats.
    scale, shift
        What turns stored numbers into the model's; by default images of bytes are scaled to [0, 1].
    """
    x, y = np.asanyarray(x), np.asanyarray(y)
    if not x.ndim or not y.ndim or len(x) != len(y) or not len(x):
        raise DataError(
            f"x and y of {name} must have the same number of rows, 1 or more, got {list(x.shape)} and {list(y.shape)}"
        )
    task = task or ("regression" if y.dtype.kind == "f" else "classification")
    if task not in ("classification", "regression"):
        raise bad("task", name, "classification or regression", task)
    if task == "classification" and y.dtype.kind not in "iu":
        remedy = "np.unique(y, return_inverse=True)[1] numbers any labels"
        raise DataError(f"y of {name} must be ints from 0 on, or floats for regression, got {y.dtype}; {remedy}")
    if task == "regression" and y.ndim == 1:
        y = y[:, None]
    offsets = None
    copied = clients is not None or test_x is None
    if copied:  # as long as rows have the numbers by which the user knows them
        checked(f"x of {name}", x)
        checked(f"y of {name}", y)
    if clients is not None:
        order, offsets = by_owner(np.asarray(clients), len(x), name)
        x, y = x[order], y[order]
    if (test_x is None) != (test_y is None):
        raise bad("test_x and test_y", name, "given both or left out both", "one of them")
    if test_x is None or test_y is None:
        held = _hold_out(y, offsets, test, seed, name)
        if offsets is not None:
            offsets = offsets_of(np.add.reduceat(~held, offsets[:-1], dtype=np.int64))
        x, y, test_x, test_y = x[~held], y[~held], x[held], y[held]
    test_x, test_y = np.asanyarray(test_x), np.asanyarray(test_y)
    if task == "regression" and test_y.ndim == 1:
        test_y = test_y[:, None]
    if task == "classification" and classes is None:
        classes = 1 + max(int(a.max(initial=0)) for a in (y, test_y))
    if scale is None:
        scale = 1 / 255 if x.dtype == np.uint8 and y.ndim == 1 else 1.0
    return Source(name, x, y, test_x, test_y, classes or 0, task, scale, shift, offsets, owned=copied)


def by_owner(owners: NDArray[Any], rows: int, name: str) -> tuple[Ints, Ints]:
    """The rows in the order of who owns them, and where each owner starts."""
    if owners.shape != (rows,):
        raise DataError(f"clients of {name} must name one client for each of {rows} rows, got {list(owners.shape)}")
    _, counts = np.unique(owners, return_counts=True)
    return np.argsort(owners, kind="stable"), offsets_of(counts)


def _hold_out(y: NDArray[Any], offsets: Ints | None, share: float, seed: int, name: str) -> NDArray[np.bool_]:
    """Which rows go to the test set: a share of every client's rows, or else of every class's, as near as it goes."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
        raise bad("test", name, "a share in (0, 1)", share)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise bad("seed", name, "an int >= 0", seed)
    rng = stream(int(seed), "hold out")
    held = np.zeros(len(y), bool)
    if offsets is not None:
        for start, end in pairwise(offsets):
            held[start + rng.permutation(end - start)[: int(share * (end - start))]] = True
    else:
        order = rng.permutation(len(y))
        if y.ndim == 1:
            order = order[np.argsort(y[order], kind="stable")]
        count = int(share * len(y))
        # Evenly spaced places in the rows sorted by class.
        held[order[((np.arange(count) + 0.5) * len(y) / max(count, 1)).astype(int)]] = True
    if not held.any():
        raise bad("test", name, "a share that gives at least one test row", share)
    return held
