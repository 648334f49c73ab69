"""Who was within reach, as somebody has seen it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.reach.contract import People
from hcsfed.reach.independent import drawn
from hcsfed.reach.table import read, row
from hcsfed.types import Bools, Floats


@dataclass(frozen=True)
class Trace:
    """A table from a file: a column per client and a row per round, 1 where it was within reach and 0 where not.

    After the last row it begins again. Numbers between 0 and 1 are chances; a single row of them gives each client a
    chance of its own. To one who knows the trace, a client's chance is its mean over all rows.

    Parameters
    ----------
    file
        A ``.csv`` of numbers, or an ``.npz`` with one array.
    """

    file: str = ""

    name: ClassVar[str] = "trace"

    def __post_init__(self) -> None:
        if self._table.min() < 0 or self._table.max() > 1:
            raise bad("file", self._owner, "a table of numbers in [0, 1]", self.file)

    @property
    def _owner(self) -> str:
        return f"availability {self.name!r}"

    @cached_property
    def _table(self) -> Floats:
        return read(self.file, self._owner)

    @cached_property
    def _means(self) -> Floats:
        return np.asarray(self._table.mean(axis=0))

    def chances(self, people: People, round: int) -> Floats:
        row(self._table, people.clients, round, self._owner)
        return self._means

    def available(self, people: People, round: int) -> Bools:
        return drawn(row(self._table, people.clients, round, self._owner), people, round)
