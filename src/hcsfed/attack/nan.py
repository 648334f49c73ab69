"""Updates that are no numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hcsfed.attack.contract import Attack, Opening
from hcsfed.types import Ints


@dataclass(frozen=True)
class NotANumber(Attack):
    """One entry of the update is NaN, and so is what is computed from it."""

    name: ClassVar[str] = "nan"

    def sends(self, ids: Ints, vectors: torch.Tensor, opening: Opening) -> torch.Tensor:
        vectors[:, 0] = torch.nan
        return vectors
