"""A bound that is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hcsfed.errors import bad
from hcsfed.guard.contract import at_most
from hcsfed.types import Answers, State, View


@dataclass(frozen=True)
class Fixed:
    """No update is longer than ``norm``, and no claimed norm counts for more: clipping as differential privacy has it.

    An honest update that is longer is cut as well, which biases the mean towards clients that learn little.
    """

    norm: float = 1.0

    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        if not self.norm > 0:
            raise bad("norm", f"guard {self.name!r}", "a number > 0", self.norm)

    def view(self, view: View) -> View:
        return view if view.norms is None else replace(view, norms=at_most(view.norms, self.norm))

    def answers(self, answers: Answers, memory: State) -> Answers:
        return replace(answers, norms=at_most(answers.norms, self.norm))
