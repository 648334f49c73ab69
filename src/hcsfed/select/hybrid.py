"""HCSFed: cluster → allocate → draw by importance → weigh.

G. Shen et al., "Fast Heterogeneous Federated Learning with Hybrid Client Selection": Alg. 2, with Alg. 1 for the
clusters, eq. 6 for the places per cluster, eq. 7 for the chances inside a cluster and eq. 3 for the weights.

Where the text leaves something open or can be bettered there is an option, and two selectors stand for the two sides:
:class:`Published` is the text to the letter, :class:`Hybrid` the better-founded choice with every option at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.allocation import RULES, Rule, places
from hcsfed.select.contract import Claims
from hcsfed.select.draws import check_share, inclusion, without_replacement
from hcsfed.select.kmeans import kmeans
from hcsfed.select.refresh import Refresh, check_refresh, who_trains
from hcsfed.types import Features, Floats, Ints, Selection, View


@dataclass(frozen=True)
class Hybrid:
    """Clients are grouped by what they have learned; each group sends some, the more telling rather than the others.

    Given the features, all inclusion probabilities π are known exactly, so with Horvitz–Thompson weights ω_k/π_k the
    estimate is unbiased whatever the clusters are worth; good clusters only make it more precise.

    Parameters
    ----------
    features
        What clients are compared by: a name of :data:`hcsfed.features.FEATURES`. The paper's X_k.
    clusters
        H. At most m are made, so that each can have a place, and at most as many as there are distinct clients.
    allocation
        How the m places are shared out: ``proportional``, ``eq6`` (S_h as printed) or ``neyman`` (its square root, as
        the proof needs it).
    within
        Chances inside a cluster: ``uniform``, or ``importance`` (eq. 7).
    importance
        What eq. 7 takes the norm of: the ``feature`` X_k as printed, or the whole ``update``, by ω_k‖u_k‖, which is
        what the variance depends on; costs four bytes more.
    weights
        ``horvitz-thompson`` (ω_k/π_k, unbiased) or ``published`` (eq. 3, N/m·ω_k, which ignores that some clients are
        likelier to come than others).
    weighted
        Whether clusters are made, and places shared out, by ω_k·X_k, what a client adds to the sum, or by X_k as
        printed. It is the scatter of the first that the variance consists of; for equal ω they are the same.
    refresh
        ``fresh``: all clients train every round and send a feature, as in Alg. 2. ``stale``: only the picked train,
        and what the server knows of the others is their last feature.
    max_age
        Rounds after which a client is picked for certain, on up to half of the places, because what is known of it is
        so old; 0: never. Means something where ``refresh`` is stale.
    max_share, min_share
        Bounds on the chance in one draw, which keep a claimed norm from deciding a round and a weight from exploding:
        no client gets more than ``max_share`` of its cluster's chance (or an even share, if that is more), and none
        less than ``min_share`` of an even share (Hesterberg's defensive mixture, 1995). They bound what a client gains
        by its norm, not by its direction: one far from all others is a cluster of its own, with a place.
    """

    features: str = "gc-shared"
    clusters: int = 10
    allocation: Rule = "neyman"
    within: Literal["uniform", "importance"] = "importance"
    importance: Literal["update", "feature"] = "update"
    weights: Literal["horvitz-thompson", "published"] = "horvitz-thompson"
    weighted: bool = True
    refresh: Refresh = "fresh"
    max_share: float = 0.5
    min_share: float = 0.1
    max_age: int = 0

    name: ClassVar[str] = "hcsfed"

    def __post_init__(self) -> None:
        check(self.name, self.clusters)
        check_refresh(self.name, self.refresh, self.max_age)
        _one_of("allocation", self.allocation, RULES)
        _one_of("within", self.within, ("uniform", "importance"))
        _one_of("importance", self.importance, ("update", "feature"))
        _one_of("weights", self.weights, ("horvitz-thompson", "published"))
        if not isinstance(self.weighted, bool):
            raise bad("weighted", self.name, "true or false", self.weighted)
        check_share(self.name, self.max_share)
        if not 0 <= self.min_share <= 1:
            raise bad("min_share", self.name, "a number in [0, 1]", self.min_share)

    @property
    def claims(self) -> Claims:
        # A client whose norm claims 0 is reached by min_share alone.
        reached = self.within == "uniform" or self.min_share > 0
        return Claims(
            unbiased=self.weights == "horvitz-thompson" and reached,
            fixed_size=True,
            needs=frozenset({"features", "norms"}),
            trains=who_trains(self.refresh),
        )

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        x, norms = seen(view, self.name)
        added = self._added(x, view.weights)
        labels = kmeans(added, min(self.clusters, size), rng).labels
        m_h = places(self.allocation, added, labels, size)

        pi = np.zeros(view.clients)
        ids = []
        for members, m in zip(split(labels), m_h, strict=True):
            pi[members] = inclusion(self._chances(x, norms, view.weights, members), m)
            ids.append(members[without_replacement(pi[members], rng)])
        cohort = np.sort(np.concatenate(ids))

        scale = pi[cohort] if self.weights == "horvitz-thompson" else size / view.clients
        return Selection(cohort, view.weights[cohort] / scale, pi, {"labels": labels, "m_h": m_h})

    def _added(self, x: Features, weights: Floats) -> Features:
        """ω_k·X_k in units of the largest ω, so that nothing overflows; without a copy where all count the same."""
        if not self.weighted or np.ptp(weights) <= 1e-9 * weights.max():
            return x
        return np.asarray(x * (weights / weights.max())[:, None].astype(x.dtype))

    def _chances(self, x: Features, norms: Floats, weights: Floats, members: Ints) -> Floats:
        """p_k of eq. 7 for the members of a cluster, within the two bounds."""
        if self.within == "uniform":
            return np.full(len(members), 1 / len(members))
        if self.importance == "feature":
            telling = np.linalg.norm(x[members].astype(np.float64), axis=1)
        else:
            telling = weights[members] * norms[members]
        # Proportional up to a cap is what inclusion probabilities are.
        bound = max(self.max_share, 1 / len(members))
        p = inclusion(telling, min(1 / bound, len(members))) * bound
        return (1 - self.min_share) * p + self.min_share / len(members)


@dataclass(frozen=True)
class Published:
    """HCSFed to the letter of the text: GC features, S_h as printed in eq. 6, ‖X_k‖ in eq. 7, weights N/m·ω_k of eq. 3.

    What the text does not say is decided as everywhere here: m_h by largest remainder with at least one place for each
    cluster, m_h distinct clients drawn with π ∝ ‖X_k‖ as far as 1 allows. Lemma 4 of the paper calls the estimate
    unbiased; with these weights it is not, since the chances differ between clients.

    Parameters
    ----------
    features
        What clients are compared by.
    clusters
        H.
    refresh, max_age
        As in :class:`Hybrid`.
    max_share
        As in :class:`Hybrid`; the text knows no bound.
    """

    features: str = "gc-published"
    clusters: int = 10
    refresh: Refresh = "fresh"
    max_share: float = 1.0
    max_age: int = 0

    name: ClassVar[str] = "hcsfed-published"

    def __post_init__(self) -> None:
        check(self.name, self.clusters)
        check_refresh(self.name, self.refresh, self.max_age)
        check_share(self.name, self.max_share)

    @property
    def claims(self) -> Claims:
        return self._hybrid.claims

    @property
    def _hybrid(self) -> Hybrid:
        return Hybrid(
            features=self.features,
            clusters=self.clusters,
            allocation="eq6",
            within="importance",
            importance="feature",
            weights="published",
            weighted=False,
            refresh=self.refresh,
            max_share=self.max_share,
            min_share=0.0,
        )

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        return self._hybrid.select(view, size, rng)


def seen(view: View, owner: str) -> tuple[Features, Floats]:
    """The features and norms of a view that must have them."""
    if view.features is None or view.norms is None:
        raise bad("view", owner, "given with features and norms", None)
    return view.features, view.norms


def split(labels: Ints) -> list[Ints]:
    """The members of each cluster."""
    order = np.argsort(labels.astype(np.int32), kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def check(owner: str, clusters: int) -> None:
    """Refuse settings that clustered selectors can't work with."""
    if isinstance(clusters, bool) or not isinstance(clusters, int) or clusters < 1:
        raise bad("clusters", owner, "an int >= 1", clusters)


def _one_of(parameter: str, value: str, allowed: tuple[str, ...], owner: str = Hybrid.name) -> None:
    if value not in allowed:
        raise bad(parameter, owner, "one of " + ", ".join(allowed), value)
