"""FedCor: a Gaussian process on how the clients' losses move together; pick who would pull the others along.

Tang, Ning, Wang, Sun, Wang, Li, Chen, "FedCor: Correlation-Based Active Client Selection Strategy for Heterogeneous
Federated Learning", CVPR 2022. The closed form: Tipping, Bishop, "Probabilistic Principal Component Analysis", JRSS B
61(3), 1999.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.select.contract import Claims, recall
from hcsfed.types import Answers, Floats, Ints, Selection, State, View


@dataclass(frozen=True)
class FedCor:
    """One by one the client k with the largest α_k·Σ_i ω_i·Σ_ik/√Σ_kk, Σ being then conditioned on k's loss.

    Loss changes of a round are taken as a draw from N(0, Σ), Σ = XᵀX + s²·I with an embedding of each client in
    ``dimension`` numbers. α_k = β^τ_k makes way for others, τ_k being how often k answered lately. The picked weigh ω_k
    over their Σω. Biased: after ``warmup`` rounds of uniform picks only ties are left to the coin.

    Needs losses, in every round; the picked alone train.

    Where we depart from the source. It finds X by gradient ascent on the likelihood of the last changes, each weighted
    γ^age, every ``interval`` rounds; the maximum has a closed form (the leading eigenvectors of the weighted second
    moments), taken in every round. So τ_k counts the last ``interval`` rounds, where the source counts since the last
    training. The change of a client that was out of reach before or after is taken as 0, the prior's mean.

    Parameters
    ----------
    memory
        How many changes are kept.
    """

    warmup: int = 15
    dimension: int = 15
    memory: int = 20
    gamma: float = 0.95
    beta: float = 0.9
    interval: int = 10

    name: ClassVar[str] = "fedcor"
    claims: ClassVar[Claims] = Claims(unbiased=False, fixed_size=True, needs=frozenset({"losses"}))

    def start(self, clients: int) -> State:
        for parameter in ("warmup", "dimension", "memory", "interval"):
            if getattr(self, parameter) < 1:
                raise bad(parameter, self.name, "an int >= 1", getattr(self, parameter))
        for parameter in ("gamma", "beta"):
            if not 0 < getattr(self, parameter) <= 1:
                raise bad(parameter, self.name, "a number in (0, 1]", getattr(self, parameter))
        return {
            "losses": np.full(clients, np.nan),
            "changes": np.zeros((self.memory, clients)),  # newest last
            "answered": np.zeros((self.interval, clients), np.bool_),
            "round": np.zeros(1, np.int64),
        }

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.losses is None:
            raise bad("view", self.name, "given with losses", None)
        state = recall(self, view)
        changes = self._changes(state, view)
        if state["round"][0] < self.warmup or not changes.any():
            ids = np.sort(rng.choice(view.clients, size, replace=False))
        else:
            order = rng.permutation(view.clients)
            embedding, noise = embed(changes[:, order], self.gamma, self.dimension)
            discount = self.beta ** state["answered"][:, view.ids[order]].sum(axis=0)
            ids = np.sort(order[leaders(embedding, noise, view.weights[order], discount, size)])
        info = {"heard": view.ids, "losses": view.losses}
        return Selection(ids, view.weights[ids] / view.weights[ids].sum(), None, info)

    def _changes(self, state: Mapping[str, NDArray[Any]], view: View) -> NDArray[np.float64]:
        """The kept changes with that of this round, of the view's clients."""
        latest = np.nan_to_num(view.losses - state["losses"][view.ids])
        return np.vstack([state["changes"][1:, view.ids], latest])

    def observe(self, state: State, selection: Selection, answers: Answers) -> State:
        losses = np.full(len(state["losses"]), np.nan)
        losses[selection.info["heard"]] = selection.info["losses"]
        answered = np.zeros((1, len(losses)), np.bool_)
        answered[0, answers.ids] = True
        return {
            "losses": losses,
            "changes": np.vstack([state["changes"][1:], np.nan_to_num(losses - state["losses"])]),
            "answered": np.vstack([state["answered"][1:], answered]),
            "round": state["round"] + 1,
        }


def embed(changes: NDArray[np.float64], gamma: float, dimension: int) -> tuple[NDArray[np.float64], float]:
    """X (clients × dimension) and s² that maximise the weighted likelihood of the changes (rounds × clients).

    The changes are scaled to at most 1 first: the greedy choice doesn't depend on their unit, and squares must not
    overflow.
    """
    rounds, n = changes.shape
    changes = changes / np.abs(changes).max()
    told = np.flatnonzero(changes.any(axis=1))
    weights = gamma ** (rounds - 1.0 - told)
    rows = changes[told] * np.sqrt(weights / weights.sum())[:, None]
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = min(dimension, len(told), n - 1)
    values, vectors = values[::-1][:kept], vectors[:, ::-1][:, :kept]
    rest = max(float((rows**2).sum() - values.sum()), 0.0) / (n - kept) if n > kept else 0.0
    scale = float((rows**2).sum()) / n
    noise = max(rest, 1e-6 * scale)  # the source, too, keeps Σ regular by a little noise
    strong = values > noise
    directions = rows.T @ (vectors[:, strong] / np.sqrt(values[strong]))
    return directions * np.sqrt(values[strong] - noise), noise


def leaders(embedding: NDArray[np.float64], noise: float, weights: Floats, discount: Floats, size: int) -> Ints:
    """The greedy choice, by a Cholesky factorisation with its pivots chosen by the criterion; never an N × N matrix."""
    n = len(embedding)
    variance = (embedding**2).sum(axis=1) + noise
    pull = embedding @ (embedding.T @ weights) + noise * weights  # Σ_i ω_i·Σ_ik
    columns = np.zeros((size, n))
    smallest = 1e-9 * noise
    left = np.ones(n, bool)
    chosen = np.zeros(size, np.int64)
    for j in range(size):
        score = np.where(left, discount * pull / np.sqrt(np.maximum(variance, smallest)), -np.inf)
        k = int(np.argmax(score))
        chosen[j], left[k] = k, False
        column = embedding @ embedding[k] - columns[:j].T @ columns[:j, k]
        column[k] += noise
        column /= np.sqrt(max(variance[k], smallest))
        columns[j] = column
        variance -= column**2
        pull -= column * (column @ weights)
    return chosen
