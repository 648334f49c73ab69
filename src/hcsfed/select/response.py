"""Some of the picked never answer: weights that stay right, chances learned from experience, and how many to ask.

Answering is a second draw that nobody designed. If client i, once asked, answers with probability q_i, then
Σ weights_i/q_i·u_i over those who came has the expectation of Σ weights_i·u_i over all who were asked, whatever the
updates and however the answers hang together. (Särndal, Swensson & Wretman, Model Assisted Survey Sampling, 1992,
ch. 9: two-phase sampling and response models.) Left alone, those who answer rarely count for too little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hcsfed.errors import bad
from hcsfed.types import Bools, Floats, Ints, Selection, State

FLOOR = 0.05


def answered(selection: Selection, came: Bools, chances: ArrayLike = 1.0, *, floor: float = FLOOR) -> Selection:
    """The selection of those who came, their weights divided by their chance of coming.

    Where nobody came it is empty, and its weighted sum 0: the model stays where it was, which is what unbiasedness
    asks for, as the rounds with answers count for more.

    Parameters
    ----------
    selection
        Who was asked.
    came
        One entry per ``selection.ids``.
    chances
        q_k of all clients (as ``selection.inclusion`` is of all), or one number for all. 1 leaves the weights alone.
    floor
        Least chance that is divided by, so no weight grows more than 1/floor-fold; who answers less often than that
        counts for too little.
    """
    came = np.asarray(came)
    if came.dtype != bool or came.shape != selection.ids.shape:
        raise bad("came", "answered", f"a mask of the {len(selection)} who were asked", came.tolist())
    if not 0 < floor <= 1:
        raise bad("floor", "answered", "a number in (0, 1]", floor)
    q = np.asarray(chances, np.float64)
    if not (np.isfinite(q).all() and (q >= 0).all() and (q <= 1).all()):
        raise bad("chances", "answered", "numbers in [0, 1]", np.unique(q)[[0, -1]].tolist())
    of_asked = np.broadcast_to(q, selection.ids.shape) if q.ndim == 0 else q[selection.ids]
    return replace(
        selection,
        ids=selection.ids[came],
        weights=selection.weights[came] / np.maximum(of_asked[came], floor),
        inclusion=None if selection.inclusion is None else selection.inclusion * q,
        info={**selection.info, "silent": selection.ids[~came]},
    )


def to_ask(size: int, chances: ArrayLike, clients: int) -> int:
    """How many of ``clients`` to ask so that about ``size`` answer, by the mean of their chances."""
    mean = float(np.asarray(chances, np.float64).mean())
    return clients if mean <= 0 else min(clients, max(size, ceil(size / mean - 1e-9)))


@dataclass(frozen=True)
class ResponseRates:
    """How likely each client answers, learned from whom was asked and who came.

    A client's own frequency, shrunk towards that of all: (came_k + strength·p) / (asked_k + strength), where p is the
    share of all requests that were answered. Before anything is known, everyone is expected to come. What a round
    teaches holds from the next one on: a chance that had seen its own answer would be biased.

    Parameters
    ----------
    strength
        How many requests of its own a client must have had for them to count as much as the others' experience.
    forget
        Share of all experience that fades with each round, where chances change with time; 0: none.
    """

    strength: float = 5.0
    forget: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.strength < np.inf:
            raise bad("strength", "response rates", "a number > 0", self.strength)
        if not 0 <= self.forget < 1:
            raise bad("forget", "response rates", "a number in [0, 1)", self.forget)

    def start(self, clients: int) -> State:
        """Nothing known: arrays that travel with a checkpoint."""
        return {"asked": np.zeros(clients), "came": np.zeros(clients)}

    def observe(self, state: Mapping[str, NDArray[Any]], asked: Ints, came: Ints) -> State:
        """The memory after a round: who was asked, and who of them came (both by their numbers)."""
        new = {name: (1 - self.forget) * state[name] for name in ("asked", "came")}
        new["asked"][asked] += 1
        new["came"][came] += 1
        return new

    def chances(self, state: Mapping[str, NDArray[Any]], pool: float | None = None) -> Floats:
        """q_k of all clients, in (0, 1]; ``pool`` where the p of all is known better than from this memory."""
        asked, came = state["asked"], state["came"]
        everyone = (came.sum() + 1) / (asked.sum() + 1) if pool is None else pool
        return np.asarray((came + self.strength * everyone) / (asked + self.strength))
