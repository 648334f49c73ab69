"""An attack on a federation: who of its clients takes part, and where their messages pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from hcsfed.attack.contract import Attack, Opening
from hcsfed.types import Answers, Bools, Floats
from hcsfed.updates import Updates


@dataclass(frozen=True, eq=False)
class Adversaries:
    """The attackers' messages are changed on their way out, all others pass as they are.

    Parameters
    ----------
    attack
        What they do.
    who
        Which clients they are.
    opening
        What clients would have sent in the first round.
    """

    attack: Attack
    who: Bools
    opening: Opening

    def sends(self, chunks: Iterator[Updates]) -> Iterator[Updates]:
        """Updates as the server receives them."""
        for chunk in chunks:
            theirs = torch.from_numpy(self.who[chunk.ids]).to(chunk.vectors.device)
            if theirs.any():
                vectors = chunk.vectors.clone()
                vectors[theirs] = self.attack.sends(chunk.ids[self.who[chunk.ids]], vectors[theirs], self.opening)
                chunk = replace(chunk, vectors=vectors)
            yield chunk

    def behind(self, train: Opening) -> Opening:
        """The same training, with what the attackers make of it."""
        return lambda ids: self.sends(train(ids))

    def says(self, said: Answers) -> Answers:
        """Small messages as the server receives them."""
        attackers = self.who[said.ids]
        return self.attack.says(said, attackers) if attackers.any() else said

    def claims(self, numbers: Floats) -> Floats:
        """One number of every client as the server receives it."""
        claimed = numbers.copy()
        claimed[self.who] = self.attack.claims(numbers[self.who])
        return claimed
