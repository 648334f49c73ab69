"""Each client throws its own dice in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.reach.contract import People
from hcsfed.rng import stream
from hcsfed.types import Bools, Floats


def drawn(chances: Floats, people: People, round: int) -> Bools:
    """Independent dice with these chances."""
    return np.asarray(stream(people.seed, "availability", round).random(len(chances)) < chances)


@dataclass(frozen=True)
class Independent:
    """Within reach with a chance of its own, in each round anew.

    Parameters
    ----------
    chance
        Mean chance.
    spread
        Each client's chance is drawn once, evenly from ``chance`` ± ``spread``.
    """

    chance: float = 0.5
    spread: float = 0.0

    name: ClassVar[str] = "independent"

    def __post_init__(self) -> None:
        if not 0 < self.chance <= 1:
            raise bad("chance", f"availability {self.name!r}", "a number in (0, 1]", self.chance)
        most = min(self.chance, 1 - self.chance)
        if not 0 <= self.spread <= most + 1e-12:
            raise bad("spread", f"availability {self.name!r}", f"a number in [0, {most:g}]", self.spread)

    def chances(self, people: People, round: int) -> Floats:
        luck = stream(people.seed, "chance of being available").random(people.clients)
        return np.clip(self.chance + self.spread * (2 * luck - 1), 0.0, 1.0)

    def available(self, people: People, round: int) -> Bools:
        return drawn(self.chances(people, round), people, round)
