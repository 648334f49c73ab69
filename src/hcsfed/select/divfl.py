"""Diverse selection: the m clients that best represent all, by a facility-location function.

Balakrishnan, Li, Zhou, Himayat, Smith, Bilmes, "Diverse Client Selection for Federated Learning via Submodular
Maximization", ICLR 2022. Lazy evaluation: Minoux, "Accelerated Greedy Algorithms for Maximizing Submodular Set
Functions", 1978. Random candidates: Mirzasoleiman et al., "Lazier Than Lazy Greedy", AAAI 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.select.contract import Claims
from hcsfed.select.refresh import Refresh, check_refresh, who_trains
from hcsfed.types import Features, Floats, Ints, Selection, View

_TABLE = 2**22
_MOST = 20_000


@dataclass(frozen=True)
class DivFL:
    """Greedy minimiser of G(S) = Σ_k ω_k·min_{i∈S} ‖x_k − x_i‖; client i then weighs Σ ω_k of those nearest to it.

    Needs features; with last-known ones (the source's form without extra communication) the picked alone train. Biased:
    the features decide, and only ties are left to the coin.

    The source counts clients and weighs i by how many it represents; with ω_k in place of 1/N that carries over to
    clients of unequal weight. The greedy is exact, with lazy evaluation, unless ``candidates`` is given.

    Parameters
    ----------
    candidates
        Clients tried per place, drawn anew for each (the source's stochastic greedy); 0: all, for up to 20,000 clients.
    refresh, max_age
        As in :class:`~hcsfed.select.hybrid.Hybrid`.
    """

    candidates: int = 0
    refresh: Refresh = "stale"
    max_age: int = 0

    name: ClassVar[str] = "divfl"

    def __post_init__(self) -> None:
        check_refresh(self.name, self.refresh, self.max_age)

    @property
    def claims(self) -> Claims:
        return Claims(False, True, frozenset({"features"}), who_trains(self.refresh))

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.features is None:
            raise bad("view", self.name, "given with features", None)
        if self.candidates < 0:
            raise bad("candidates", self.name, "an int >= 0", self.candidates)
        if not self.candidates and view.clients > _MOST:
            raise bad(
                "candidates", self.name, f"an int >= 1 for more than {_MOST} clients", 0, "all pairs are too many"
            )
        order = rng.permutation(view.clients)  # the first of equals wins: let a coin say who comes first
        sites = _Sites(view.features[order], view.weights[order])
        chosen = sites.stochastic(size, self.candidates, rng) if self.candidates else sites.lazy(size)
        nearest = np.argmin(sites.distances(chosen), axis=0)
        nearest[chosen] = np.arange(size)  # twins of a chosen one may stand nearer by rounding; it represents itself
        shares: Floats = np.bincount(nearest, view.weights[order], minlength=size).astype(np.float64)
        ids = order[chosen]
        by_number = np.argsort(ids)
        labels = np.empty(view.clients, np.int64)
        labels[order] = np.argsort(by_number)[nearest]
        return Selection(ids[by_number], shares[by_number], None, {"labels": labels})


class _Sites:
    """Clients as sites and as those to be served, ``served[k]`` being the distance to the nearest chosen site."""

    def __init__(self, features: Features, weights: Floats) -> None:
        x = features.astype(np.float64)
        x = x / (np.abs(x).max(initial=0) or 1.0)  # squares of huge claims must not overflow
        self.x: NDArray[np.float64] = x - x.mean(axis=0)
        self.squares = np.einsum("ij,ij->i", self.x, self.x)
        self.weights = weights
        # No distance is larger: the gain of the first site is measured from here.
        self.served = np.full(len(x), 2 * float(np.sqrt(self.squares.max(initial=0))))

    def distances(self, sites: Ints) -> NDArray[np.float64]:
        squares = self.squares[sites, None] + self.squares - 2 * (self.x[sites] @ self.x.T)
        return np.asarray(np.sqrt(np.maximum(squares, 0)))

    def gains(self, sites: Ints) -> Floats:
        """What each site would take off G, a block of sites at a time."""
        block = max(1, _TABLE // len(self.x))
        out = [
            np.maximum(self.served - self.distances(sites[i : i + block]), 0) @ self.weights
            for i in range(0, len(sites), block)
        ]
        return np.concatenate(out)

    def add(self, site: int) -> None:
        np.minimum(self.served, self.distances(np.array([site]))[0], out=self.served)

    def lazy(self, size: int) -> Ints:
        """Gains only shrink, so an old gain is a bound: evaluate in that order until a fresh one beats all bounds."""
        n = len(self.x)
        bounds = self.gains(np.arange(n))
        chosen: list[int] = []
        for place in range(size):
            fresh = np.full(n, True) if place == 0 else np.isneginf(bounds)
            batch = 16
            while not fresh[top := int(np.argmax(bounds))]:
                order = np.argpartition(-bounds, min(batch, n - 1))[:batch]
                due = np.union1d(order[~fresh[order]], top)
                bounds[due] = self.gains(due)
                fresh[due] = True
                batch *= 2
            chosen.append(top)
            bounds[top] = -np.inf
            self.add(top)
        return np.array(chosen)

    def stochastic(self, size: int, candidates: int, rng: np.random.Generator) -> Ints:
        left = np.arange(len(self.x))
        chosen: list[int] = []
        for _ in range(size):
            tried = rng.choice(left, min(candidates, len(left)), replace=False)
            top = int(tried[np.argmax(self.gains(tried))])
            chosen.append(top)
            left = left[left != top]
            self.add(top)
        return np.array(chosen)
