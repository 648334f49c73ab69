"""Some clients are several times as slow as others, and none is the same every day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from hcsfed.reach.constant import check
from hcsfed.reach.contract import People
from hcsfed.rng import stream
from hcsfed.types import Floats, Ints


@dataclass(frozen=True)
class Lognormal:
    """``message`` + local steps · ``step`` · e^(``spread``·z_k) · e^(``jitter``·z_kt) seconds, with standard normal z.

    Parameters
    ----------
    step
        Seconds of a local step at the median client.
    message
        Seconds that the model down and the answer up take together.
    spread
        How clients differ: 0.5 makes one in forty about 2.7 times as slow as the median.
    jitter
        How a client differs from round to round.
    """

    step: float = 0.1
    message: float = 1.0
    spread: float = 0.5
    jitter: float = 0.2

    name: ClassVar[str] = "lognormal"
    timed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.name, step=self.step, message=self.message, spread=self.spread, jitter=self.jitter)

    def _usual(self, people: People, steps: Ints) -> Floats:
        z = stream(people.seed, "speed").standard_normal(people.clients)
        return np.asarray(self.step * steps * np.exp(self.spread * z))

    def seconds(self, people: People, steps: Ints, round: int) -> Floats:
        return self.message + jittered(self._usual(people, steps), self.jitter, people, round)

    def chances(self, people: People, steps: Ints, round: int, deadline: float) -> Floats:
        return in_time(self._usual(people, steps), self.jitter, deadline - self.message)


def jittered(usual: Floats, jitter: float, people: People, round: int) -> Floats:
    """Usual seconds, times a round's luck."""
    return np.asarray(usual * np.exp(jitter * stream(people.seed, "jitter", round).standard_normal(len(usual))))


def in_time(usual: Floats, jitter: float, left: float) -> Floats:
    """P(usual · e^(jitter·z) ≤ left)."""
    if left <= 0 or jitter == 0:
        return np.asarray(usual <= left, np.float64)
    return np.asarray(ndtr(np.log(left / np.maximum(usual, np.finfo(float).tiny)) / jitter))
