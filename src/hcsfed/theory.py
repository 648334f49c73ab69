"""How far an estimate is from full participation, on a population whose updates are all known.

The estimate of a design is Σ_i weights_i·u_i; full participation gives Σ_k ω_k·u_k. Everything here is about the mean
squared distance of the two, which is bias² + variance.

Closed forms of the HCSFed paper (App. B of G. Shen et al., "Fast Heterogeneous Federated Learning with Hybrid Client
Selection") stand beside the exact ones. They speak of the mean of y_k = N·ω_k·u_k (with equal weights: of the updates
themselves), of clusters h with N_h clients, means W_h and shares Q_h = N_h/N, and of the scatters S² and S_h².

``large=True`` gives the forms that Theorem 1 compares, in which m/N, m_h/N_h, 1/N and 1/N_h are neglected. With
scatters of divisors N and N_h they are no approximation but exactly the variances of draws *with* replacement, and
eq. 9, 10 and 11 hold to the last digit. Without it, draws are without replacement and the divisors N − 1 and N_h − 1;
then the chain of Theorem 1 need not hold (:func:`chain` shows it for a population).

Departures from the text: S² is printed with the divisor N and then used with N − 1; eq. 10's S is the mean ΣQ_h·S_h,
as App. B has it, not the root of S²; eq. 11 is what one draw in one cluster gains, here summed over clusters with the
factors Q_h²/m_h that it has in the estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.select import Selector, pick, start
from hcsfed.select.allocation import places
from hcsfed.select.draws import inclusion, pairs
from hcsfed.types import Floats, Ints, View

_COLUMNS = 1 << 16


@dataclass(frozen=True)
class Error:
    """E‖estimate − full‖² in its two parts.

    Parameters
    ----------
    total, bias2, variance
        The first is the sum of the others.
    spread
        Standard error of a ``total`` that was measured; 0 where it is exact.
    noise
        The most that an unbiased design's measured ``bias2`` scatters by: √2 · variance / draws.
    """

    total: float
    bias2: float
    variance: float
    spread: float = 0.0
    noise: float = 0.0

    @property
    def biased(self) -> bool:
        """Whether the bias can be told from chance."""
        return self.bias2 > 3 * self.noise

    def over(self, unit: float) -> Error:
        """In other units."""
        parts = (self.total, self.bias2, self.variance, self.spread, self.noise)
        return Error(*(float(part / unit) for part in parts))

    def relative(self, full: Floats) -> Error:
        """In units of ‖full‖²."""
        return self.over(float((full**2).sum()))


def population(updates: NDArray[Any], weights: Floats) -> Floats:
    """y_k = N·ω_k·u_k, whose mean is what full participation gives."""
    return np.asarray(len(weights) * weights[:, None] * updates, np.float64)


# Closed forms of App. B


def scatter(y: Floats, *, large: bool = False) -> float:
    """S²: Σ‖y_k − ȳ‖² over N − 1, or over N in the large forms; 0 for a single client."""
    return float(((y - y.mean(axis=0)) ** 2).sum() / (len(y) if large else max(len(y) - 1, 1)))


def scatters(y: Floats, labels: Ints, *, large: bool = False) -> tuple[Ints, Floats]:
    """N_h and S_h² of each cluster."""
    parts = [y[labels == h] for h in np.unique(labels)]
    return np.array([len(part) for part in parts]), np.array([scatter(part, large=large) for part in parts])


def between(y: Floats, labels: Ints) -> float:
    """ΣQ_h·‖W_h − W‖², what eq. 9 says that clusters save (times m)."""
    middle = y.mean(axis=0)
    return float(
        sum((labels == h).sum() * ((y[labels == h].mean(axis=0) - middle) ** 2).sum() for h in np.unique(labels))
        / len(y)
    )


def random(y: Floats, m: int, *, large: bool = False) -> float:
    """Simple random selection, m of N: (1/m − 1/N)·S²."""
    return scatter(y, large=large) * (1 / m - (0 if large else 1 / len(y)))


def cluster(y: Floats, labels: Ints, m: int, *, large: bool = False) -> float:
    """m_h = m·N_h/N places, taken as fractions: (1/m − 1/N)·ΣQ_h·S_h²."""
    n_h, s2_h = scatters(y, labels, large=large)
    return float((n_h / len(y)) @ s2_h) * (1 / m - (0 if large else 1 / len(y)))


def reallocated(y: Floats, labels: Ints, m: int, *, large: bool = False) -> float:
    """m_h ∝ N_h·S_h places, taken as fractions that may exceed N_h: (ΣQ_h·S_h)²/m − ΣQ_h·S_h²/N.

    Where some fraction exceeds its N_h, the exact form counts a negative variance for that cluster, which no draw can
    have. See :func:`stratified` for whole numbers within their bounds.
    """
    n_h, s2_h = scatters(y, labels, large=large)
    q = n_h / len(y)
    return float((q @ np.sqrt(s2_h)) ** 2 / m - (0 if large else q @ s2_h / len(y)))


def hybrid(y: Floats, labels: Ints, m: int) -> float:
    """As :func:`reallocated`, with p_k ∝ ‖y_k‖ inside a cluster; the large form, there is no other in the paper.

    ΣQ_h²/m_h·[(mean of ‖y‖)² − ‖W_h‖²] = ``reallocated(large)`` − ΣQ_h²/m_h·:func:`importance_gain`.
    """
    n_h, s2_h = scatters(y, labels, large=True)
    shares = n_h * np.sqrt(s2_h)
    gains = np.array([importance_gain(y[labels == h]) for h in np.unique(labels)])
    some = shares > 0  # a cluster without scatter has no place, and nothing to gain
    m_h = m * shares[some] / max(shares.sum(), np.finfo(float).tiny)
    saved = float(((n_h[some] / len(y)) ** 2 / m_h) @ gains[some])
    return reallocated(y, labels, m, large=True) - saved


def importance_gain(y: Floats) -> float:
    """Eq. 11 for one cluster: what p_k ∝ ‖y_k‖ saves of a single draw's variance, (ΣG)²/N_h·Σ(I_i − 1/N_h)².

    G_i = ‖y_i‖ and I_i = G_i/ΣG.
    """
    norms = np.linalg.norm(y, axis=1)
    if not norms.any():
        return 0.0
    return float(norms.sum() ** 2 / len(y) * ((norms / norms.sum() - 1 / len(y)) ** 2).sum())


# What can be drawn, exactly


def stratified(y: Floats, labels: Ints, m_h: Ints) -> float:
    """Whole numbers m_h ≥ 1 of distinct clients, uniformly inside each cluster: ΣQ_h²·(1/m_h − 1/N_h)·S_h²."""
    n_h, s2_h = scatters(y, labels)
    return float(((n_h / len(y)) ** 2 * (1 / m_h - 1 / n_h)) @ s2_h)


def horvitz_thompson(z: Floats, pi: Floats, joint: Floats) -> float:
    """The variance of Σ_{i∈S} z_i/π_i, z_k = ω_k·u_k, for any design with known π_k > 0 and π_kl."""
    return linear(z, 1 / pi, pi, joint).variance


def linear(z: Floats, factors: Floats, pi: Floats, joint: Floats) -> Error:
    """Bias² and variance of Σ_{i∈S} c_i·z_i, z_k = ω_k·u_k, for any design with known π_k and π_kl.

    c_k = 1/π_k makes it unbiased; c_k = N/m are the weights of the paper's eq. 3, and c_k = 1 those of random-shrunk.
    """
    bias2 = float((((factors * pi - 1) @ z) ** 2).sum())
    scaled = factors[:, None] * z
    variance = float(((joint - np.outer(pi, pi)) * (scaled @ scaled.T)).sum())
    return Error(bias2 + variance, bias2, variance)


def own(z: Floats, factors: Floats, pi: Floats) -> float:
    """The part of the variance of Σ_{i∈S} c_i·z_i that each client brings alone; the rest is covariance among clients.

    Σ_k π_k·(1 − π_k)·c_k²·‖z_k‖², the whole of it where everyone throws a coin of its own.
    """
    return float(pi * (1 - pi) * factors**2 @ (z**2).sum(axis=1))


def grouped_pairs(chances: Floats, groups: Ints) -> Floats:
    """π_kl of clients who come and go with their group; in a group all have the same chance, and groups are apart."""
    together = groups[:, None] == groups[None, :]
    return np.asarray(np.where(together, np.minimum.outer(chances, chances), np.outer(chances, chances)))


def simple_pairs(n: int, m: int) -> Floats:
    """π_kl of m of N without replacement."""
    joint = np.full((n, n), m * (m - 1) / (n * (n - 1)) if n > 1 else 1.0)
    np.fill_diagonal(joint, m / n)
    return joint


def clustered_pairs(pi: Floats, labels: Ints) -> Floats:
    """π_kl where clusters are drawn apart, each by the design of largest entropy for its π (as ``hcsfed`` does)."""
    joint = np.outer(pi, pi)
    for h in np.unique(labels):
        members = np.flatnonzero(labels == h)
        joint[np.ix_(members, members)] = pairs(pi[members])
    return joint


def importance_chances(y: Floats, labels: Ints, m_h: Ints) -> Floats:
    """π_k ∝ ‖y_k‖ inside each cluster as far as 1 allows, with sum m_h."""
    pi = np.zeros(len(y))
    for h, places_of in enumerate(m_h):
        members = labels == h
        pi[members] = inclusion(np.linalg.norm(y[members], axis=1), int(places_of))
    return pi


@dataclass(frozen=True)
class Link:
    """One design of Theorem 1's chain: the paper's large form, its exact form, and what whole places give."""

    design: str
    large: float
    exact: float | None
    whole: float

    def over(self, unit: float) -> Link:
        """In other units."""
        exact = None if self.exact is None else self.exact / unit
        return Link(self.design, self.large / unit, exact, self.whole / unit)


def chain(y: Floats, labels: Ints, m: int) -> list[Link]:
    """Theorem 1 on a population: V(hybrid) ≤ V(re-allocated) ≤ V(cluster) ≤ V(random)?

    ``large`` always falls from line to line. ``exact`` may rise where clusters have nothing to tell apart (a cluster of
    N_h has a scatter of its own to lose N_h − 1 ways), ``whole`` also where m_h had to be rounded or held at one place
    and where favouring large norms costs more than it brings. ``labels`` are 0 … H − 1, and m ≥ H.
    """
    proportional, neyman = places("proportional", y, labels, m), places("neyman", y, labels, m)
    pi = importance_chances(y, labels, neyman)
    reached = pi > 0  # who is never reached has an update of 0
    drawn = horvitz_thompson(y[reached] / len(y), pi[reached], clustered_pairs(pi, labels)[np.ix_(reached, reached)])
    return [
        Link("random", random(y, m, large=True), random(y, m), random(y, m)),
        Link("cluster", cluster(y, labels, m, large=True), cluster(y, labels, m), stratified(y, labels, proportional)),
        Link(
            "re-allocated",
            reallocated(y, labels, m, large=True),
            reallocated(y, labels, m),
            stratified(y, labels, neyman),
        ),
        Link("hybrid", hybrid(y, labels, m), None, drawn),
    ]


# Everything else


def every_subset(n: int, m: int) -> Iterator[tuple[Sequence[int], Floats, float]]:
    """All cohorts of simple random selection with their weights as multiples of ω, and their probability."""
    return ((ids, np.full(m, n / m), 1 / comb(n, m)) for ids in combinations(range(n), m))


def enumerated(z: Floats, law: Iterable[tuple[Sequence[int], Floats, float]]) -> Error:
    """Bias² and variance by going through all outcomes: cohort, its weights as multiples of ω, probability."""
    outcomes = [(probability, factors @ z[list(ids)]) for ids, factors, probability in law]
    mean = np.sum([probability * estimate for probability, estimate in outcomes], axis=0)
    bias2 = float(((mean - z.sum(axis=0)) ** 2).sum())
    variance = float(sum(probability * ((estimate - mean) ** 2).sum() for probability, estimate in outcomes))
    return Error(bias2 + variance, bias2, variance)


def measured(
    selector: Selector, view: View, updates: NDArray[Any], size: int, draws: int, rng: np.random.Generator
) -> Error:
    """Bias² and variance by ``draws`` selections from the same view, in units of ‖full‖².

    The Gram matrix of the updates is all that is needed: with δ the difference of a draw's weights and ω, the squared
    error is δᵀ·U·Uᵀ·δ. Of the mean's squared error the part that is chance (variance/draws) is taken off.
    """
    return measured_by(selector, view, inner_products(updates), size, draws, rng)


def inner_products(updates: NDArray[Any]) -> Floats:
    """U·Uᵀ in doubles, some columns at a time."""
    total = np.zeros((len(updates), len(updates)))
    for left in range(0, updates.shape[1], _COLUMNS):
        part = np.asarray(updates[:, left : left + _COLUMNS], np.float64)
        total += part @ part.T
    return total


def measured_by(selector: Selector, view: View, gram: Floats, size: int, draws: int, rng: np.random.Generator) -> Error:
    """:func:`measured` from the inner products of all updates, for those who ask more than once."""
    if not view.state:
        view = replace(view, state=start(selector, view.clients))
    drawn = np.zeros((draws, view.clients))
    for row in drawn:
        chosen = pick(selector, view, size, rng)
        row[chosen.ids] = chosen.weights
    return error_of(drawn, view.weights, gram)


def error_of(drawn: Floats, weights: Floats, gram: Floats) -> Error:
    """How far Σ drawn_k·u_k is from Σ ω_k·u_k, over rows of weights that were drawn, in units of ‖Σ ω_k·u_k‖²."""
    draws, difference = len(drawn), drawn - weights
    errors = np.einsum("ij,ij->i", difference @ gram, difference)
    mean = difference.mean(axis=0)
    total = float(errors.mean())
    variance = max(float(total - mean @ gram @ mean), 0.0) * draws / max(draws - 1, 1)
    spread = float(errors.std(ddof=1) / np.sqrt(draws)) if draws > 1 else float("nan")
    error = Error(total, max(total - variance, 0.0), variance, spread, 2**0.5 * variance / draws)
    return error.over(float(weights @ gram @ weights))
