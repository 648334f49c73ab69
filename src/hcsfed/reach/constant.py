"""All clients are equally fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.reach.contract import People
from hcsfed.types import Floats, Ints


@dataclass(frozen=True)
class Constant:
    """``message`` + local steps · ``step`` seconds, for everyone.

    Parameters
    ----------
    step
        Seconds of a local step.
    message
        Seconds that the model down and the answer up take together.
    """

    step: float = 0.1
    message: float = 1.0

    name: ClassVar[str] = "constant"
    timed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.name, step=self.step, message=self.message)

    def seconds(self, people: People, steps: Ints, round: int) -> Floats:
        return np.asarray(self.message + self.step * steps)

    def chances(self, people: People, steps: Ints, round: int, deadline: float) -> Floats:
        return np.asarray(self.seconds(people, steps, round) <= deadline, np.float64)


def check(name: str, **options: float) -> None:
    """Seconds and spreads are numbers from 0 on; a step takes some time."""
    for option, value in options.items():
        if not 0 <= value < np.inf or (option == "step" and value == 0):
            raise bad(option, f"speed {name!r}", "a number > 0" if option == "step" else "a number >= 0", value)
