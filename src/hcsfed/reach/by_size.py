"""Those who hold much are slow: who is late hangs together with the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.reach.constant import check
from hcsfed.reach.contract import People
from hcsfed.reach.lognormal import in_time, jittered
from hcsfed.types import Floats, Ints


@dataclass(frozen=True)
class BySize:
    """``message`` + local steps · ``step`` · (n_k / mean n)^``power`` · e^(``jitter``·z_kt) seconds.

    Parameters
    ----------
    step
        Seconds of a local step at a client of mean size.
    message
        Seconds that the model down and the answer up take together.
    power
        0: sizes don't matter; 1: twice the rows, twice the time, the number of steps being the same.
    jitter
        How a client differs from round to round.
    """

    step: float = 0.1
    message: float = 1.0
    power: float = 1.0
    jitter: float = 0.2

    name: ClassVar[str] = "size"
    timed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.name, step=self.step, message=self.message, power=self.power, jitter=self.jitter)

    def _usual(self, people: People, steps: Ints) -> Floats:
        return np.asarray(self.step * steps * (people.sizes / people.sizes.mean()) ** self.power)

    def seconds(self, people: People, steps: Ints, round: int) -> Floats:
        return self.message + jittered(self._usual(people, steps), self.jitter, people, round)

    def chances(self, people: People, steps: Ints, round: int, deadline: float) -> Floats:
        return in_time(self._usual(people, steps), self.jitter, deadline - self.message)
