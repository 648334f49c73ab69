"""A table of the Hugging Face package ``datasets`` → a :class:`~hcsfed.data.source.Source`.

The package itself is not imported: a table is anything with column names, a length and ``table[column]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.data.own import from_arrays
from hcsfed.data.source import Source
from hcsfed.data.torch_dataset import image_or_array
from hcsfed.errors import DataError, unknown
from hcsfed.types import Task

_INPUTS = ("image", "img", "x", "features", "input")
_LABELS = ("label", "labels", "y", "fine_label", "target")


def from_huggingface(
    table: Any,
    test: Any | None = None,
    *,
    x: str | Sequence[str] | None = None,
    y: str | None = None,
    client: str | None = None,
    classes: int | None = None,
    task: Task | None = None,
    scale: float | None = None,
    shift: float = 0.0,
    held_out: float = 0.2,
    seed: int = 0,
    name: str = "table",
) -> Source:
    """Columns of a table (or of a dict of tables with ``train`` and maybe ``test``).

    Parameters
    ----------
    x
        The column of inputs (images, lists or numbers), or several columns of numbers; by default ``image``, ``img``,
        …
    y
        The column of labels; by default ``label``, ``labels``, ….
    client
        The column that says whose row it is: the natural partition.
    held_out
        Share drawn for the test set, where there is none.
    """
    if isinstance(table, Mapping) and "train" in table:
        table, test = table["train"], test if test is not None or "test" not in table else table["test"]
    columns = list(table.column_names)
    inputs = [x] if isinstance(x, str) else list(x) if x is not None else [_guess("x", _INPUTS, columns)]
    label = y or _guess("y", _LABELS, columns)
    for column in (*inputs, label, *([client] if client else [])):
        if column not in columns:
            raise unknown("column", column, columns)
    test_x, test_y = (None, None) if test is None else (_inputs(test, inputs), np.asarray(test[label]))
    return from_arrays(
        _inputs(table, inputs),
        np.asarray(table[label]),
        test_x,
        test_y,
        clients=np.asarray(table[client]) if client else None,
        classes=classes,
        task=task,
        scale=scale,
        shift=shift,
        test=held_out,
        seed=seed,
        name=name,
    )


def _guess(parameter: str, usual: Sequence[str], columns: list[str]) -> str:
    for name in usual:
        if name in columns:
            return name
    raise DataError(f"{parameter} of a table must name one of its columns: {', '.join(columns)}")


def _inputs(table: Any, columns: list[str]) -> NDArray[Any]:
    parts = [_column(table, name) for name in columns]
    return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)


def _column(table: Any, name: str) -> NDArray[Any]:
    values = [image_or_array(value) for value in table[name]]
    shapes = {v.shape for v in values}
    if len(shapes) > 1:
        raise DataError(f"column {name!r} must hold values of one shape, got {sorted(map(str, shapes))[:3]}")
    return np.stack(values)
