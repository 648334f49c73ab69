"""SCAFFOLD: clients correct every step by how their own gradients differ from everyone's.

S. P. Karimireddy, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich & A. T. Suresh, "SCAFFOLD: Stochastic controlled
averaging for federated learning", ICML 2020, Alg. 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.aggregate.algorithms import FedAvg
from hcsfed.aggregate.clusters import clustered, joined
from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import add_rows, as_array
from hcsfed.aggregate.first import filled
from hcsfed.errors import bad
from hcsfed.settings import LocalTraining
from hcsfed.types import Features, Floats, Ints, State, View
from hcsfed.updates import Updates, Vectors

_ROWS = 1 << 24  # numbers at a time


@dataclass(frozen=True)
class Scaffold(FedAvg):
    """Client i steps along g_i(y) − c_i + c, where c = Σ_k ω_k·c_k is what all c_k, also those not picked, add up to.

    The picked renew their c_i, and the server adds Σ_{i∈S} ω_i·(c_i⁺ − c_i): with equal ω that is the paper's 1/N, not
    1/m, because c is a memory of all clients and not an estimate from a cohort. So it needs no weight of the selection.
    All c are 0 at the start. The server keeps N·d numbers for what in a real federation lies with the clients.

    Parameters
    ----------
    option
        What c_i⁺ is. 1: the gradient at the round's model over all of the client's rows, one more pass over them. 2:
        c_i − c − u_i/(K·η), the mean gradient along the K steps that were taken anyway.
    state
        Whose the c_i are. ``client``: each client's own, as published; in a file where they are many. ``cluster``,
        which is ours: clients alike share one, the mean of what its picked members found last, H·d numbers; clusters
        are found once, on the first features. ``none``: there are none, which leaves FedAvg.
    clusters
        H.
    """

    option: Literal[1, 2] = 2
    state: Literal["client", "cluster", "none"] = "client"
    clusters: int = 10

    name: ClassVar[str] = "scaffold"

    def __post_init__(self) -> None:
        if self.option not in (1, 2):
            raise bad("option", self.name, "1 or 2", self.option)
        if self.state not in ("client", "cluster", "none"):
            raise bad("state", self.name, "one of client, cluster, none", self.state)
        if isinstance(self.clusters, bool) or not isinstance(self.clusters, int) or self.clusters < 1:
            raise bad("clusters", self.name, "an int >= 1", self.clusters)

    @property
    def vectors(self) -> int:  # type: ignore[override]
        return 1 if self.state == "none" else 2

    @property
    def compares(self) -> bool:  # type: ignore[override]
        return self.state == "cluster"

    @property
    def gradients(self) -> bool:
        """Whether clients send the gradient over all of their rows beside the update."""
        return self.option == 1

    def local(self, work: LocalTraining) -> LocalTraining:
        if work.momentum:
            raise bad("local.momentum", self.name, "0", work.momentum, "use server=momentum")
        return work

    def start(self, setup: Setup) -> State:
        if self.state == "none":
            return {}
        memory: State = {"all": np.zeros(setup.dimension), "change": np.zeros(setup.dimension)}
        if self.state == "client":
            return {"own": setup.shelves.start(setup.clients, setup.dimension), **memory}
        clusters = min(self.clusters, setup.clients)
        return {
            "own": np.zeros((clusters, setup.dimension), np.float32),
            "sums": np.zeros((clusters, setup.dimension)),
            "heard": np.zeros(clusters, np.int64),
            **memory,
        }

    def correction(self, setup: Setup, state: State, ids: Ints) -> NDArray[Any] | None:
        if self.state == "none":
            return None
        return np.asarray(state["all"].astype(np.float32) - self._own(setup, state, ids))

    def _own(self, setup: Setup, state: State, ids: Ints) -> Features:
        """c_i of these clients."""
        if self.state == "cluster":  # before clusters are known, all c are 0
            return np.asarray(state["own"][state["labels"][ids] if "labels" in state else np.zeros_like(ids)])
        return setup.rows(state, "own", self.name).read(ids)

    def open(self, setup: Setup, state: State, parameters: Vectors, view: View) -> None:
        if self.state == "cluster" and "labels" not in state and view.available.any():
            state["labels"] = clustered(filled(view, self.name)[0], len(state["own"]))

    def learn(self, setup: Setup, state: State, parameters: Vectors, updates: Updates, round: int) -> None:
        if self.state == "none":
            return
        ids = updates.ids
        old = self._own(setup, state, ids)
        if self.option == 1:
            new = np.concatenate([as_array(g.vectors) for g in setup.gradients(parameters, ids)])
        else:
            # A client without a step has learned nothing: its u is 0, and so is what it divides by.
            taken = (np.maximum(updates.steps, 1) * setup.rate(round)).astype(np.float32)
            new = old - state["all"].astype(np.float32) - as_array(updates.vectors) / taken[:, None]
            new[updates.steps == 0] = old[updates.steps == 0]
        if self.state == "client":
            add_rows(state["change"], new - old, setup.weights[ids])
            setup.rows(state, "own", self.name).write(ids, new)
        else:
            for row, vector in zip(state["labels"][ids].tolist(), new, strict=True):
                state["sums"][row] += vector
                state["heard"][row] += 1

    def close(self, setup: Setup, state: State) -> None:
        if self.state == "none":
            return
        if self.state == "cluster" and state["heard"].any():
            rows = np.flatnonzero(state["heard"])
            new = (state["sums"][rows] / state["heard"][rows, None]).astype(np.float32)
            shares = np.zeros(len(state["own"]))  # Σ ω_k of each cluster
            np.add.at(shares, state["labels"], setup.weights)
            add_rows(state["change"], new - state["own"][rows], shares[rows])
            state["own"][rows] = new
            state["sums"][:] = 0
            state["heard"][:] = 0
        state["all"] += state["change"]
        state["change"][:] = 0

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        """The sum of all ω_k·c_k follows; the c_k of who has come is 0, or its cluster's."""
        if self.state == "none":
            return
        if self.state == "client":
            state["own"] = setup.shelves.longer(state["own"], setup.clients)
        elif "labels" in state:
            state["labels"] = joined(state["labels"], setup.clients)
        change = setup.change(before)
        ids = np.arange(setup.clients if self.state == "cluster" else len(before))
        size = max(1, _ROWS // setup.dimension)
        for first in range(0, len(ids), size):
            part = ids[first : first + size]
            add_rows(state["all"], self._own(setup, state, part), change[part])

    def extra_steps(self, setup: Setup, ids: Ints) -> int:
        """An extra pass over the rows, counted in minibatches."""
        if self.option == 2 or self.state == "none":
            return 0
        return int((-(-setup.sizes[ids] // setup.work.batch)).sum())
