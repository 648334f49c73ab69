"""Any ``torch.utils.data.Dataset`` → a :class:`~hcsfed.data.source.Source`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.own import from_arrays
from hcsfed.data.source import Source
from hcsfed.errors import DataError
from hcsfed.types import Task


def from_torch(
    dataset: Any,
    test: Any | None = None,
    *,
    clients: Any | None = None,
    classes: int | None = None,
    task: Task | None = None,
    scale: float | None = None,
    shift: float = 0.0,
    held_out: float = 0.2,
    seed: int = 0,
    name: str | None = None,
) -> Source:
    """Read a map-style or iterable dataset once, row by row, transforms included; each item is a pair (x, y).

    Parameters
    ----------
    dataset, test
        Training set and test set; without ``test`` the share ``held_out`` is drawn from the training set.
    clients, classes, task, scale, shift
        As in :func:`hcsfed.data.from_arrays`. Images that a transform has turned into floats are taken as they are.
    """
    name = name or type(dataset).__name__
    x, y = _rows(dataset, name)
    test_x, test_y = _rows(test, name) if test is not None else (None, None)
    return from_arrays(
        x,
        y,
        test_x,
        test_y,
        clients=clients,
        classes=classes,
        task=task,
        scale=scale,
        shift=shift,
        test=held_out,
        seed=seed,
        name=name,
    )


def _rows(dataset: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Fill arrays item by item where the length is known, so that a list of a million tensors never exists."""
    known = len(dataset) if hasattr(dataset, "__len__") else 0
    items = (dataset[i] for i in range(known)) if known and hasattr(dataset, "__getitem__") else iter(dataset)
    x: NDArray[Any] | None = None
    xs, ys = [], []
    for i, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise DataError(f"items of {name} must be pairs (x, y), got {type(item).__name__}")
        row, label = image_or_array(item[0]), np.asarray(item[1])
        ys.append(label)
        if not known:
            xs.append(row)
            continue
        if x is None:
            x = np.empty((known, *row.shape), row.dtype)
        if row.shape != x.shape[1:]:
            raise DataError(f"items of {name} must be alike in shape, got {list(x.shape[1:])} and {list(row.shape)}")
        x[i] = row
    if not ys:
        raise DataError(f"{name} must hold at least one row, it is empty")
    return (np.stack(xs) if x is None else x), np.stack(ys)


def image_or_array(value: Any) -> NDArray[Any]:
    """A tensor, array or number as it is; a picture as bytes, planes first."""
    array = np.asarray(value)
    if not hasattr(value, "getbands"):  # not a PIL image
        return array
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
