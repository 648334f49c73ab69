"""What a guard is: bounds on what a client may claim, and on how far its update may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from hcsfed.types import Answers, Floats, State, View


class Guard(Protocol):
    """A frozen dataclass of settings. Its memory stands among what the server has heard, and is written in place."""

    @property
    def name(self) -> str: ...

    def view(self, view: View) -> View:
        """What the selector may see of it."""
        ...

    def answers(self, answers: Answers, memory: State) -> Answers:
        """Answers with bounds on norms and losses; an update is then scaled down to the norm that is left to it."""
        ...


@dataclass(frozen=True)
class Trust:
    """Claims and updates count as they come, as long as they are finite."""

    name: ClassVar[str] = "none"

    def view(self, view: View) -> View:
        return view

    def answers(self, answers: Answers, memory: State) -> Answers:
        return answers


def at_most(values: Floats, bound: float) -> Floats:
    """Values cut at a bound; what is not finite stays so, to be refused."""
    return np.asarray(np.where(np.isfinite(values), np.minimum(values, bound), values))
