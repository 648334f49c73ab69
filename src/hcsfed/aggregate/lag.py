"""LAG: a client whose update has hardly changed says nothing, and the server uses the last one that it sent.

T. Chen, G. Giannakis, T. Sun & W. Yin, "LAG: Lazily aggregated gradient for communication-efficient distributed
learning", NeurIPS 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hcsfed.aggregate.algorithms import FedAvg
from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import as_array, like, row_norms
from hcsfed.errors import bad
from hcsfed.types import Ints, State, View
from hcsfed.updates import Updates, Vectors


@dataclass(frozen=True)
class Lag(FedAvg):
    """Client k uploads only if (N·ω_k)²·‖u_k − ŷ_k‖² > trigger·Σ_d ‖w_{t+1−d} − w_{t−d}‖² over the last D rounds.

    ŷ_k is its last upload, which both sides hold; where the trigger is not met, ŷ_k stands for u_k. With one full-batch
    step, equal ω_k and everyone asked this is LAG-WK, the paper's form in which the workers decide, trigger being its
    ξ. LAG-PS, in which the server decides from smoothness constants, is not offered: a federation does not know them.

    Who is asked at all is the selector's: the paper asks everyone (``full``), and all of them compute in every round.
    Under another selector the picked alone compute and decide, the selection's weights hold for what they stand for,
    and with ``estimator=mifa`` the last uploads of everyone else count as well. A silent client costs its local steps
    and the model down, but no upload; the bit that says so is not counted.

    Parameters
    ----------
    trigger
        ξ; 0: whoever has anything new uploads, which is FedAvg.
    window
        D.
    """

    trigger: float = 0.1
    window: int = 10

    name: ClassVar[str] = "lag"

    def __post_init__(self) -> None:
        if not 0 <= self.trigger < float("inf"):
            raise bad("trigger", self.name, "a number ≥ 0", self.trigger)
        if isinstance(self.window, bool) or not isinstance(self.window, int) or self.window < 1:
            raise bad("window", self.name, "an int ≥ 1", self.window)

    def start(self, setup: Setup) -> State:
        return {
            "last": setup.shelves.start(setup.clients, setup.dimension),
            "known": np.zeros(setup.clients, bool),
            "moves": np.zeros(self.window),  # ‖w_{t+1−d} − w_{t−d}‖²
            "at": np.zeros(setup.dimension, np.float32),  # the model of the round that was opened last
            "round": np.full(1, -1),
        }

    def train(self, setup: Setup, state: State, parameters: Vectors, ids: Ints, round: int) -> Iterator[Updates]:
        enough = self.trigger * self._moves(state, parameters, round).sum()
        kept = setup.rows(state, "last", self.name)
        for chunk in setup.train(parameters, ids, round):
            last = like(kept.read(chunk.ids), chunk.vectors)
            new = setup.clients * setup.weights[chunk.ids] * row_norms(chunk.vectors - last)
            sent = (new**2 > enough) | ~state["known"][chunk.ids] | ~np.isfinite(new)
            if not sent.all():
                silent = np.flatnonzero(~sent)
                chunk.vectors[silent] = last[silent]
            yield replace(chunk, sent=sent)

    def _moves(self, state: State, parameters: Vectors, round: int) -> np.ndarray:
        """‖w_{t+1−d} − w_{t−d}‖² for d = 1 … D, whether the round was opened already or not."""
        moves: np.ndarray = state["moves"].copy()
        if 0 <= state["round"][0] < round:
            moves[1:] = moves[:-1]
            moves[0] = (np.subtract(as_array(parameters), state["at"], dtype=np.float64) ** 2).sum()
        return moves

    def open(self, setup: Setup, state: State, parameters: Vectors, view: View) -> None:
        state["moves"][:] = self._moves(state, parameters, view.round)
        state["at"][:] = as_array(parameters)
        state["round"][:] = view.round

    def learn(self, setup: Setup, state: State, parameters: Vectors, updates: Updates, round: int) -> None:
        sent = slice(None) if updates.sent is None else updates.sent
        ids = updates.ids[sent]
        setup.rows(state, "last", self.name).write(ids, as_array(updates.vectors)[sent])
        state["known"][ids] = True
