"""Whole groups go offline together: a region's network, a fleet in the same depot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hcsfed.errors import bad
from hcsfed.reach.contract import People
from hcsfed.rng import stream
from hcsfed.types import Bools, Floats, Ints


@dataclass(frozen=True)
class Groups:
    """One dice for each group: all of its clients are within reach, or none of them.

    Chances are as with ``independent``, and so is what they do to the mean; what differs is the variance, which now
    depends on whether those who go together have updates alike.

    Parameters
    ----------
    chance
        Of each group in each round.
    groups
        How many there are, where ``by`` is ``random``.
    by
        ``random``: clients are dealt evenly to the groups; ``class``: a group is all clients of the same main class.
    """

    chance: float = 0.5
    groups: int = 10
    by: Literal["random", "class"] = "random"

    name: ClassVar[str] = "groups"

    def __post_init__(self) -> None:
        owner = f"availability {self.name!r}"
        if not 0 < self.chance <= 1:
            raise bad("chance", owner, "a number in (0, 1]", self.chance)
        if self.groups < 1:
            raise bad("groups", owner, "an int >= 1", self.groups)
        if self.by not in ("random", "class"):
            raise bad("by", owner, "one of random, class", self.by)

    def members(self, people: People) -> Ints:
        """The number of each client's group."""
        if self.by == "class":
            return people.main_class(f"availability {self.name!r}")
        return stream(people.seed, "groups").permutation(np.arange(people.clients) % self.groups)

    def chances(self, people: People, round: int) -> Floats:
        return np.full(people.clients, self.chance)

    def available(self, people: People, round: int) -> Bools:
        group = self.members(people)
        up = stream(people.seed, "availability", round).random(int(group.max()) + 1) < self.chance
        return np.asarray(up[group])
