"""Arrays and a partition → a checked :class:`~hcsfed.types.Federation`, its rows end to end in the order of clients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hcsfed.errors import DataError
from hcsfed.types import Federation, Floats, Ints, Task

_CHUNK_BYTES = 32 << 20


def pack(
    x: NDArray[Any],
    y: NDArray[Any],
    test_x: NDArray[Any],
    test_y: NDArray[Any],
    *,
    offsets: ArrayLike,
    index: ArrayLike | None = None,
    classes: int,
    task: Task = "classification",
    weights: ArrayLike | None = None,
    name: str = "data",
    scale: float = 1.0,
    shift: float = 0.0,
    overwrite: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Federation:
    """Check the data and pack it: client k gets rows ``index[offsets[k]:offsets[k+1]]``.

    Numbers are stored small: uint8 stays uint8, labels take the narrowest unsigned integer that holds the classes, all
    else becomes float32 (integer rows stay integers where a row has a row of labels, as in text).

    Parameters
    ----------
    index
        None: the rows already are in the order of clients; then nothing is copied that needs no conversion.
    weights
        ω_k ≥ 0, not all zero; stored scaled to sum to 1. By default the client's share of the rows.
    overwrite
        The caller gives ``x`` away: its rows may be brought in order in place, a block of columns at a time, so that no
        second copy of the data ever exists.
    """
    x, y, test_x, test_y = (np.asanyarray(a) for a in (x, y, test_x, test_y))
    _check_shapes(name, x, y, test_x, test_y)
    rows = None if index is None else np.asarray(index)
    starts = _check_offsets(name, np.asarray(offsets), len(x) if rows is None else len(rows))
    if rows is not None and len(rows) and not (rows.dtype.kind in "iu" and rows.min() >= 0 and rows.max() < len(x)):
        raise DataError(f"index of {name} must hold row numbers in [0, {len(x) - 1}], got {_span(rows)}")
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in (scale, shift)):
        raise DataError(f"scale and shift of {name} must be finite numbers, got {scale!r} and {shift!r}")
    if task == "classification" and (isinstance(classes, bool) or not isinstance(classes, int) or classes < 1):
        raise DataError(f"classes of {name} must be an int >= 1, got {classes!r}")
    for which, labels in (("y", y), ("test_y", test_y)):
        _check_labels(f"{which} of {name}", labels, classes, task)
    label_type = np.float32 if task == "regression" else narrow(classes)
    tokens = task == "classification" and y.ndim > 1
    x_type, test_type = _x_type(f"x of {name}", x, tokens), _x_type(f"test_x of {name}", test_x, tokens)
    if test_type != x_type and not (tokens and np.can_cast(test_type, x_type)):
        # Bytes are scaled when used and floats are taken as they are, so one cannot stand in for the other.
        raise DataError(f"test_x of {name} must be of the type of x, got {test_x.dtype} against {x.dtype}")
    return Federation(
        name=name,
        x=checked(f"x of {name}", gather(x, rows, x_type, overwrite=overwrite), rows),
        y=gather(y, rows, label_type),
        offsets=starts,
        test_x=checked(f"test_x of {name}", gather(test_x, None, x_type)),
        test_y=gather(test_y, None, label_type),
        weights=_check_weights(name, weights, np.diff(starts)),
        classes=classes if task == "classification" else 0,
        task=task,
        scale=float(scale),
        shift=float(shift),
        about=dict(about or {}),
    )


def narrow(classes: int) -> DTypeLike:
    """The narrowest unsigned integer for labels 0 … classes − 1."""
    return np.min_scalar_type(max(classes - 1, 0))


def gather(a: NDArray[Any], index: Ints | None, dtype: DTypeLike, *, overwrite: bool = False) -> NDArray[Any]:
    """``a[index]`` as ``dtype``, holding at most one copy of the result and one chunk."""
    if index is None:
        return a if a.dtype == dtype and a.flags.c_contiguous else _converted(a, np.arange(len(a)), dtype)
    mine = overwrite and a.flags.writeable and a.flags.c_contiguous and a.dtype == dtype and a.ndim > 1
    # Kept in place, rows past len(index) stay in memory: not worth it where most are thrown away.
    if not mine or not len(a) // 2 < len(index) <= len(a):
        return _converted(a, index, dtype)
    flat = a.reshape(len(a), -1)
    # Few passes, for each walks through all rows; an eighth more memory at most, or a chunk where data are small.
    step = max(1, flat.shape[1] // 8, _CHUNK_BYTES // (len(index) * a.itemsize))
    for start in range(0, flat.shape[1], step):
        flat[: len(index), start : start + step] = flat[:, start : start + step][index]
    return a[: len(index)]


def _converted(a: NDArray[Any], index: Ints, dtype: DTypeLike) -> NDArray[Any]:
    out = np.empty((len(index), *a.shape[1:]), dtype)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinity, which is refused by row
        for part in chunks(out):
            out[part] = a[index[part]]
    return out


def chunks(a: NDArray[Any]) -> Iterator[slice]:
    """Slices of rows, each of some megabytes."""
    per_row = max(1, a.nbytes // max(1, len(a)))
    step = max(1, _CHUNK_BYTES // per_row)
    return (slice(start, min(start + step, len(a))) for start in range(0, len(a), step))


def _check_shapes(name: str, x: NDArray[Any], y: NDArray[Any], test_x: NDArray[Any], test_y: NDArray[Any]) -> None:
    for a, b, what in ((x, y, ""), (test_x, test_y, "test_")):
        if not a.ndim or not b.ndim or len(a) != len(b):
            got = f"shapes {list(a.shape)} and {list(b.shape)}"
            raise DataError(f"{what}x and {what}y of {name} must have as many rows as each other, got {got}")
    if not len(test_x):
        raise DataError(f"test_x of {name} must hold at least one row, got none")
    if x.shape[1:] != test_x.shape[1:] or y.shape[1:] != test_y.shape[1:]:
        raise DataError(
            f"test rows of {name} must have the shape of its training rows, got x {list(test_x.shape[1:])} against "
            f"{list(x.shape[1:])}, y {list(test_y.shape[1:])} against {list(y.shape[1:])}"
        )


def _check_offsets(name: str, offsets: NDArray[Any], rows: int) -> Ints:
    if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind not in "iu":
        raise DataError(f"offsets of {name} must be N + 1 ints, got {offsets.dtype}{list(offsets.shape)}")
    if offsets[0] != 0 or offsets[-1] != rows:
        raise DataError(f"offsets of {name} must run from 0 to {rows}, got {offsets[0]} to {offsets[-1]}")
    offsets = offsets.astype(np.int64)
    empty = np.flatnonzero(np.diff(offsets) < 1)
    if len(empty):
        more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        raise DataError(f"every client of {name} must hold at least one row, client {empty[0]}{more} holds none")
    return offsets


def _check_labels(what: str, labels: NDArray[Any], classes: int, task: Task) -> None:
    if task == "regression":
        checked(what, labels)
        return
    if labels.dtype.kind not in "iu":
        raise DataError(f"{what} must be ints in [0, {classes - 1}], got {labels.dtype}")
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise DataError(f"{what} must be in [0, {classes - 1}] ({classes} classes), got {_span(labels)}")


def _check_weights(name: str, weights: ArrayLike | None, sizes: Ints) -> Floats:
    omega: Floats = np.array(sizes if weights is None else weights, np.float64)
    if omega.shape != sizes.shape:
        raise DataError(
            f"weights of {name} must be {len(sizes)} numbers, one per client, got shape {list(omega.shape)}"
        )
    if not np.isfinite(omega).all() or (omega < 0).any() or not omega.any():
        raise DataError(f"weights of {name} must be finite numbers >= 0, not all 0, got {_span(omega)}")
    omega /= omega.sum()
    return omega


def _x_type(what: str, x: NDArray[Any], tokens: bool) -> np.dtype[Any]:
    if x.dtype == np.uint8 or x.dtype == np.float32:
        return x.dtype
    if x.dtype.kind not in "fiub":
        raise DataError(f"{what} must hold numbers, got {x.dtype}")
    return np.dtype(np.int32 if tokens and x.dtype.kind in "iu" else np.float32)


def checked(what: str, a: NDArray[Any], index: Ints | None = None) -> NDArray[Any]:
    """Refuse NaN and infinity, a chunk at a time; ``index`` says what a row's number was before packing."""
    if a.dtype.kind == "f":
        for part in chunks(a):
            broken = ~np.isfinite(a[part]).reshape(len(a[part]), -1).all(axis=1)
            if broken.any():
                row = part.start + int(np.argmax(broken))
                row = row if index is None else index[row]
                raise DataError(f"{what} must hold finite numbers, got NaN or infinity in row {row}")
    elif a.dtype.kind not in "iub":
        raise DataError(f"{what} must hold numbers, got {a.dtype}")
    return a


def _span(a: NDArray[Any]) -> str:
    return f"values from {a.min()} to {a.max()}"
