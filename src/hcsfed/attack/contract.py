"""What an attack is: the lies of some clients, told where their messages leave them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Answers, Bools, Floats, Ints
from hcsfed.updates import Updates

Opening = Callable[[Ints], Iterator[Updates]]
"""Ids → what these clients would have sent in the first round."""


@dataclass(frozen=True)
class Attack:
    """Some clients, always the same ones, and what they do: each of the three methods is the truth unless overridden.

    They see what any client sees and nothing of each other's rounds, so an attack has no memory: a run that is taken up
    again is attacked as it would have been.

    Parameters
    ----------
    share
        Of all clients, drawn by the run's seed; one at least, unless it is 0.
    clients
        The attackers by their numbers, instead of a share.
    """

    share: float = 0.05
    clients: tuple[int, ...] = ()

    name: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise bad("share", f"attack {self.name!r}", "a number in [0, 1]", self.share)
        given = list(self.clients) if isinstance(self.clients, list | tuple) else [None]
        if not all(isinstance(k, int) and not isinstance(k, bool) and k >= 0 for k in given):
            raise bad("clients", f"attack {self.name!r}", "a list of clients' numbers", self.clients)
        object.__setattr__(self, "clients", tuple(given))  # TOML knows lists only, which can't be hashed

    def who(self, clients: int, seed: int) -> Bools:
        """The attackers among so many clients."""
        mask = np.zeros(clients, bool)
        if self.clients:
            if max(self.clients) >= clients:
                allowed = f"numbers below {clients} (the number of clients)"
                raise bad("clients", f"attack {self.name!r}", allowed, list(self.clients))
            mask[list(self.clients)] = True
        elif self.share > 0:
            count = max(round(self.share * clients), 1)
            mask[stream(seed, "attackers").choice(clients, count, replace=False)] = True
        return mask

    def sends(self, ids: Ints, vectors: torch.Tensor, opening: Opening) -> torch.Tensor:
        """What these attackers send where their updates would be ``vectors``."""
        return vectors

    def says(self, said: Answers, attackers: Bools) -> Answers:
        """A small message with what the attackers make of their rows."""
        return said

    def claims(self, numbers: Floats) -> Floats:
        """What the attackers claim where their loss, or the scatter of their gradients, would be this."""
        return numbers


def nobody() -> Attack:
    """Everyone is honest."""
    return Attack(share=0.0)
