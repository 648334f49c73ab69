"""A bound that follows what most clients do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.guard.contract import at_most
from hcsfed.types import Answers, Features, Floats, State, View


@dataclass(frozen=True)
class Median:
    """Nothing counts for more than ``times`` the median: norms, losses, scatter, lengths of features and of updates.

    As long as fewer than half of the clients lie, the median lies among what honest clients say. Honest clients beyond
    the bound are cut as well: on very uneven federations ``times`` must leave them room, or the mean is biased.

    Claims are held against all claims of the round. Updates are held against the median of the last ``window`` rounds'
    medians, each over that round's answers, this round's among them: in a small cohort liars may be the majority once,
    but hardly in most of the rounds.
    """

    times: float = 3.0
    window: int = 10

    name: ClassVar[str] = "median"

    def __post_init__(self) -> None:
        if not self.times >= 1:
            raise bad("times", f"guard {self.name!r}", "a number >= 1", self.times)
        if self.window < 1:
            raise bad("window", f"guard {self.name!r}", "an int >= 1", self.window)

    def view(self, view: View) -> View:
        return replace(
            view,
            norms=self._bounded(view.norms),
            losses=self._bounded(view.losses),
            variances=self._bounded(view.variances),
            features=self._shortened(view.features),
        )

    def answers(self, answers: Answers, memory: State) -> Answers:
        if not len(answers.ids):
            return answers
        recent = np.append(memory.get("typical", np.zeros(0)), np.median(answers.norms))[-self.window :]
        memory["typical"] = recent
        bound = self.times * float(np.median(recent)) or np.inf
        losses = at_most(answers.losses, self._bound(answers.losses))
        return replace(answers, norms=at_most(answers.norms, bound), losses=losses)

    def _bounded(self, claims: Floats | None) -> Floats | None:
        return None if claims is None else at_most(claims, self._bound(claims))

    def _bound(self, claims: Floats) -> float:
        """Where most claim nothing, there is nothing to measure the others by."""
        finite = claims[np.isfinite(claims)]
        return self.times * float(np.median(finite)) or np.inf if len(finite) else np.inf

    def _shortened(self, features: Features | None) -> Features | None:
        """Features no longer than the bound, their direction kept."""
        if features is None:
            return None
        lengths = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
        bound = self._bound(lengths)
        long = np.flatnonzero(np.isfinite(lengths) & (lengths > bound))
        if not len(long):
            return features
        shorter = features.copy()
        shorter[long] = features[long] * (bound / lengths[long])[:, None]
        return shorter
