"""False claims of importance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hcsfed.attack.contract import Attack
from hcsfed.errors import bad
from hcsfed.types import Answers, Bools, Floats


@dataclass(frozen=True)
class Inflate(Attack):
    """Every number by which a client could be found important is claimed ``factor``-fold: norm, loss, scatter.

    The updates are honest: it is for being picked that they lie. A factor below 1 is the contrary, to be picked seldom
    and then count for much.
    """

    factor: float = 1000.0

    name: ClassVar[str] = "inflate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.factor >= 0:
            raise bad("factor", f"attack {self.name!r}", "a number >= 0", self.factor)

    def says(self, said: Answers, attackers: Bools) -> Answers:
        norms, losses = said.norms.copy(), said.losses.copy()
        norms[attackers] *= self.factor
        losses[attackers] *= self.factor
        return replace(said, norms=norms, losses=losses)

    def claims(self, numbers: Floats) -> Floats:
        return numbers * self.factor
