"""Updates that push the model away, or further than it should go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hcsfed.attack.contract import Attack, Opening
from hcsfed.types import Ints


@dataclass(frozen=True)
class Scale(Attack):
    """``factor`` times the honest update: below 0 it undoes what others learn. Norm and feature are of the lie."""

    factor: float = -10.0

    name: ClassVar[str] = "scale"

    def sends(self, ids: Ints, vectors: torch.Tensor, opening: Opening) -> torch.Tensor:
        return vectors * self.factor
