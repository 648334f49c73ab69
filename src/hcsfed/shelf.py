"""A row of numbers for every client, in memory while that is little, in a file of the run's folder beyond.

A run that keeps a vector of the model's size for each client keeps N·d numbers, and a checkpoint that copied them would
cost more than the round. So the file is no part of the checkpoint: only the numbers of the places are, where each
client's row lies in it (shadow paging: Lorie, "Physical integrity in a large segmented database", ACM TODS 1977). A new
row goes to a free place; the old one stays until a checkpoint that no longer points at it is written. A process that is
killed at any moment leaves places that nobody points at, and no half-written row.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import RunFolderError
from hcsfed.types import Features, Ints

MIB = 1 << 20
_BLOCK = 64 * MIB


@dataclass(eq=False)
class Shelves:
    """Where a run keeps its rows: those of up to ``limit`` bytes in memory, others in files of ``folder``.

    What stands for the rows in a run's state is one array, as everything there: N × d numbers in memory, or N numbers
    of places, −1 where a client's row is still zero.

    Parameters
    ----------
    limit
        Bytes that one table of rows may take in memory.
    folder
        Where files lie; None: each is a nameless temporary file, gone with the process.
    """

    limit: int = 64 * MIB
    folder: Path | None = None
    _files: dict[str, _File] = field(default_factory=dict, repr=False)

    def start(self, count: int, width: int) -> NDArray[Any]:
        """``count`` rows of ``width`` zeros, as they stand in a state."""
        return np.zeros((count, width), np.float32) if 4 * count * width <= self.limit else np.full(count, -1)

    def rows(self, name: str, kept: NDArray[Any], width: int) -> Shelf:
        """The rows that ``kept`` stands for; ``name`` is the file's."""
        if kept.ndim == 2:
            return Shelf(kept, width, None)
        if name not in self._files:
            self._files[name] = _File(self.folder / f"{name}.rows" if self.folder else None, 4 * width, kept)
        return Shelf(kept, width, self._files[name])

    def longer(self, kept: NDArray[Any], count: int) -> NDArray[Any]:
        """What stands for the same rows, and for zeros behind them, ``count`` in all."""
        more = (
            np.zeros((count - len(kept), kept.shape[1]), np.float32)
            if kept.ndim == 2
            else np.full(count - len(kept), -1)
        )
        return np.concatenate([kept, more])

    def settle(self) -> None:
        """A checkpoint was written: what it does not point at may be overwritten from now on."""
        for file in self._files.values():
            file.settle()

    @property
    def on_disk(self) -> dict[str, int]:
        """Bytes of each file."""
        return {name: file.end * file.size for name, file in self._files.items()}

    @property
    def in_use(self) -> int:
        """Bytes of the rows that lie in files: what is there to be found, without places that are free."""
        return sum(file.rows * file.size for file in self._files.values())


@dataclass(frozen=True, eq=False)
class Shelf:
    """One table of rows."""

    kept: NDArray[Any]
    width: int
    file: _File | None

    def __len__(self) -> int:
        return len(self.kept)

    def read(self, ids: Ints) -> Features:
        """A copy of these rows."""
        if self.file is None:
            rows: Features = self.kept[ids]
            return rows
        out = np.zeros((len(ids), self.width), np.float32)
        for row, place in zip(out, self.kept[ids].tolist(), strict=True):
            if place >= 0:
                self.file.read(place, row)
        return out

    def blocks(self, ids: Ints) -> Iterator[tuple[slice, Features]]:
        """These rows, no more at a time than fit into 64 MiB."""
        size = max(1, _BLOCK // (4 * self.width))
        for first in range(0, len(ids), size):
            at = slice(first, min(first + size, len(ids)))
            yield at, self.read(ids[at])

    def write(self, ids: Ints, rows: NDArray[Any]) -> None:
        """Replace these rows; ids are distinct."""
        if self.file is None:
            self.kept[ids] = rows
            return
        for client, row in zip(ids.tolist(), np.ascontiguousarray(rows, np.float32), strict=True):
            self.kept[client] = self.file.replace(int(self.kept[client]), row)


class _File:
    """Places of one size, end to end. A place that the last checkpoint points at is never written to."""

    def __init__(self, path: Path | None, size: int, kept: Ints) -> None:
        self.path, self.size = path, size
        used = np.unique(kept[kept >= 0])
        self.end = int(used[-1]) + 1 if len(used) else 0
        self.rows = len(used)
        self._free: list[int] = np.setdiff1d(np.arange(self.end), used).tolist()
        self._left: list[int] = []  # by rows that moved since the last checkpoint
        if path is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        else:
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
            if os.fstat(self._file.fileno()).st_size < self.end * size:
                raise RunFolderError(f"{str(path)!r} is missing or cut off; start again with another --out")

    def read(self, place: int, row: NDArray[np.float32]) -> None:
        left, at = row.view(np.uint8).data, place * self.size
        while left:
            got = os.preadv(self._file.fileno(), [left], at)
            if not got:
                raise RunFolderError(f"{str(self.path)!r} is cut off; start again with another --out")
            left, at = left[got:], at + got

    def replace(self, place: int, row: NDArray[np.float32]) -> int:
        """Write a row to a free place and give its number; the old one is left for the next checkpoint to free."""
        new = self._free.pop() if self._free else self.end
        left, at = row.view(np.uint8).data, new * self.size
        try:
            while left:
                done = os.pwrite(self._file.fileno(), left, at)
                left, at = left[done:], at + done
        except OSError as error:
            more = "; free some space and run again with --resume" if error.errno == errno.ENOSPC else ""
            where = "a temporary file" if self.path is None else repr(str(self.path))
            raise RunFolderError(f"cannot write to {where}: {error.strerror or error}{more}") from error
        self.end = max(self.end, new + 1)
        if place >= 0:
            self._left.append(place)
        else:
            self.rows += 1
        return new

    def settle(self) -> None:
        self._free += self._left
        self._left = []
