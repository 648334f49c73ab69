"""Tables of numbers from a file: one column per client, one row per round."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hcsfed.errors import DataError, bad
from hcsfed.types import Floats


def read(file: str, owner: str) -> Floats:
    """The table in a ``.csv`` (numbers alone, no header) or an ``.npz`` (its only array)."""
    path = Path(file).expanduser()
    if not file or path.suffix not in (".csv", ".npz"):
        raise bad("file", owner, "the path of a .csv or an .npz", file)
    if not path.is_file():
        raise DataError(f"file {file!r} of {owner} is not there")
    try:
        if path.suffix == ".csv":
            table = np.loadtxt(path, delimiter=",", ndmin=2)
        else:
            with np.load(path, allow_pickle=False) as arrays:
                if len(arrays.files) != 1:
                    raise DataError(f"file {file!r} of {owner} must hold one array, got {arrays.files}")
                table = np.atleast_2d(arrays[arrays.files[0]])
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise DataError(f"file {file!r} of {owner} must be a table of numbers: {reason}") from error
    if table.ndim != 2 or not table.size or table.dtype.kind not in "biuf" or not np.isfinite(table).all():
        raise DataError(f"file {file!r} of {owner} must be a table of finite numbers, rounds × clients")
    return np.asarray(table, np.float64)


def row(table: Floats, clients: int, round: int, owner: str) -> Floats:
    """The row of that round; after the last one the table begins again."""
    if table.shape[1] != clients:
        raise DataError(f"the table of {owner} must have a column for each of {clients} clients, got {table.shape[1]}")
    return np.asarray(table[round % len(table)])
