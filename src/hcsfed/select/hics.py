"""HiCS-FL: clusters of clients by how balanced their labels seem, and by direction; balanced clusters first.

Chen, Vikalo, "Heterogeneity-Guided Client Sampling: Towards Fast and Efficient Non-IID Federated Learning", NeurIPS
2024 (arXiv:2310.00198).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import pdist

from hcsfed.errors import bad
from hcsfed.select.best import one_by_one
from hcsfed.select.contract import Claims
from hcsfed.select.refresh import Refresh, check_refresh, who_trains
from hcsfed.select.ward import condensed, cut, ward
from hcsfed.types import Features, Floats, Ints, Selection, View


@dataclass(frozen=True)
class HiCS:
    """Ward's clusters on angle(Δb_u, Δb_k) + λ·|Ĥ_u − Ĥ_k|, drawn by exp(γ_t·mean Ĥ); clients in them by ω_k.

    Needs features, and means the ``output-layer`` ones: Δb_k, the last known update of the output layer's bias, a
    number per class, zero for clients never seen. Ĥ_k is the entropy of softmax(Δb_k / T): the more even the labels
    of a client, the more even its bias update. The picked alone train; each weighs 1/m. Biased on purpose, towards
    balanced clients, less so as γ_t = γ·(1 − t/horizon) falls to 0.

    The first ⌈N/m⌉ rounds of the source go round everyone once; here: whoever was never seen comes first, which is the
    same and still right when clients come late. A cluster that has no client left is not drawn again.

    Parameters
    ----------
    clusters
        M; 0, which is ours: as many as the cohort has places.
    temperature
        T; it should be of the order of the entries of Δb, which grow with the learning rate.
    balance
        λ, what a difference of entropy counts against an angle.
    gamma, horizon
        γ, and the round in which γ_t reaches 0 (the source: the last round of training).
    refresh, max_age
        As in :class:`~hcsfed.select.hybrid.Hybrid`.
    """

    clusters: int = 0
    temperature: float = 0.0025
    balance: float = 10.0
    gamma: float = 4.0
    horizon: int = 200
    refresh: Refresh = "stale"
    max_age: int = 0

    name: ClassVar[str] = "hics"
    features: ClassVar[str] = "output-layer"

    def __post_init__(self) -> None:
        check_refresh(self.name, self.refresh, self.max_age)

    @property
    def claims(self) -> Claims:
        return Claims(False, True, frozenset({"features"}), who_trains(self.refresh))

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.features is None:
            raise bad("view", self.name, "given with features", None)
        for parameter in ("temperature", "horizon"):
            if not getattr(self, parameter) > 0:
                raise bad(parameter, self.name, "a number > 0", getattr(self, parameter))
        if self.clusters < 0:
            raise bad("clusters", self.name, "an int >= 0", self.clusters)
        seen = (view.features != 0).any(axis=1)
        new = np.flatnonzero(~seen)
        if len(new) >= size:
            ids = np.sort(rng.choice(new, size, replace=False))
            return Selection(ids, np.full(size, 1 / size))
        known = rng.permutation(np.flatnonzero(seen))  # so that ties of the tree are broken by coin
        entropy = entropies(view.features[known], self.temperature)
        distances = condensed(view.features[known], "arccos") + self.balance * pdist(entropy[:, None], "cityblock")
        labels = cut(ward(distances), max(len(known) - (self.clusters or size), 0))
        gamma = self.gamma * max(1 - view.round / self.horizon, 0.0)
        places = _places(labels, entropy, gamma, size - len(new), rng)
        chosen = [
            (members := known[labels == h])[one_by_one(view.weights[members], count, rng)]
            for h, count in enumerate(places)
            if count
        ]
        ids = np.sort(np.concatenate([new, *chosen]))
        of_rows = np.full(view.clients, -1)
        of_rows[known] = labels
        return Selection(ids, np.full(size, 1 / size), None, {"labels": of_rows})


def entropies(features: Features, temperature: float) -> Floats:
    """Ĥ: the entropy of softmax(Δb / T), in nats."""
    scaled = features.astype(np.float64)
    scaled = (scaled - scaled.max(axis=1, keepdims=True)) / temperature
    powers = np.exp(scaled)
    total = powers.sum(axis=1)
    # H = log Σe^z − Σ z·e^z / Σe^z; a z of −∞ has no weight
    weighted = np.where(powers > 0, scaled * powers, 0.0).sum(axis=1)
    return np.asarray(np.maximum(np.log(total) - weighted / total, 0))


def _places(labels: Ints, entropy: Floats, gamma: float, count: int, rng: np.random.Generator) -> Ints:
    """How many clients each cluster gives: drawn one by one, full clusters left out."""
    room = np.bincount(labels)
    mean = np.bincount(labels, entropy) / room
    weights = np.exp(gamma * (mean - mean.max()))
    places = np.zeros(len(room), np.int64)
    for _ in range(count):
        left = np.where(places < room, weights, 0.0)
        places[rng.choice(len(left), p=left / left.sum())] += 1
    return places
