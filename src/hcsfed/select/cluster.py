"""Cluster selection, the paper's steps before importance: plain, and with places re-allocated.

Both are :class:`~hcsfed.select.hybrid.Hybrid` with parts of it left out, weighed as in App. B of the HCSFed paper: a
cluster's mean counts as the cluster's size, which for equal ω is Horvitz and Thompson's ω_k·N_h/m_h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.select.contract import Claims
from hcsfed.select.hybrid import Hybrid, check
from hcsfed.select.refresh import Refresh, check_refresh
from hcsfed.types import Selection, View


@dataclass(frozen=True)
class Cluster:
    """k-means on features, places in proportion to a cluster's size, members equally likely (eq. 5).

    Parameters
    ----------
    features
        What clients are compared by: a name of :data:`hcsfed.features.FEATURES`.
    clusters
        H.
    refresh, max_age
        As in :class:`~hcsfed.select.hybrid.Hybrid`.
    """

    features: str = "gc-shared"
    clusters: int = 10
    refresh: Refresh = "fresh"
    max_age: int = 0

    name: ClassVar[str] = "cluster"

    def __post_init__(self) -> None:
        check(self.name, self.clusters)
        check_refresh(self.name, self.refresh, self.max_age)

    @property
    def _hybrid(self) -> Hybrid:
        return Hybrid(self.features, self.clusters, allocation="proportional", within="uniform", refresh=self.refresh)

    @property
    def claims(self) -> Claims:
        return self._hybrid.claims

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        return self._hybrid.select(view, size, rng)


@dataclass(frozen=True)
class ClusterRealloc:
    """The same with the places given where clients differ most: S_h as the proof of the paper needs it (Neyman 1934).

    Parameters
    ----------
    features
        What clients are compared by: a name of :data:`hcsfed.features.FEATURES`.
    clusters
        H.
    refresh, max_age
        As in :class:`~hcsfed.select.hybrid.Hybrid`.
    """

    features: str = "gc-shared"
    clusters: int = 10
    refresh: Refresh = "fresh"
    max_age: int = 0

    name: ClassVar[str] = "cluster-realloc"

    def __post_init__(self) -> None:
        check(self.name, self.clusters)
        check_refresh(self.name, self.refresh, self.max_age)

    @property
    def _hybrid(self) -> Hybrid:
        return Hybrid(self.features, self.clusters, allocation="neyman", within="uniform", refresh=self.refresh)

    @property
    def claims(self) -> Claims:
        return self._hybrid.claims

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        return self._hybrid.select(view, size, rng)
