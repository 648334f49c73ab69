"""The difference estimator: the server guesses every client's update, and the cohort corrects the guess.

C.-E. Särndal, B. Swensson & J. Wretman, Model Assisted Survey Sampling (1992), ch. 6. In this field: D. Jhunjhunwala,
P. Sharma, A. Nagarkatti & G. Joshi, "FedVARP: Tackling the variance due to partial client participation in federated
learning", UAI 2022 (a client's last update, and a cluster's); X. Gu, K. Huang, J. Zhang & L. Huang, "Fast federated
learning in the presence of arbitrary device unavailability", NeurIPS 2021 (MIFA).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.aggregate.clusters import centres, clustered, filled, joined
from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import WeightedSum, add_products, add_rows, as_array
from hcsfed.aggregate.estimator import Total
from hcsfed.errors import bad
from hcsfed.shelf import Shelf
from hcsfed.types import Features, Floats, Ints, Selection, State, View
from hcsfed.updates import Updates, Vectors


@dataclass(frozen=True)
class Difference:
    """Σ_k ω_k·ŷ_k + Σ_{i∈S} weights_i·(u_i − ŷ_i): unbiased for any guess ŷ, and as exact as the guess is good.

    Every guess is a linear combination of vectors that the server keeps, so its share of the estimate is one too, and
    no guess is ever written down. That the cohort's own guesses are those from before the round is what makes it
    unbiased.

    Parameters
    ----------
    state
        What is kept. ``client``: each client's last update, N·d numbers, in a file where they are many. ``cluster``:
        one update per cluster, H·d, the mean of what its picked members sent last; clusters are found once, on the
        first features. ``none``: nothing, which leaves the selection's own weights.
    opening
        The guess for those of whom nothing is kept yet. ``zero``; ``full``: there are none, as everyone answers in the
        first round; ``ridge``: by ridge regression of the kept updates on everyone's first features (``client``
        only). These may come from fewer local steps than the updates: the regression finds the scale.
    clusters
        H.
    penalty
        Of the regression, in units of the mean eigenvalue of the features' second moments.
    weights
        ``selection``, or ``own``: ω_i in place of weights_i. Then the estimate is the mean of all last updates (MIFA):
        biased, never far off, and no weight can explode.
    """

    state: Literal["client", "cluster", "none"] = "client"
    opening: Literal["zero", "full", "ridge"] = "zero"
    clusters: int = 10
    penalty: float = 0.01
    weights: Literal["selection", "own"] = "selection"

    name: ClassVar[str] = "difference"

    def __post_init__(self) -> None:
        for parameter, value, allowed in (
            ("state", self.state, ("client", "cluster", "none")),
            ("opening", self.opening, ("zero", "full", "ridge")),
            ("weights", self.weights, ("selection", "own")),
        ):
            if value not in allowed:
                raise bad(parameter, self.name, "one of " + ", ".join(allowed), value)
        if isinstance(self.clusters, bool) or not isinstance(self.clusters, int) or self.clusters < 1:
            raise bad("clusters", self.name, "an int >= 1", self.clusters)
        if not 0 < self.penalty < np.inf:
            raise bad("penalty", self.name, "a number > 0", self.penalty)
        if self.opening == "ridge" and self.state != "client":
            raise bad("opening", self.name, f"zero or full where state is {self.state}", self.opening)

    @property
    def compares(self) -> bool:
        return self.state == "cluster" or self.opening == "ridge"

    @property
    def everyone_first(self) -> bool:
        return self.opening == "full"

    def start(self, setup: Setup) -> State:
        clusters = min(self.clusters, setup.clients) if self.state == "cluster" else 0
        everyones = self.state == "client"
        memory: State = {  # the kept y_r
            "kept": setup.shelves.start(setup.clients, setup.dimension)
            if everyones
            else np.zeros((clusters, setup.dimension), np.float32),
            "mean": np.zeros(setup.dimension),  # Σ_r (Σ_k ω_k of those whom r stands for)·y_r, as it changes
        }
        if self.opening == "ridge":
            memory["known"] = np.zeros(setup.clients, bool)
        return memory

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        """The mean of all guesses follows the weights; of who has come nothing is kept, and no feature is known."""
        clients, more = setup.clients, setup.clients - len(before)
        if self.state == "client":
            state["kept"] = setup.shelves.longer(state["kept"], clients)
        if more:
            nobody = np.zeros(more, bool)
            if "known" in state:
                state["known"] = np.append(state["known"], nobody)
            if "labels" in state:
                state["labels"] = joined(state["labels"], clients)
            if "features" in state:
                middle = np.tile(state["features"].mean(axis=0), (more, 1))
                state["features"] = np.vstack([state["features"], middle])
            if "labels" in state or "features" in state:
                state["met"] = np.append(state.get("met", ~np.zeros(len(before), bool)), nobody)
        change = setup.weights.copy()
        change[: len(before)] -= before
        shares = np.zeros(len(state["kept"]))
        if len(shares):
            np.add.at(shares, self._owner(state, clients), change)
        used = np.flatnonzero(shares)
        for at, rows in setup.rows(state, "kept", self.name).blocks(used):
            add_rows(state["mean"], rows, shares[used[at]])

    def open(self, setup: Setup, state: State, view: View, selection: Selection) -> Total:
        if self.compares:
            self._meet(setup, state, view)
        owner = self._owner(state, setup.clients)
        weights = setup.weights[selection.ids] if self.weights == "own" else selection.weights
        beta = np.zeros(len(state["kept"]))  # what the mean does not hold already
        if len(beta):
            np.subtract.at(beta, owner[selection.ids], weights)
        kept = setup.rows(state, "kept", self.name)
        total = WeightedSum(setup.dimension, setup.device, state["mean"])
        used = np.flatnonzero(beta)
        for at, rows in kept.blocks(used):
            total.add(rows, beta[used[at]])
        if self.opening == "ridge" and state["known"].any():
            total.add(state["products"], self._regressed(state, setup.weights, selection.ids, weights))
        return _Correction(self, setup, state, owner, kept, total)

    def _meet(self, setup: Setup, state: State, view: View) -> None:
        """First features of clients that the server hears of for the first time.

        Of whom it has heard nothing yet, it guesses what it guesses of a client like the mean of the others: nobody may
        be left out of Σ ω_k·ŷ_k because it was out of reach.
        """
        begun = "features" in state or "labels" in state
        if (begun and "met" not in state) or not view.available.any():  # everyone is known, or nobody there
            return
        x, met = filled(view, self.name)
        earlier = state["met"] if begun else np.zeros_like(met)
        new = met & ~earlier
        if self.opening == "ridge":
            features = state.setdefault("features", x.copy())
            state.setdefault("products", np.zeros((x.shape[1], setup.dimension)))  # Xᵀ·Y of the known
            features[~earlier] = x[~earlier]
        elif begun:
            self._move(setup, state, x, np.flatnonzero(new))
        else:
            state["labels"] = clustered(view, len(state["kept"]), self.name)
            state["centres"] = centres(x[met], state["labels"][met], len(state["kept"]))
        state["met"] = met | earlier
        if state["met"].all():
            del state["met"]

    def _move(self, setup: Setup, state: State, x: Features, new: Ints) -> None:
        """Newcomers join the cluster that they are nearest to, and the mean of all guesses follows."""
        for k in new:
            nearest = int(((state["centres"] - x[k]) ** 2).sum(axis=1).argmin())
            change = state["kept"][nearest] - state["kept"][state["labels"][k]]
            state["mean"] += setup.weights[k] * change.astype(np.float64)
            state["labels"][k] = nearest

    def _owner(self, state: State, clients: int) -> Ints:
        """Which kept vector stands for which client."""
        if self.state == "cluster":
            none_yet = np.zeros(clients, np.int64)
            return np.asarray(state.get("labels", none_yet))
        return np.arange(clients)

    def _regressed(self, state: State, shares: Floats, ids: Ints, weights: Floats) -> Floats:
        """How much of each row of Xᵀ·Y is in Σ_k ω_k·ŷ_k − Σ_{i∈S} weights_i·ŷ_i, over the k of whom none is kept.

        With X the first features of those whose updates Y are kept, ŷ(x) = (Xᵀ·Y)ᵀ·(XᵀX + λI)⁻¹·x, linear in x: all
        the guesses together cost as much as one, and Xᵀ·Y has no more rows than a feature has numbers.
        """
        known = state["known"]
        left = np.where(known, 0.0, shares)
        np.subtract.at(left, ids, np.where(known[ids], 0.0, weights))
        at = np.flatnonzero(left)
        wanted = left[at] @ state["features"][at].astype(np.float64)
        x = state["features"][known].astype(np.float64)
        moments = x.T @ x
        ridge = max(self.penalty * float(np.trace(moments)) / len(moments), np.finfo(float).tiny)
        return np.asarray(np.linalg.solve(moments + ridge * np.eye(len(moments)), wanted))


@dataclass(eq=False)
class _Correction:
    """One round of it: kept vectors are read before the round and replaced as the new ones come in."""

    estimator: Difference
    setup: Setup
    state: State
    owner: Ints
    kept: Shelf
    total: WeightedSum
    sums: NDArray[Any] = field(init=False)
    heard: Ints = field(init=False)

    def __post_init__(self) -> None:
        if self.estimator.state == "cluster":
            self.sums = np.zeros(self.state["kept"].shape)
            self.heard = np.zeros(len(self.sums), np.int64)

    def add(self, updates: Updates, weights: Floats) -> None:
        ids, state = updates.ids, self.state
        shares = self.setup.weights[ids]
        self.total.add(updates.vectors, shares if self.estimator.weights == "own" else weights)
        vectors = as_array(updates.vectors)
        if self.estimator.state == "client":
            change = vectors - self.kept.read(ids)
            add_rows(state["mean"], change, shares)
            if self.estimator.opening == "ridge":
                add_products(state["products"], state["features"][ids], change)
                state["known"][ids] = True
            self.kept.write(ids, vectors)
        elif self.estimator.state == "cluster":
            for row, vector in zip(self.owner[ids], vectors, strict=True):
                self.sums[row] += vector
                self.heard[row] += 1

    def value(self) -> Vectors:
        if self.estimator.state == "cluster":
            rows = np.flatnonzero(self.heard)
            new = (self.sums[rows] / self.heard[rows, None]).astype(np.float32)
            parts = np.zeros(len(self.heard))  # Σ ω_k of each cluster
            np.add.at(parts, self.owner, self.setup.weights)
            add_rows(self.state["mean"], new - self.state["kept"][rows], parts[rows])
            self.state["kept"][rows] = new
        return self.total.value()


def fedvarp() -> Difference:
    """FedVARP: the guess is each client's last update, zero at first (Jhunjhunwala et al., UAI 2022)."""
    return Difference()


def clusterfedvarp(clusters: int = 10) -> Difference:
    """ClusterFedVARP: the guess is what the client's cluster sent last (Jhunjhunwala et al., UAI 2022)."""
    return Difference(state="cluster", clusters=clusters)


def mifa() -> Difference:
    """MIFA: the mean of everyone's last update, after a first round with everyone (Gu et al., NeurIPS 2021)."""
    return Difference(opening="full", weights="own")


def regression(penalty: float = 0.01) -> Difference:
    """Each client's last update; for those never picked, ridge regression of updates on first features."""
    return Difference(opening="ridge", penalty=penalty)
