"""Who is within reach hangs together with the data that it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.reach.contract import People
from hcsfed.reach.independent import drawn
from hcsfed.types import Bools, Floats


@dataclass(frozen=True)
class ByClass:
    """Rows of the first class are within reach with chance ``low``, of the last with ``high``; a client as its mean.

    Parameters
    ----------
    low, high
        Chances of a client that holds the first class alone, and of one that holds the last alone; those of the
        classes between them rise evenly.
    """

    low: float = 0.1
    high: float = 0.9

    name: ClassVar[str] = "class"

    def __post_init__(self) -> None:
        for option, value in (("low", self.low), ("high", self.high)):
            if not 0 <= value <= 1 or self.low == self.high == 0:
                raise bad(option, f"availability {self.name!r}", "a number in [0, 1], one of both positive", value)

    def chances(self, people: People, round: int) -> Floats:
        shares = people.shares(f"availability {self.name!r}")
        return np.clip(shares @ np.linspace(self.low, self.high, shares.shape[1]), 0.0, 1.0)

    def available(self, people: People, round: int) -> Bools:
        return drawn(self.chances(people, round), people, round)
