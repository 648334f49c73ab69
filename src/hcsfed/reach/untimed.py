"""No clock: rounds are counted, not seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.reach.contract import People
from hcsfed.types import Floats, Ints


@dataclass(frozen=True)
class Untimed:
    """No clock; every answer is in time."""

    name: ClassVar[str] = "untimed"
    timed: ClassVar[bool] = False

    def seconds(self, people: People, steps: Ints, round: int) -> Floats:
        return np.zeros(people.clients)

    def chances(self, people: People, steps: Ints, round: int, deadline: float) -> Floats:
        return np.ones(people.clients)
