"""Flower's arrays ↔ NumPy, read without trusting what they say of themselves; a model's arrays ↔ one vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from hcsfed.errors import HcsfedError
from hcsfed.types import Floats

_HEADER = 1024  # bytes that NumPy's own description of an array may take
_VERSIONS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class RefusedError(HcsfedError):
    """What a client sent is not what it was asked for."""


def read(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...], dtype: str = "float32") -> NDArray[Any]:
    """The array of that name, if it is of this shape and type. No more memory is taken than that needs, and nothing
    is unpickled, whatever was sent.
    """
    if name not in arrays:
        raise RefusedError(f"no {name} came")
    array = arrays[name]
    size = prod(shape) * np.dtype(dtype).itemsize
    if tuple(array.shape) != shape or array.dtype != dtype or array.stype != "numpy.ndarray":
        raise RefusedError(f"{name} must be {dtype}{list(shape)}, got {short(array.dtype)}{short(list(array.shape))}")
    if not size <= len(array.data) <= size + _HEADER:
        raise RefusedError(f"{name} must be {size} bytes long and a header, got {len(array.data)}")
    try:
        head = BytesIO(array.data[: len(array.data) - size])
        inside, by_column, kind = _VERSIONS[np.lib.format.read_magic(head)](head)
    except Exception as error:  # NumPy reads it with Python's own parser, which raises whatever the text suggests
        raise RefusedError(f"{name} is not readable: {short(error)}") from error
    if inside != shape or kind != np.dtype(dtype) or (by_column and len(shape) > 1):
        raise RefusedError(f"{name} says {short(list(inside))} inside and {list(shape)} outside")
    if head.tell() + size != len(array.data):
        raise RefusedError(f"{name} must be {size} bytes long, got {len(array.data) - head.tell()}")
    return np.frombuffer(array.data, dtype, prod(shape), head.tell()).reshape(shape)


def short(value: object, most: int = 60) -> str:
    """As a piece of one line: what others have sent may hold anything."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True)
class Packing:
    """Where each floating-point array of a model stands in its vector; other arrays, such as counters, stay behind.

    Parameters
    ----------
    names, shapes, dtypes
        Of the floating-point arrays, in the record's own order.
    dimension
        d, length of the vector.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    dimension: int

    @classmethod
    def of(cls, record: ArrayRecord) -> Packing:
        floats = [(name, array) for name, array in record.items() if np.dtype(array.dtype).kind == "f"]
        shapes = tuple(tuple(array.shape) for _, array in floats)
        names, dtypes = tuple(name for name, _ in floats), tuple(array.dtype for _, array in floats)
        return cls(names, shapes, dtypes, sum(prod(shape) for shape in shapes))

    @property
    def output_bias(self) -> slice | None:
        """Where the bias of the last layer stands, if the model ends in one."""
        if not self.shapes or len(self.shapes[-1]) != 1:
            return None
        return slice(self.dimension - self.shapes[-1][0], self.dimension)

    def flatten(self, record: ArrayRecord) -> NDArray[np.float32]:
        """The model as a new float32 vector."""
        parts = [
            read(record, name, shape, dtype).reshape(-1)
            for name, shape, dtype in zip(self.names, self.shapes, self.dtypes, strict=True)
        ]
        return np.concatenate(parts).astype(np.float32) if parts else np.zeros(0, np.float32)

    def fill(self, vector: Floats, record: ArrayRecord) -> ArrayRecord:
        """A record like this one, with the vector's numbers."""
        filled, at = dict(record.items()), 0
        for name, shape, dtype in zip(self.names, self.shapes, self.dtypes, strict=True):
            filled[name] = Array(vector[at : at + prod(shape)].reshape(shape).astype(dtype))
            at += prod(shape)
        return ArrayRecord(filled)
