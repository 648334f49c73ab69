"""Cube method: a random cohort whose weighted features sum to nearly what all clients' features sum to.

J.-C. Deville & Y. Tillé, "Efficient balanced sampling: the cube method", Biometrika 2004; the fast flight of G. Chauvet
& Y. Tillé, Computational Statistics 2006; its local form by A. Grafström & Y. Tillé, Environmetrics 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.jit import compiled
from hcsfed.select.contract import Claims
from hcsfed.select.draws import SURE, capped, check_share, inclusion, settle
from hcsfed.select.pivotal import Chances, check, spatial_claims
from hcsfed.select.refresh import Refresh, check_refresh
from hcsfed.select.space import cells, chances_of, leading
from hcsfed.types import Features, Floats, Ints, Selection, View

_DIRECTIONS = 8  # by which neighbours are told
_CELL = 8
MOST = 16  # directions


@dataclass(frozen=True)
class Cube:
    """Σ_{i∈S} ω_i·X_i/π_i ≈ Σ_k ω_k·X_k along the leading directions of the X, in every single draw.

    The vector π is moved at random inside the cube [0, 1]^N, along directions that keep these sums, until all but a few
    of its entries are 0 or 1 (flight); for these few the sums are given up one by one, the size last (landing).
    Unbiased, as each move keeps the mean. As long as the update of a client is linear in its feature, the estimate is
    as good as the balance.

    Parameters
    ----------
    features
        What is balanced: a name of :data:`hcsfed.features.FEATURES`.
    directions
        How many leading directions are balanced; 0 means: m, but at most 16: with fewer than m - 1 much is
        left to chance, with more the landing gives up what the flight had gained.
    local
        Whether moves stay between neighbours, which also spreads the cohort as the local pivotal method does.
    chances
        π ∝ ω_k (``weight``), all ``equal``, or ∝ ω_k‖u_k‖ (``norm``).
    refresh
        ``fresh``: all clients train and send a feature every round; ``stale``: the picked alone, of others the last
        one.
    max_age
        Rounds after which a client is picked for certain, on up to half of the places, because what is known of it is
        so old; 0: never. Means something where ``refresh`` is stale.
    exact
        Number of clients up to which the local form looks for neighbours among all; beyond, stretches of clients that
        lie together fly first, until so many are left.
    max_share
        No client has more than this share of all chances (or an even share, if that is more): π_k ≤ m·max_share,
        whatever norm it claims.
    """

    features: str = "sketch"
    directions: int = 0
    local: bool = False
    chances: Chances = "weight"
    refresh: Refresh = "stale"
    exact: int = 2000
    max_share: float = 1.0
    max_age: int = 0

    name: ClassVar[str] = "cube"

    def __post_init__(self) -> None:
        check(self.name, self.chances)
        check_refresh(self.name, self.refresh, self.max_age)
        check_share(self.name, self.max_share)
        if self.directions < 0:
            raise bad("directions", self.name, "an int >= 0", self.directions)
        if self.exact < 2:
            raise bad("exact", self.name, "an int >= 2", self.exact)

    @property
    def claims(self) -> Claims:
        return spatial_claims(self.chances, self.refresh)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.features is None:
            raise bad("view", self.name, "given with features", None)
        pi = inclusion(capped(chances_of(self.chances, view.weights, view.norms), self.max_share), size)
        directions = self.directions or min(size, MOST)
        ids = cube(view.features, view.weights, pi, directions, rng, local=self.local, exact=self.exact)
        return Selection(ids, view.weights[ids] / pi[ids], pi)


def cube(
    x: Features,
    weights: Floats,
    pi: Floats,
    directions: int,
    rng: np.random.Generator,
    *,
    local: bool = False,
    exact: int = 2000,
) -> Ints:
    """A cohort with inclusion probabilities π that is balanced on its size and on leading directions of ω·X."""
    pi = pi.copy()
    sums = _balanced(x, weights, pi, directions, rng)
    open_ = rng.permutation(np.flatnonzero((pi > SURE) & (pi < 1 - SURE)))
    fly = compiled(_fly)
    if local and len(open_) > exact:
        order, _ = cells(sums[open_, 1 : 1 + _DIRECTIONS], _CELL)
        open_ = open_[order[order >= 0]]
        length = 4 * sums.shape[1]
        while len(open_) > max(exact, length):  # each stretch of neighbours flies alone and leaves a quarter undecided
            for start in range(0, len(open_), length):
                stretch = open_[start : start + length]
                fly(sums, pi, stretch, rng.random(len(stretch)), SURE)
            open_ = open_[(pi[open_] > SURE) & (pi[open_] < 1 - SURE)]
    if local:
        _fly_locally(sums, pi, open_, rng)
    else:
        fly(sums, pi, open_, rng.random(len(open_)), SURE)
    for kept in range(sums.shape[1] - 1, 0, -1):
        open_ = open_[(pi[open_] > SURE) & (pi[open_] < 1 - SURE)]
        if len(open_) < 2:
            break
        chances = pi[open_]
        fly(np.ascontiguousarray(sums[open_, :kept]), chances, np.arange(len(open_)), rng.random(len(open_)), SURE)
        pi[open_] = chances
    return settle(pi, rng)


def _balanced(x: Features, weights: Floats, pi: Floats, directions: int, rng: np.random.Generator) -> NDArray[Any]:
    """What a client adds to each sum to be kept, per unit of its π: 1 for the size, then ω_k·X_k/π_k, leading first."""
    scale = np.divide(weights, pi, out=np.zeros_like(pi), where=pi > 0)
    # About the mean: the mean itself is kept by the sum of scales where these differ, by the size where not.
    along = leading(x, directions, rng)
    largest = np.abs(along).max(axis=0, initial=0.0)
    unit = max(float(largest.max(initial=0.0)), float(np.finfo(np.float32).tiny))
    along = along[:, np.flatnonzero(largest > 1e-6 * unit)]
    top = float(scale.max(initial=0.0)) or 1.0
    uneven = np.ptp(scale[pi > SURE]) > 1e-9 * top
    sums = np.empty((len(x), 1 + uneven + along.shape[1]))
    sums[:, 0] = 1
    if uneven:
        sums[:, 1] = scale / top
    np.multiply(along, (scale / top / unit)[:, None], out=sums[:, 1 + uneven :])
    return sums


def _fly(sums: Any, pi: Any, order: Any, luck: Any, sure: float) -> None:
    """Decide all but at most as many clients as there are sums, taking them in ``order``.

    Held clients are columns of a basis B of the space of sums, ``turned`` is B⁻ᵀ. The next client u has coordinates y =
    B⁻¹a_u: while it needs a place of the basis that nobody holds, it takes the place; otherwise moving u by t and the
    held by −t·y keeps all sums, the first of which counts clients, and is done until somebody reaches 0 or 1.
    """
    p = sums.shape[1]
    turned = np.eye(p)
    held = np.full(p, -1)
    y = np.empty(p)
    ahead = np.empty((256, p))  # fetched together: one by one, waiting for memory would take most of the time
    for step in range(len(order)):
        if step % len(ahead) == 0:
            for i in range(min(len(ahead), len(order) - step)):
                for j in range(p):
                    ahead[i, j] = sums[order[step + i], j]
        u = order[step]
        most, at = 1e-9, -1
        y[:] = 0.0
        for j in range(p):
            a = ahead[step % len(ahead), j]
            for s in range(p):
                y[s] += turned[j, s] * a
        for s in range(p):
            if held[s] < 0 and abs(y[s]) > most:
                most, at = abs(y[s]), s
        if at < 0:
            left, largest = 1.0, 0
            for s in range(p):
                if held[s] < 0:
                    y[s] = 0.0
                left -= y[s]
                if abs(y[s]) > abs(y[largest]):
                    largest = s
            y[largest] += left  # the size is kept to the last digit, whatever digits the inverse has lost
            up, down = 1 - pi[u], pi[u]
            for s in range(p):
                if held[s] >= 0 and abs(y[s]) > 1e-12:
                    v = pi[held[s]]
                    rise, fall = (v, 1 - v) if y[s] > 0 else (1 - v, v)
                    up = min(up, rise / abs(y[s]))
                    down = min(down, fall / abs(y[s]))
            t = up if luck[step] * (up + down) < down else -down
            pi[u] += t
            for s in range(p):
                if held[s] >= 0:
                    pi[held[s]] -= t * y[s]
                    if pi[held[s]] <= sure or pi[held[s]] >= 1 - sure:
                        pi[held[s]] = round(pi[held[s]])
                        held[s] = -1
                        if abs(y[s]) > most:
                            most, at = abs(y[s]), s
            y[largest] -= left
            if pi[u] <= sure or pi[u] >= 1 - sure:
                pi[u] = round(pi[u])
                continue
        if at >= 0:
            held[at] = u
            for j in range(p):
                share = turned[j, at] / y[at]
                for s in range(p):
                    turned[j, s] -= y[s] * share
                turned[j, at] = share


def _fly_locally(sums: NDArray[Any], pi: Floats, units: Ints, rng: np.random.Generator) -> None:
    """The flight of the local cube: each move is between a random client and its nearest that are undecided."""
    p = sums.shape[1]
    at = sums[units, 1:]
    units = units.copy()
    while len(units) > p:
        first = int(rng.integers(len(units)))
        gap = at - at[first]
        near = np.argpartition(np.einsum("ij,ij->i", gap, gap), p)[: p + 1] if len(units) > p + 1 else np.arange(p + 1)
        crowd = units[near]
        move = np.linalg.svd(sums[crowd].T)[2][-1]
        room_up = np.where(move > 0, 1 - pi[crowd], pi[crowd]) / np.maximum(np.abs(move), 1e-300)
        room_down = np.where(move > 0, pi[crowd], 1 - pi[crowd]) / np.maximum(np.abs(move), 1e-300)
        up, down = room_up.min(), room_down.min()
        t = up if rng.random() * (up + down) < down else -down
        pi[crowd] += t * move
        done = near[(pi[crowd] <= SURE) | (pi[crowd] >= 1 - SURE)]
        pi[units[done]] = np.round(pi[units[done]])
        keep = np.ones(len(units), bool)
        keep[done] = False
        units, at = units[keep], at[keep]
