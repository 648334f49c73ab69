"""Norm importance: clients with large updates are picked more often, and count less when they are.

Chen, Horváth, Richtárik, "Optimal Client Sampling for Federated Learning", TMLR 2022 (arXiv:2010.13723, 2020).
Among independent draws of m clients on average these probabilities have the least variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.contract import Claims
from hcsfed.select.draws import capped, check_share, inclusion, poisson, without_replacement
from hcsfed.select.refresh import Refresh, check_refresh, who_trains
from hcsfed.types import Floats, Ints, Selection, View


@dataclass(frozen=True)
class Importance:
    """π_k = min(1, c·ω_k‖u_k‖) with Σπ = m, exactly m distinct clients, weights ω_k/π_k.

    Needs norms, and everyone trains, unless they may be old ones. Clients whose update is 0 are picked only where fewer
    than m others are left.

    The source draws independently (:class:`ImportanceIndependent`); the fixed-size draw with the same π is ours, with
    the largest entropy for up to 500 clients, see :func:`hcsfed.select.draws.without_replacement`.

    Parameters
    ----------
    floor
        Share of the cohort that is spread evenly over all: π_k ≥ floor·m/N. The source has 0; where norms are old or
        may lie, some is needed to stay unbiased and to keep the weights bounded.
    max_share
        No client's ω_k‖u_k‖ counts for more than this share of the sum (or an even share, if that is more), so that
        π_k ≤ m·max_share whatever it claims. The source has 1, which is no bound.
    refresh, max_age
        As in :class:`~hcsfed.select.hybrid.Hybrid`. Unbiased under ``stale`` as long as there is a ``floor``: an update
        that was 0 need not stay 0.
    """

    floor: float = 0.0
    max_share: float = 1.0
    refresh: Refresh = "fresh"
    max_age: int = 0

    name: ClassVar[str] = "importance"

    def __post_init__(self) -> None:
        check_refresh(self.name, self.refresh, self.max_age)

    @property
    def claims(self) -> Claims:
        return _claims(self.refresh, self.floor, fixed_size=True)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.norms is None:
            raise bad("view", self.name, "given with norms", None)
        pi = chances(self.name, view.weights, view.norms, size, self.floor, self.max_share)
        return horvitz_thompson(without_replacement(pi, rng), view.weights, pi)


@dataclass(frozen=True)
class ImportanceIndependent:
    """The source's own draw: each client by its own coin, with the π_k, weights and options of :class:`Importance`.

    m clients on average, and in one round now and then none.
    """

    floor: float = 0.0
    max_share: float = 1.0
    refresh: Refresh = "fresh"
    max_age: int = 0

    name: ClassVar[str] = "importance-independent"

    def __post_init__(self) -> None:
        check_refresh(self.name, self.refresh, self.max_age)

    @property
    def claims(self) -> Claims:
        return _claims(self.refresh, self.floor, fixed_size=False)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.norms is None:
            raise bad("view", self.name, "given with norms", None)
        pi = chances(self.name, view.weights, view.norms, size, self.floor, self.max_share)
        return horvitz_thompson(poisson(pi, rng), view.weights, pi)


def _claims(refresh: Refresh, floor: float, *, fixed_size: bool) -> Claims:
    reached = refresh == "fresh" or floor > 0
    return Claims(reached, fixed_size, frozenset({"norms"}), who_trains(refresh))


def chances(owner: str, weights: Floats, scores: Floats, m: int, floor: float, max_share: float = 1.0) -> Floats:
    """π_k ∝ ω_k·score_k as far as 1 allows, mixed with m/N for a share ``floor`` of the cohort; Σπ = m."""
    if not 0 <= floor <= 1:
        raise bad("floor", owner, "a number in [0, 1]", floor)
    check_share(owner, max_share)
    n = len(scores)
    scores = capped(weights * (scores / (float(scores.max()) or 1.0)), max_share)
    return (1 - floor) * inclusion(scores, m) + floor * m / n


def horvitz_thompson(ids: Ints, weights: Floats, pi: Floats) -> Selection:
    """The picked, each with ω_k/π_k: unbiased whatever the draw, as long as its inclusion probabilities are π."""
    return Selection(ids, weights[ids] / pi[ids], pi)
