"""Your own ``.npz`` file → a :class:`~hcsfed.data.source.Source`."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from hcsfed.data.own import from_arrays
from hcsfed.data.source import Source
from hcsfed.errors import DataError
from hcsfed.types import Task

_ARRAYS = ("x", "y", "test_x", "test_y", "clients")


def from_npz(
    path: str | Path,
    *,
    classes: int | None = None,
    task: Task | None = None,
    scale: float | None = None,
    shift: float = 0.0,
    test: float = 0.2,
    seed: int = 0,
) -> Source:
    """A file by :func:`numpy.savez` with ``x`` and ``y``, and maybe ``test_x``, ``test_y``, ``clients``.

    All else is as in :func:`hcsfed.data.from_arrays`. Pickled objects are refused.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            names = set(file.files)
            arrays = {name: file[name] for name in _ARRAYS if name in names}
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    except (ValueError, AttributeError, TypeError) as error:
        raise DataError(f"{path} must be an .npz of plain arrays, without pickled objects") from error
    if not {"x", "y"} <= names <= set(_ARRAYS):
        got = ", ".join(sorted(names)) or "none"
        raise DataError(f"{path} must hold the arrays x and y, maybe test_x, test_y and clients, got {got}")
    return from_arrays(
        **arrays, classes=classes, task=task, scale=scale, shift=shift, test=test, seed=seed, name=path.stem
    )
