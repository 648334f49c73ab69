"""Clusters with a delegate each.

Muhammad, Wang, O'Reilly-Morgan, Tragos, Smyth, Hurley, Geraci, Lawlor, "FedFast: Going Beyond Average for Faster
Training of Federated Recommender Systems", KDD 2020 (ActvSAMP).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.contract import Claims
from hcsfed.select.kmeans import kmeans
from hcsfed.select.refresh import Refresh, check_refresh, who_trains
from hcsfed.types import Floats, Ints, Selection, View


@dataclass(frozen=True)
class FedFast:
    """k-means into m clusters; a delegate of each, drawn by ω_k within it, answers with the weight of the cluster.

    Needs features; with last-known ones the picked alone train. Given the clusters π_k = ω_k/Σω of the cluster, so that
    the delegate's weight Σω is the unbiased one.

    The source draws delegates evenly, from clusters that may be fewer than m, and has delegates' embeddings passed on
    to the others of their cluster (ActvAGG); for one global model that means speaking for all of them. By ω_k, ours,
    is the same where clients weigh the same and stays unbiased where they don't. Where k-means finds fewer than m
    distinct clusters, the most populous ones are halved at random.

    Parameters
    ----------
    refresh, max_age
        As in :class:`~hcsfed.select.hybrid.Hybrid`.
    """

    refresh: Refresh = "stale"
    max_age: int = 0

    name: ClassVar[str] = "fedfast"
    features: ClassVar[str] = "sketch"

    def __post_init__(self) -> None:
        check_refresh(self.name, self.refresh, self.max_age)

    @property
    def claims(self) -> Claims:
        return Claims(True, True, frozenset({"features"}), who_trains(self.refresh))

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.features is None:
            raise bad("view", self.name, "given with features", None)
        labels = _split(kmeans(view.features, size, rng).labels, size, rng)
        shares: Floats = np.bincount(labels, view.weights).astype(np.float64)
        # The largest of log ω + Gumbel noise in a cluster is a draw by ω: sort by it inside clusters, take the last.
        keys = np.log(view.weights) + rng.gumbel(size=view.clients)
        order = np.lexsort((keys, labels))
        delegates = order[np.cumsum(np.bincount(labels)) - 1]
        ids = np.sort(delegates)
        return Selection(ids, shares[labels[ids]], view.weights / shares[labels], {"labels": labels})


def _split(labels: Ints, clusters: int, rng: np.random.Generator) -> Ints:
    """Halve the most populous clusters until there are so many."""
    labels = labels.copy()
    members = np.bincount(labels).tolist()
    while len(members) < clusters:
        largest = int(np.argmax(members))
        ids = rng.permutation(np.flatnonzero(labels == largest))
        labels[ids[: len(ids) // 2]] = len(members)
        members.append(len(ids) // 2)
        members[largest] -= len(ids) // 2
    return labels
