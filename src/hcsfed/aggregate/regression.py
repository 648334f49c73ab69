"""The regression estimator: what the clients' features say of their updates, corrected by those who answer.

C.-E. Särndal, B. Swensson & J. Wretman, Model Assisted Survey Sampling (1992), ch. 6, for the estimator; J.-C. Deville
& C.-E. Särndal, "Calibration estimators in survey sampling", JASA 1992, for its weights. That the regression is of what
was heard in earlier rounds, and that every client keeps a remainder of its own, is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import WeightedSum, add_rows, as_array
from hcsfed.aggregate.estimator import Total
from hcsfed.aggregate.first import grown, remember, squares
from hcsfed.errors import bad
from hcsfed.shelf import Shelf
from hcsfed.types import Floats, Ints, Selection, State, View
from hcsfed.updates import Updates, Vectors


@dataclass(frozen=True)
class Regression:
    """Σ_k ω_k·ŷ_k + Σ_{i∈S} v_i·(u_i − ŷ_i) with the guess ŷ_k = Dᵀ·x_k + e_k.

    x_k is the client's first feature. D is the ridge regression of updates on features, of all answers so far, the
    latest counting most: what one client sends renews the guesses of all that are like it. e_k is what D left of the
    client's own last update, zero for who was never picked. No guess is ever written down: Σ ω_k·ŷ_k is
    Dᵀ·(Σ ω_k·x_k) + Σ ω_k·e_k, and the server keeps e_k for each client (in a file where they are many) and as many
    vectors as a feature has numbers. Features may come from fewer local steps than updates: D finds the scale.

    Parameters
    ----------
    penalty
        λ, in units of the features' median squared length.
    recency
        In round t an answer of round s counts (s/t)^recency: updates change the less the longer the run; 0: all alike.
    weights
        v. ``selection``: the selection's own, with which the estimate is unbiased. ``calibrated``: those of clients
        that are heard for the first time are corrected until their features sum to what they stand for. A little bias,
        and less variance in the first rounds.
    opening
        ``none``, or ``full``: everyone answers in the first round.
    """

    penalty: float = 0.1
    recency: float = 2.0
    weights: Literal["selection", "calibrated"] = "calibrated"
    opening: Literal["none", "full"] = "none"

    name: ClassVar[str] = "regression"
    compares: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for parameter, value, allowed in (
            ("weights", self.weights, ("selection", "calibrated")),
            ("opening", self.opening, ("none", "full")),
        ):
            if value not in allowed:
                raise bad(parameter, self.name, "one of " + ", ".join(allowed), value)
        if not 0 < self.penalty < np.inf:
            raise bad("penalty", self.name, "a number > 0", self.penalty)
        if not 0 <= self.recency < np.inf:
            raise bad("recency", self.name, "a number >= 0", self.recency)

    @property
    def everyone_first(self) -> bool:
        return self.opening == "full"

    def start(self, setup: Setup) -> State:
        return {
            "kept": setup.shelves.start(setup.clients, setup.dimension),  # e_k
            "mean": np.zeros(setup.dimension),  # Σ ω_k·e_k, as it changes
            "known": np.zeros(setup.clients, bool),
            "rounds": np.zeros(1),
        }

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        """The mean of all remainders follows the weights; of who has come nothing is kept, and no feature is known."""
        state["kept"] = setup.shelves.longer(state["kept"], setup.clients)
        grown(state, len(before), setup.clients)
        change = setup.change(before)
        used = np.flatnonzero(change)
        for at, rows in setup.rows(state, "kept", self.name).blocks(used):
            add_rows(state["mean"], rows, change[used[at]])

    def open(self, setup: Setup, state: State, view: View, selection: Selection) -> Total:
        kept = setup.rows(state, "kept", self.name)
        total = WeightedSum(setup.dimension, setup.device, state["mean"])
        if not remember(state, view, self.name):  # nobody is there
            return _Correction(setup, state, kept, total, selection.ids, selection.weights, 0.0)
        x = state["features"]
        if "products" not in state:
            state["products"] = np.zeros((x.shape[1], setup.dimension))  # Xᵀ·Y of what was heard
            state["moments"] = np.zeros((x.shape[1], x.shape[1]))  # Xᵀ·X
        ridge = max(self.penalty * float(np.median(squares(x))), float(np.finfo(float).tiny))
        solved = np.linalg.inv(state["moments"] + ridge * np.eye(x.shape[1]))
        ids, weights = selection.ids, selection.weights
        if self.weights == "calibrated":
            weights = calibrated(x, state["known"], _stand_for(view, selection), ids, weights, ridge * solved, ridge)
        if state["known"].any():
            total.add(state["products"], solved @ (summed(x, setup.weights) - weights @ x[ids]))
            for at, rows in kept.blocks(ids):
                total.add(rows, -weights[at])
        if len(ids):
            state["rounds"] += 1
            t = float(state["rounds"][0])
            fade = ((t - 1) / t) ** self.recency if t > 1 else 1.0
            state["products"] *= fade
            state["moments"] *= fade
        return _Correction(setup, state, kept, total, ids, weights, ridge)


def _stand_for(view: View, selection: Selection) -> Floats:
    """How much of each client the selection's weights stand for, on average over draws."""
    reached = np.where(view.available, view.weights, 0.0)
    return np.asarray(reached * (float(selection.info.get("share", 1.0)) / max(float(reached.sum()), 1e-300)))


def calibrated(
    x: NDArray[np.float32],
    known: NDArray[np.bool_],
    stand_for: Floats,
    ids: Ints,
    weights: Floats,
    left: NDArray[np.floating[Any]],
    noise: float,
) -> Floats:
    """The weights v near those given with Σ_{i∈S} v_i·x_i near Σ_k stand_for_k·x_k, both over clients not heard before.

    v = w + (A·C·Aᵀ + λI)⁻¹·A·C·g, with A the features of the new ones in the cohort, g the gap between the two sums
    under w, and C (``left``) what the regression has left open: directions that it knows well need no balance. It is
    the best linear prediction if coefficients vary like C and updates by λ (``noise``) about the regression.
    """
    new = np.flatnonzero(~known[ids])
    if not len(new):
        return weights
    a = x[ids[new]].astype(np.float64)
    gap = summed(x, np.where(known, 0.0, stand_for)) - weights[new] @ a
    v = weights.copy()
    v[new] += np.linalg.solve(a @ left @ a.T + noise * np.eye(len(new)), a @ (left @ gap))
    return v


def summed(x: NDArray[np.float32], weights: Floats) -> Floats:
    """Σ_k weights_k·x_k in float64, without a copy of x."""
    return np.asarray(np.einsum("k,kj->j", weights, x, dtype=np.float64))


@dataclass(eq=False)
class _Correction:
    """One round of it: answers replace what is kept as they come in, and once all are there, D learns from them."""

    setup: Setup
    state: State
    kept: Shelf
    total: WeightedSum
    ids: Ints
    weights: Floats
    ridge: float
    _done: int = field(default=0, init=False)

    def add(self, updates: Updates, weights: Floats) -> None:
        # Chunks come in the order of the selection; what they count was settled when the round was opened.
        here = slice(self._done, self._done + len(updates.ids))
        self._done = here.stop
        self.total.add(updates.vectors, self.weights[here])
        shares = self.setup.weights[updates.ids]
        for at, rows in self.kept.blocks(updates.ids):
            add_rows(self.state["mean"], rows, -shares[at])
        self.kept.write(updates.ids, as_array(updates.vectors))

    def value(self) -> Vectors:
        state, ids = self.state, self.ids
        if len(ids):
            x = state["features"][ids].astype(np.float64)
            for at, rows in self.kept.blocks(ids):
                state["products"] += x[at].T @ rows.astype(np.float64)
            state["moments"] += x.T @ x
            solved = np.linalg.solve(state["moments"] + self.ridge * np.eye(x.shape[1]), x.T)
            for at, rows in self.kept.blocks(ids):
                rest = rows - (solved[:, at].T @ state["products"]).astype(np.float32)
                self.kept.write(ids[at], rest)
                add_rows(state["mean"], rest, self.setup.weights[ids[at]])
        state["known"][ids] = True
        return self.total.value()
