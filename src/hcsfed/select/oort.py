"""Oort: clients by what they have to teach and how fast they are, with a share of newcomers.

Lai, Zhu, Madhyastha, Chowdhury, "Oort: Efficient Federated Learning via Guided Participant Selection", OSDI 2021,
Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.select.best import one_by_one
from hcsfed.select.contract import Claims, recall
from hcsfed.types import Answers, Floats, Selection, State, View


@dataclass(frozen=True)
class Oort:
    """ε·m newcomers, the other places by utility; the picked weigh ω_k over their Σω (FedAvg). Biased on purpose.

    Needs nothing beforehand: it learns from the losses and the seconds that come back. The picked alone train.

    Utility of client k in round R, last heard in round L_k, against the preferred duration T: (U_k + √(0.1·ln R /
    L_k)) · (T/t_k)^{α·[T < t_k]}, with U_k = n_k·√(mean squared loss), cut off at a quantile. The places left after
    the newcomers go to clients of at least ``cutoff`` of the worst utility that would get in, drawn by utility
    without replacement. ε starts at ``explore`` and falls by ``explore_decay`` per round to ``explore_least``.

    What was chosen where the source or our round leaves it open. Only the mean loss of a client comes back, so it
    stands for the root mean square. U_k is scaled to [0, 1] over those known, without which the staleness term has no
    fixed meaning (the authors' program does that too). The quantile is a client's own utility, never a mean of two:
    with ``clip`` < 1 one false claim among two or more counts for no more than the next one. T is a quantile of the
    known durations of those within reach, the first ``pace``; whenever the last ``window`` rounds brought less utility
    than as many before them, the pacer raises it by ``pace_step``. With no durations the second factor is 1. Newcomers
    are drawn evenly, for nothing is known of their speed. No limit on how often one client takes part, and no noise on
    the utilities.
    """

    explore: float = 0.9
    explore_decay: float = 0.98
    explore_least: float = 0.2
    cutoff: float = 0.95
    clip: float = 0.95
    penalty: float = 2.0
    pace: float = 0.3
    pace_step: float = 0.05
    window: int = 20

    name: ClassVar[str] = "oort"
    claims: ClassVar[Claims] = Claims(unbiased=False, fixed_size=True)

    def start(self, clients: int) -> State:
        for parameter in ("explore", "explore_decay", "explore_least", "cutoff", "clip", "pace", "pace_step"):
            if not 0 <= getattr(self, parameter) <= 1:
                raise bad(parameter, self.name, "a number in [0, 1]", getattr(self, parameter))
        if not self.penalty >= 0:
            raise bad("penalty", self.name, "a number >= 0", self.penalty)
        if self.window < 1:
            raise bad("window", self.name, "an int >= 1", self.window)
        return {
            "loss": np.zeros(clients),
            "heard": np.zeros(clients, np.int64),  # L_k, rounds counted from 1; 0: never
            "seconds": np.full(clients, np.nan),
            "earned": np.zeros(2 * self.window),  # utility of the last rounds, oldest first
            "round": np.zeros(1, np.int64),
            "pace": np.full(1, self.pace),
        }

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        state = recall(self, view)
        known = np.flatnonzero(state["heard"][view.ids] > 0)
        new = np.flatnonzero(state["heard"][view.ids] == 0)
        share = max(self.explore * self.explore_decay ** int(state["round"][0]), self.explore_least)
        newcomers = max(min(round(share * size), len(new)), size - len(known))
        chosen = rng.choice(new, newcomers, replace=False)
        if newcomers < size:
            utility = self._utility(state, view)[known]
            worst = np.partition(utility, -(size - newcomers))[-(size - newcomers)]
            admitted = np.flatnonzero(utility >= self.cutoff * worst)
            by_utility = one_by_one(np.maximum(utility[admitted], 1e-12), size - newcomers, rng)
            chosen = np.concatenate([chosen, known[admitted[by_utility]]])
        ids = np.sort(chosen)
        info = {"newcomers": newcomers, "sizes": view.sizes[ids]}
        return Selection(ids, view.weights[ids] / view.weights[ids].sum(), None, info)

    def _utility(self, state: Mapping[str, NDArray[Any]], view: View) -> Floats:
        """Of every row of the view; meaningless for those never heard."""
        heard, seconds = state["heard"][view.ids], state["seconds"][view.ids]
        known = heard > 0
        statistical = view.sizes * state["loss"][view.ids]
        statistical = np.minimum(statistical, np.quantile(statistical[known], self.clip, method="lower"))
        low, high = statistical[known].min(), statistical[known].max()
        scaled = (statistical - low) / (high - low) if high > low else np.ones(view.clients)
        stale = np.sqrt(0.1 * np.log(state["round"][0] + 1) / np.maximum(heard, 1))
        timed = np.isfinite(seconds)
        if not timed.any():
            return np.asarray(scaled + stale)
        preferred = np.quantile(seconds[timed], state["pace"][0])
        slow = timed & (seconds > preferred)
        slowness = np.divide(preferred, seconds, out=np.ones(view.clients), where=slow) ** self.penalty
        return np.asarray((scaled + stale) * slowness)

    def observe(self, state: State, selection: Selection, answers: Answers) -> State:
        after = {name: array.copy() for name, array in state.items()}
        fine = np.isfinite(answers.losses)
        ids = answers.ids[fine]
        after["round"] += 1
        after["loss"][ids] = np.clip(answers.losses[fine], 0, 1e100)  # n_k times a huge claim must not overflow
        after["heard"][ids] = after["round"][0]
        if answers.seconds is not None:
            after["seconds"][answers.ids] = answers.seconds
        sizes = dict(zip(selection.ids.tolist(), selection.info["sizes"].tolist(), strict=True))
        earned = sum(sizes[k] * after["loss"][k] for k in ids.tolist())
        after["earned"] = np.append(after["earned"][1:], earned)
        window = self.window
        due = after["round"][0] % window == 0 and after["round"][0] >= 2 * window
        if due and after["earned"][window:].sum() < after["earned"][:window].sum():
            after["pace"] = np.minimum(after["pace"] + self.pace_step, 1.0)
        return after
