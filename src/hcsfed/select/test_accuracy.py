"""Selection by test accuracy, offline or as candidates come along.

Mohammed, Tabatabai, Al-Fuqaha, El Bouanani, Qadir, Qolomany, Guizani, "Budgeted Online Selection of Candidate IoT
Clients to Participate in Federated Learning", IEEE Internet of Things Journal 8(7), 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.best import best
from hcsfed.select.contract import Claims
from hcsfed.types import Floats, Ints, Selection, View


@dataclass(frozen=True)
class TestAccuracy:
    """The m clients whose own models do best on rows that the server holds, weighted ω_k over the picked's Σω.

    Needs accuracies, hence everyone trains. They must come from a validation set: with the test set, the reported
    accuracy would be one that was selected for. Biased on purpose, towards clients whose data look like the server's.

    ``rule="best"`` is the source's offline optimum. ``rule="online"`` meets the clients one at a time in random order
    and decides about each at once, as in the secretary problem: the first ``observe_share``·N are only looked at
    (never so many that fewer than m remain), then whoever beats all of those is taken, and the last are taken as they
    come once the places left equal the clients left. The source picks once, before training; here the rule is applied
    in every round. The observed share 1/e is the classical one, and ours.
    """

    __test__: ClassVar[bool] = False  # pytest would take the class for a test

    rule: Literal["online", "best"] = "online"
    observe_share: float = 1 / np.e

    name: ClassVar[str] = "test-accuracy"
    claims: ClassVar[Claims] = Claims(unbiased=False, fixed_size=True, needs=frozenset({"accuracies"}), trains="all")

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.accuracies is None:
            raise bad("view", self.name, "given with accuracies", None)
        if self.rule not in ("online", "best"):
            raise bad("rule", self.name, "'online' or 'best'", self.rule)
        if not 0 <= self.observe_share <= 1:
            raise bad("observe_share", self.name, "a number in [0, 1]", self.observe_share)
        if self.rule == "best":
            ids = best(view.accuracies, size, rng)
        else:
            ids = _online(view.accuracies, size, self.observe_share, rng)
        return Selection(ids, view.weights[ids] / view.weights[ids].sum())


def _online(accuracies: Floats, size: int, share: float, rng: np.random.Generator) -> Ints:
    order = rng.permutation(len(accuracies))
    observed = min(int(share * len(order)), len(order) - size)
    bar = accuracies[order[:observed]].max(initial=-np.inf)
    rest = order[observed:]
    beats = accuracies[rest] > bar
    # Taken on merit, or because no more clients are left than places: the first point where that happens, all the rest.
    merit_before = np.cumsum(beats) - beats
    forced = size - merit_before >= len(rest) - np.arange(len(rest))
    first_forced = int(np.argmax(forced)) if forced.any() else len(rest)
    taken = np.concatenate([np.flatnonzero(beats[:first_forced]), np.arange(first_forced, len(rest))])
    return np.sort(rest[taken[:size]])
