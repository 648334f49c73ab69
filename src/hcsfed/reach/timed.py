"""How long clients took, as somebody has measured it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.reach.constant import check
from hcsfed.reach.contract import People
from hcsfed.reach.table import read, row
from hcsfed.types import Floats, Ints


@dataclass(frozen=True)
class Timed:
    """Seconds of a local step from a file: a column per client; a row per round, beginning again after the last.

    To one who knows the file, the chance of being in time is the share of its rows in which a client is.

    Parameters
    ----------
    file
        A ``.csv`` of numbers, or an ``.npz`` with one array.
    message
        Seconds that the model down and the answer up take together.
    """

    file: str = ""
    message: float = 1.0

    name: ClassVar[str] = "file"
    timed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.name, message=self.message)
        if self._table.min() < 0:
            raise bad("file", f"speed {self.name!r}", "a table of numbers >= 0", self.file)

    @cached_property
    def _table(self) -> Floats:
        return read(self.file, f"speed {self.name!r}")

    def seconds(self, people: People, steps: Ints, round: int) -> Floats:
        return self.message + steps * row(self._table, people.clients, round, f"speed {self.name!r}")

    def chances(self, people: People, steps: Ints, round: int, deadline: float) -> Floats:
        return np.asarray((self.message + steps * self._table <= deadline).mean(axis=0))
