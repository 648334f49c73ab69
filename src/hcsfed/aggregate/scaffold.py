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
from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import add_rows, as_array
from hcsfed.errors import bad
from hcsfed.settings import LocalTraining
from hcsfed.types import Ints, State
from hcsfed.updates import Updates, Vectors


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
    """

    option: Literal[1, 2] = 2

    name: ClassVar[str] = "scaffold"
    vectors: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.option not in (1, 2):
            raise bad("option", self.name, "1 or 2", self.option)

    def local(self, work: LocalTraining) -> LocalTraining:
        if work.momentum:
            raise bad("local.momentum", self.name, "0", work.momentum, "use server=momentum")
        return work

    def start(self, setup: Setup) -> State:
        return {
            "own": np.zeros((setup.clients, setup.dimension), np.float32),
            "all": np.zeros(setup.dimension),
            "change": np.zeros(setup.dimension),
        }

    def correction(self, setup: Setup, state: State, ids: Ints) -> NDArray[Any]:
        return np.asarray(state["all"].astype(np.float32) - state["own"][ids])

    def learn(self, setup: Setup, state: State, parameters: Vectors, updates: Updates, round: int) -> None:
        ids = updates.ids
        old = state["own"][ids]
        if self.option == 1:
            new = np.concatenate([as_array(g.vectors) for g in setup.gradients(parameters, ids)])
        else:
            # A client without a step has learned nothing: its u is 0, and so is what it divides by.
            taken = (np.maximum(updates.steps, 1) * setup.rate(round)).astype(np.float32)
            new = old - state["all"].astype(np.float32) - as_array(updates.vectors) / taken[:, None]
            new[updates.steps == 0] = old[updates.steps == 0]
        add_rows(state["change"], new - old, setup.weights[ids])
        state["own"][ids] = new

    def close(self, state: State) -> None:
        state["all"] += state["change"]
        state["change"][:] = 0

    def extra_steps(self, setup: Setup, ids: Ints) -> int:
        """An extra pass over the rows, counted in minibatches."""
        return int((-(-setup.sizes[ids] // setup.work.batch)).sum()) if self.option == 1 else 0
