"""Within reach by day or by night: chances that rise and fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hcsfed.errors import bad
from hcsfed.reach.contract import People
from hcsfed.reach.independent import drawn
from hcsfed.rng import stream
from hcsfed.types import Bools, Floats


@dataclass(frozen=True)
class Diurnal:
    """The chance swings between ``low`` and ``high`` once in ``period`` rounds, for each client in a phase of its own.

    H. Eichner, T. Koren, H. B. McMahan, N. Srebro & K. Talwar, "Semi-cyclic stochastic gradient descent", ICML 2019,
    show what it does to training where the hour and the data hang together, as with ``phase="class"``.

    Parameters
    ----------
    period
        Rounds of a day.
    low, high
        Chances at the worst and the best hour.
    phase
        ``random``: a best hour for each client, drawn once; ``class``: the same for all clients with the same main
        class, the classes evenly around the clock.
    """

    period: int = 24
    low: float = 0.1
    high: float = 0.9
    phase: Literal["random", "class"] = "random"

    name: ClassVar[str] = "diurnal"

    def __post_init__(self) -> None:
        owner = f"availability {self.name!r}"
        if self.period < 1:
            raise bad("period", owner, "an int >= 1", self.period)
        if not 0 <= self.low <= self.high <= 1 or self.high == 0:
            raise bad("low and high", owner, "numbers with 0 <= low <= high <= 1, high > 0", (self.low, self.high))
        if self.phase not in ("random", "class"):
            raise bad("phase", owner, "one of random, class", self.phase)

    def chances(self, people: People, round: int) -> Floats:
        if self.phase == "class":
            phases = people.main_class(f"availability {self.name!r}") / people.federation.classes
        else:
            phases = stream(people.seed, "time of day").random(people.clients)
        swing = 0.5 + 0.5 * np.cos(2 * np.pi * (round / self.period - phases))
        return np.asarray(self.low + (self.high - self.low) * swing)

    def available(self, people: People, round: int) -> Bools:
        return drawn(self.chances(people, round), people, round)
