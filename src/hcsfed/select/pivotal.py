"""Local pivotal method: neighbours duel for a place, so that the cohort is spread over the feature space.

A. Grafström, N. L. P. Lundström & L. Schelin, "Spatially balanced sampling through the pivotal method", Biometrics
2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.jit import compiled
from hcsfed.select.contract import Claims, Need
from hcsfed.select.draws import SURE, capped, check_share, duels, inclusion, settle
from hcsfed.select.refresh import Refresh, check_refresh, who_trains
from hcsfed.select.space import cells, chances_of, leading
from hcsfed.types import Features, Floats, Ints, Selection, View

Chances = Literal["weight", "equal", "norm"]

_BLOCK = 1024
_DIRECTIONS = 16  # by which cells are cut


@dataclass(frozen=True)
class LocalPivotal:
    """Whoever is picked keeps its neighbours out: a stratum to a place, and no number of clusters to choose.

    Unbiased, as π is kept exactly in every duel. Exact up to ``exact`` clients, where it compares all pairs. Beyond,
    the space is cut into small cells, in each of which duels leave one client that carries the cell's chances on; those
    meet as before.

    Parameters
    ----------
    features
        What clients are compared by: a name of :data:`hcsfed.features.FEATURES`.
    chances
        π ∝ ω_k (``weight``), all ``equal``, or ∝ ω_k‖u_k‖ (``norm``).
    refresh
        ``fresh``: all clients train and send a feature every round; ``stale``: the picked alone, of others the last
        one.
    max_age
        Rounds after which a client is picked for certain, on up to half of the places, because what is known of it is
        so old; 0: never. Means something where ``refresh`` is stale.
    mutual
        Whether only mutual nearest neighbours duel (the authors' method 1, slower) or any client with its nearest
        (method 2).
    exact
        Number of clients up to which all pairs are compared.
    max_share
        No client has more than this share of all chances (or an even share, if that is more): π_k ≤ m·max_share,
        whatever norm it claims.
    """

    features: str = "sketch"
    chances: Chances = "weight"
    refresh: Refresh = "stale"
    mutual: bool = False
    exact: int = 2000
    max_share: float = 1.0
    max_age: int = 0

    name: ClassVar[str] = "pivotal"

    def __post_init__(self) -> None:
        check(self.name, self.chances)
        check_refresh(self.name, self.refresh, self.max_age)
        check_share(self.name, self.max_share)
        if self.exact < 2:
            raise bad("exact", self.name, "an int >= 2", self.exact)

    @property
    def claims(self) -> Claims:
        return spatial_claims(self.chances, self.refresh)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.features is None:
            raise bad("view", self.name, "given with features", None)
        pi = inclusion(capped(chances_of(self.chances, view.weights, view.norms), self.max_share), size)
        ids = local_pivotal(view.features, pi, rng, mutual=self.mutual, exact=self.exact)
        return Selection(ids, view.weights[ids] / pi[ids], pi)


def local_pivotal(
    x: Features, pi: Floats, rng: np.random.Generator, *, mutual: bool = False, exact: int = 2000
) -> Ints:
    """A cohort spread over the rows of ``x``, with inclusion probabilities π."""
    pi = pi.copy()
    names = rng.permutation(len(pi))  # ties between neighbours fall by chance, not by name
    open_ = names[_undecided(pi[names])]
    if len(open_) > exact:
        points = leading(x, _DIRECTIONS, rng)
        share = float(pi[open_].mean())
        # A cell carries a quarter of a place or less, and no more cells are made than needed.
        size = max(1, min(int(0.25 / share), -(-len(open_) // exact)))
        order, length = cells(points[open_], size)
        filled = np.append(open_, -1)[order]
        chances = np.append(pi, 0.0)  # the filler is decided
        compiled(duels)(chances, filled, rng.random(len(filled)), SURE, length)
        pi = chances[:-1]
        open_ = filled[(filled >= 0) & _undecided(chances[filled])]
        if len(open_) > exact:
            for start in range(0, len(open_), _BLOCK):
                _meet(x, pi, open_[start : start + _BLOCK], mutual, rng)
            open_ = open_[_undecided(pi[open_])]
    _meet(x, pi, open_, mutual, rng)
    return settle(pi, rng)


def _undecided(pi: Floats) -> NDArray[np.bool_]:
    return np.asarray((pi > SURE) & (pi < 1 - SURE))


def _meet(x: Features, pi: Floats, units: Ints, mutual: bool, rng: np.random.Generator) -> None:
    """Duels between nearest neighbours among ``units``, until at most one is undecided."""
    if len(units) < 2:
        return
    gap = _distances(x[units])
    np.fill_diagonal(gap, np.inf)
    gone = np.zeros(len(units), gap.dtype)
    chances = pi[units].tolist()
    left = list(range(len(units)))
    place = list(range(len(units)))  # where each unit stands in `left`
    luck = rng.random((2, 2 * len(units) + 1))
    turn = 0
    while len(left) > 1:
        a = left[int(luck[0, turn] * len(left))]
        b = int((gap[a] + gone).argmin())
        while mutual:
            row = gap[b] + gone
            nearest = int(row.argmin())
            if row[nearest] >= row[a]:
                break
            a, b = b, nearest
        duels(chances, (a, b), (0.0, luck[1, turn]), SURE, 2)
        for unit in (a, b):
            if not SURE < chances[unit] < 1 - SURE:
                gone[unit] = np.inf
                last = left.pop()
                if last != unit:
                    left[place[unit]] = last
                    place[last] = place[unit]
        turn += 1
    pi[units] = chances


def _distances(x: NDArray[Any]) -> NDArray[np.float32]:
    """Squared distances between all rows; their scale does not matter."""
    x = x - x.mean(axis=0, dtype=np.float64)
    x /= max(float(np.abs(x).max(initial=0.0)), np.finfo(float).tiny)
    square = np.einsum("ij,ij->i", x, x)
    gap = square[:, None] - 2 * (x @ x.T) + square
    return np.asarray(np.maximum(gap, 0), np.float32)


def check(owner: str, chances: str) -> None:
    """Refuse settings that balanced designs can't work with."""
    if chances not in ("weight", "equal", "norm"):
        raise bad("chances", owner, "one of weight, equal, norm", chances)


def spatial_claims(chances: Chances, refresh: str) -> Claims:
    """What a balanced design promises."""
    needs: frozenset[Need] = frozenset({"features", "norms"} if chances == "norm" else {"features"})
    return Claims(unbiased=True, fixed_size=True, needs=needs, trains=who_trains(refresh))
