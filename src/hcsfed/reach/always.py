"""Everyone is within reach in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.reach.contract import People
from hcsfed.types import Bools, Floats


@dataclass(frozen=True)
class Always:
    """Everyone, always."""

    name: ClassVar[str] = "always"

    def chances(self, people: People, round: int) -> Floats:
        return np.ones(people.clients)

    def available(self, people: People, round: int) -> Bools:
        return np.ones(people.clients, bool)
