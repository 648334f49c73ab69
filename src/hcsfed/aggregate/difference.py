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

from hcsfed.aggregate.clusters import centres, clustered, joined
from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import WeightedSum, add_rows, as_array
from hcsfed.aggregate.estimator import Total
from hcsfed.aggregate.first import grown, newcomers, remember
from hcsfed.errors import bad
from hcsfed.shelf import Shelf
from hcsfed.types import Bools, Features, Floats, Ints, Selection, State, View
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
        first round; ``nearest``: what is kept of the client whose first feature is nearest (``client`` only; everyone
        not heard is compared with everyone heard).
    clusters
        H.
    weights
        ``selection``, or ``own``: ω_i in place of weights_i. Then the estimate is the mean of all last updates (MIFA):
        biased, never far off, and no weight can explode.
    """

    state: Literal["client", "cluster", "none"] = "client"
    opening: Literal["zero", "full", "nearest"] = "zero"
    clusters: int = 10
    weights: Literal["selection", "own"] = "selection"

    name: ClassVar[str] = "difference"

    def __post_init__(self) -> None:
        for parameter, value, allowed in (
            ("state", self.state, ("client", "cluster", "none")),
            ("opening", self.opening, ("zero", "full", "nearest")),
            ("weights", self.weights, ("selection", "own")),
        ):
            if value not in allowed:
                raise bad(parameter, self.name, "one of " + ", ".join(allowed), value)
        if isinstance(self.clusters, bool) or not isinstance(self.clusters, int) or self.clusters < 1:
            raise bad("clusters", self.name, "an int >= 1", self.clusters)
        if self.opening == "nearest" and self.state != "client":
            raise bad("opening", self.name, f"zero or full where state is {self.state}", self.opening)

    @property
    def compares(self) -> bool:
        return self.state == "cluster" or self.opening == "nearest"

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
        if self.opening == "nearest":
            memory["known"] = np.zeros(setup.clients, bool)
        return memory

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        """The mean of all guesses follows the weights; of who has come nothing is kept, and no feature is known."""
        if self.state == "client":
            state["kept"] = setup.shelves.longer(state["kept"], setup.clients)
        if "labels" in state:
            state["labels"] = joined(state["labels"], setup.clients)
        grown(state, len(before), setup.clients)
        shares = np.zeros(len(state["kept"]))
        if len(shares):
            np.add.at(shares, self._owner(state, setup.clients), setup.change(before))
        used = np.flatnonzero(shares)
        for at, rows in setup.rows(state, "kept", self.name).blocks(used):
            add_rows(state["mean"], rows, shares[used[at]])

    def open(self, setup: Setup, state: State, view: View, selection: Selection) -> Total:
        if self.state == "cluster":
            self._meet(setup, state, view)
        owner = self._owner(state, setup.clients)
        ids = selection.ids
        weights = setup.weights[ids] if self.weights == "own" else selection.weights
        beta = np.zeros(len(state["kept"]))  # what the mean does not hold already
        if len(beta):
            np.subtract.at(beta, owner[ids], weights)
        if self.opening == "nearest" and remember(state, view, self.name):
            heard = state["known"]
            if heard.any() and not heard.all():
                left = np.where(heard, 0.0, setup.weights)
                np.subtract.at(left, ids, np.where(heard[ids], 0.0, weights))
                np.add.at(beta, nearest(state["features"], heard), left[~heard])
        kept = setup.rows(state, "kept", self.name)
        total = WeightedSum(setup.dimension, setup.device, state["mean"])
        used = np.flatnonzero(beta)
        for at, rows in kept.blocks(used):
            total.add(rows, beta[used[at]])
        return _Correction(self, setup, state, owner, kept, total)

    def _meet(self, setup: Setup, state: State, view: View) -> None:
        """First features of clients that the server hears of for the first time: they find their clusters."""
        begun = "labels" in state
        came = newcomers(state, view, self.name)
        if came is None:
            return
        x, met, new = came
        if begun:
            self._move(setup, state, x, np.flatnonzero(new))
        else:
            state["labels"] = clustered(x, len(state["kept"]))
            state["centres"] = centres(x[met], state["labels"][met], len(state["kept"]))

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
            if self.estimator.opening == "nearest":
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


def nearest(x: Features, known: Bools) -> Ints:
    """For each of those who are not known, the nearest who is."""
    from sklearn.metrics import pairwise_distances_argmin

    heard = np.flatnonzero(known)
    return np.asarray(heard[pairwise_distances_argmin(x[~known], x[heard])])
