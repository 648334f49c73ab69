"""What a model of who is within reach is, and what a model of how long training takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from hcsfed.errors import bad
from hcsfed.types import Bools, Federation, Floats, Ints


@dataclass(frozen=True, eq=False)
class People:
    """What such models may depend on: the clients, and the seed of the run."""

    seed: int
    federation: Federation

    @property
    def clients(self) -> int:
        """N."""
        return self.federation.clients

    @property
    def sizes(self) -> Ints:
        """Rows of each client."""
        return self.federation.sizes

    def shares(self, owner: str) -> Floats:
        """How much of each client is of each class."""
        counts = self.federation.class_counts
        if not counts.shape[1]:
            raise bad("data", owner, "a classification data set", f"the regression {self.federation.name!r}")
        return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))

    def main_class(self, owner: str) -> Ints:
        """The class that each client holds most of."""
        return np.asarray(self.shares(owner).argmax(axis=1))


class Availability(Protocol):
    """Who is within reach: a function of clients, seed and round alone, so that a run can be taken up anywhere."""

    name: ClassVar[str]

    def chances(self, people: People, round: int) -> Floats:
        """Each client's probability of being within reach in that round."""
        ...

    def available(self, people: People, round: int) -> Bools:
        """Who is within reach in that round."""
        ...


class Speed(Protocol):
    """How long a client takes for its local work: again a function of clients, seed and round alone."""

    name: ClassVar[str]
    timed: ClassVar[bool]
    """Whether there is a clock at all."""

    def seconds(self, people: People, steps: Ints, round: int) -> Floats:
        """From being asked to the answer's arrival, in that round, for that many local steps."""
        ...

    def chances(self, people: People, steps: Ints, round: int, deadline: float) -> Floats:
        """Each client's probability of taking no longer than that, to one who does not know the round's luck."""
        ...
