"""False features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from hcsfed.attack.contract import Attack
from hcsfed.errors import bad
from hcsfed.types import Answers, Bools

KINDS = ("zero", "copy", "far")


@dataclass(frozen=True)
class Lie(Attack):
    """Attackers show a false feature, and the truth in all else.

    Parameters
    ----------
    kind
        ``zero``: nothing was learned; ``copy``: the feature of an honest client that sends at the same time, so as to
        hide in a crowd; ``far``: ``factor`` times their own, so as to stand alone.
    factor
        How far.
    """

    kind: Literal["zero", "copy", "far"] = "far"
    factor: float = 1000.0

    name: ClassVar[str] = "lie"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            raise bad("kind", f"attack {self.name!r}", "one of " + ", ".join(KINDS), self.kind)

    def says(self, said: Answers, attackers: Bools) -> Answers:
        if said.features is None:
            return said
        features = said.features.copy()
        if self.kind == "zero":
            features[attackers] = 0
        elif self.kind == "far":
            features[attackers] *= np.float32(self.factor)
        elif not attackers.all():
            features[attackers] = features[np.argmin(attackers)]
        return replace(said, features=features)
