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

from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import WeightedSum, add_rows, as_array
from hcsfed.aggregate.estimator import Total
from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Features, Floats, Ints, Selection, State, View
from hcsfed.updates import Updates, Vectors


@dataclass(frozen=True)
class Difference:
    """Σ_k ω_k·ŷ_k + Σ_{i∈S} weights_i·(u_i − ŷ_i): unbiased for any guess ŷ, and as exact as the guess is good.

    Every guess is a linear combination of vectors that the server keeps, ŷ_k = Σ_r A_kr·y_r, so the estimate is
    Σ_r β_r·y_r + Σ_{i∈S} weights_i·u_i with β = Aᵀ(ω − weights): no guess is ever written down. That the cohort's own
    guesses are those from before the round is what makes it unbiased.

    Parameters
    ----------
    state
        What is kept. ``client``: each client's last update, N·d numbers. ``cluster``: one update per cluster, H·d, the
        mean of what its picked members sent last; clusters are found once, on the first features. ``none``: nothing,
        which leaves the selection's own weights.
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
        rows = {"client": setup.clients, "cluster": min(self.clusters, setup.clients), "none": 0}[self.state]
        memory: State = {
            "kept": np.zeros((rows, setup.dimension), np.float32),  # y_r
            "mean": np.zeros(setup.dimension),  # Σ_r (Σ_k ω_k of those whom r stands for)·y_r, as it changes
        }
        if self.opening == "ridge":
            memory["known"] = np.zeros(setup.clients, bool)
        return memory

    def open(self, setup: Setup, state: State, view: View, selection: Selection) -> Total:
        if self.state == "cluster" and "labels" not in state:
            state["labels"] = _clustered(view, len(state["kept"]))
        owner = self._owner(state, setup.clients)
        weights = setup.weights[selection.ids] if self.weights == "own" else selection.weights
        beta = np.zeros(len(state["kept"]))  # what the mean does not hold already
        if len(beta):
            np.subtract.at(beta, owner[selection.ids], weights)
        if self.opening == "ridge" and "features" not in state:
            state["features"] = _features(view).copy()
        if self.opening == "ridge" and state["known"].any():
            beta += self._regressed(state, setup.weights, selection.ids, weights)
        total = WeightedSum(setup.dimension, setup.device, state["mean"])
        used = np.flatnonzero(beta)
        total.add(state["kept"][used], beta[used])
        return _Correction(self, setup, state, owner, total)

    def _owner(self, state: State, clients: int) -> Ints:
        """Which kept vector stands for which client."""
        return state["labels"] if self.state == "cluster" else np.arange(clients)

    def _regressed(self, state: State, shares: Floats, ids: Ints, weights: Floats) -> Floats:
        """How much of each kept update is in Σ_k ω_k·ŷ_k − Σ_{i∈S} weights_i·ŷ_i, over the k of whom none is kept.

        With X the first features of those whose updates are kept, ŷ(x) = Yᵀ·X·(XᵀX + λI)⁻¹·x, which is linear in x.
        """
        known = state["known"]
        left = np.where(known, 0.0, shares)
        np.subtract.at(left, ids, np.where(known[ids], 0.0, weights))
        at = np.flatnonzero(left)
        wanted = left[at] @ state["features"][at].astype(np.float64)
        x = state["features"][known].astype(np.float64)
        moments = x.T @ x
        ridge = max(self.penalty * float(np.trace(moments)) / len(moments), np.finfo(float).tiny)
        beta = np.zeros(len(known))
        beta[known] = x @ np.linalg.solve(moments + ridge * np.eye(len(moments)), wanted)
        return beta


@dataclass(eq=False)
class _Correction:
    """One round of it: kept vectors are read before the round and replaced as the new ones come in."""

    estimator: Difference
    setup: Setup
    state: State
    owner: Ints
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
            add_rows(state["mean"], vectors - state["kept"][ids], shares)
            state["kept"][ids] = vectors
        elif self.estimator.state == "cluster":
            for row, vector in zip(self.owner[ids], vectors, strict=True):
                self.sums[row] += vector
                self.heard[row] += 1
        if self.estimator.opening == "ridge":
            state["known"][ids] = True

    def value(self) -> Vectors:
        if self.estimator.state == "cluster":
            rows = np.flatnonzero(self.heard)
            new = (self.sums[rows] / self.heard[rows, None]).astype(np.float32)
            parts = np.zeros(len(self.heard))  # Σ ω_k of each cluster
            np.add.at(parts, self.owner, self.setup.weights)
            add_rows(self.state["mean"], new - self.state["kept"][rows], parts[rows])
            self.state["kept"][rows] = new
        return self.total.value()


def _features(view: View) -> Features:
    if view.features is None:
        raise bad("view", Difference.name, "given with features", None)
    if np.isfinite(view.features.sum()):
        return view.features
    rows = view.features.copy()  # of whom nothing is known, nothing is expected
    rows[~np.isfinite(rows).all(axis=1)] = 0
    return rows


def _clustered(view: View, clusters: int) -> Ints:
    """k-means of the features; the same for the same features, whoever runs it."""
    from warnings import catch_warnings, simplefilter

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    seed = int(stream(0, "proxy clusters").integers(1 << 31))
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # fewer distinct clients than clusters
        labels = KMeans(clusters, n_init=1, random_state=seed).fit_predict(_features(view))
    return np.asarray(labels, np.int64)


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
