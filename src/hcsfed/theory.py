"""How far an estimate is from full participation, on a population whose updates are all known.

The estimate of a design is Σ_i weights_i·u_i; full participation gives Σ_k ω_k·u_k. Everything here is about the mean
squared distance of the two, which is bias² + variance.

Closed forms of the HCSFed paper (App. B of G. Shen et al., UAI 2023) stand beside the exact ones. They speak of the
mean of y_k = N·ω_k·u_k (with equal weights: of the updates themselves), clusters h of N_h clients with means W_h,
shares Q_h = N_h/N, and S² or S_h² with the divisors N − 1 and N_h − 1. ``large=True`` gives the form that Theorem 1
compares, in which m/N, m_h/N_h, 1/m_h and 1/N are neglected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.select import Selector, pick, start
from hcsfed.select.draws import pairs
from hcsfed.types import Floats, Ints, View


@dataclass(frozen=True)
class Error:
    """E‖estimate − full‖² / ‖full‖², in its two parts; ``spread`` is the standard error of a measured ``total``."""

    total: float
    bias2: float
    variance: float
    spread: float = 0.0


def population(updates: NDArray[Any], weights: Floats) -> Floats:
    """y_k = N·ω_k·u_k, whose mean is what full participation gives."""
    return np.asarray(len(weights) * weights[:, None] * updates, np.float64)


def scatter(y: Floats) -> float:
    """S²: Σ‖y_k − ȳ‖² / (N − 1); 0 for a single client."""
    return float(((y - y.mean(axis=0)) ** 2).sum() / max(len(y) - 1, 1))


def scatters(y: Floats, labels: Ints) -> tuple[Ints, Floats]:
    """N_h and S_h² of each cluster."""
    clusters = np.unique(labels)
    return np.array([(labels == h).sum() for h in clusters]), np.array([scatter(y[labels == h]) for h in clusters])


def random(y: Floats, m: int, *, large: bool = False) -> float:
    """Simple random selection, m of N without replacement: (1/m − 1/N)·S²."""
    return scatter(y) * (1 / m if large else 1 / m - 1 / len(y))


def cluster(y: Floats, labels: Ints, m: int, *, large: bool = False) -> float:
    """m_h = m·N_h/N places, taken as fractions: (1/m − 1/N)·ΣQ_h·S_h²."""
    n_h, s2_h = scatters(y, labels)
    return float((n_h / len(y)) @ s2_h) * (1 / m if large else 1 / m - 1 / len(y))


def reallocated(y: Floats, labels: Ints, m: int, *, large: bool = False) -> float:
    """m_h ∝ N_h·S_h places, taken as fractions that may exceed N_h: (ΣQ_h·S_h)²/m − ΣQ_h·S_h²/N.

    Where some fraction exceeds its N_h, the exact form counts a negative variance for that cluster: one of the places
    where the paper's formula and what can be done differ. See :func:`stratified` for integers within their bounds.
    """
    n_h, s2_h = scatters(y, labels)
    q = n_h / len(y)
    return float((q @ np.sqrt(s2_h)) ** 2 / m - (0 if large else q @ s2_h / len(y)))


def hybrid(y: Floats, labels: Ints, m: int) -> float:
    """As :func:`reallocated`, with p_k ∝ ‖y_k‖ inside a cluster, drawn with replacement (the large form only).

    Σ Q_h²/m_h · [(mean‖y‖)² − ‖W_h‖²]. The paper's eq. 11 gives what a single draw in one cluster gains; here it is
    summed over the clusters with the factors Q_h²/m_h that it has in the estimate.
    """
    n_h, s2_h = scatters(y, labels)
    shares = n_h * np.sqrt(s2_h)
    total = 0.0
    for h, members in enumerate(np.unique(labels)):
        inside = y[labels == members]
        gained = np.linalg.norm(inside, axis=1).mean() ** 2 - np.linalg.norm(inside.mean(axis=0)) ** 2
        if shares[h] > 0:
            total += (n_h[h] / len(y)) ** 2 / (m * shares[h] / shares.sum()) * gained
    return float(total)


def importance_gain(y: Floats) -> float:
    """Eq. 11 for one cluster: what p_k ∝ ‖y_k‖ saves of a single draw's variance, (ΣG)²/N_h·Σ(I_i − 1/N_h)²."""
    norms = np.linalg.norm(y, axis=1)
    if not norms.any():
        return 0.0
    return float(norms.sum() ** 2 / len(y) * ((norms / norms.sum() - 1 / len(y)) ** 2).sum())


def stratified(y: Floats, labels: Ints, m_h: Ints) -> float:
    """Whole numbers m_h of distinct clients, uniformly inside each cluster: ΣQ_h²·(1/m_h − 1/N_h)·S_h², exactly."""
    n_h, s2_h = scatters(y, labels)
    return float(((n_h / len(y)) ** 2 * (1 / m_h - 1 / n_h)) @ s2_h)


def horvitz_thompson(z: Floats, pi: Floats, joint: Floats) -> float:
    """The exact variance of Σ z_i/π_i for any design with known π_k and π_kl: ΣΣ (π_kl − π_k·π_l)/(π_k·π_l)·z_k·z_l."""
    both = np.outer(pi, pi)
    return float((((joint - both) / both) * (z @ z.T)).sum())


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


def every_subset(n: int, m: int) -> Iterable[tuple[Sequence[int], float]]:
    """All cohorts of simple random selection with their probability."""
    return ((ids, 1 / comb(n, m)) for ids in combinations(range(n), m))


def enumerated(z: Floats, law: Iterable[tuple[Sequence[int], Sequence[float], float]]) -> Error:
    """Bias² and variance by going through all outcomes: cohort, its weights as multiples of ω, probability."""
    full = z.sum(axis=0)
    outcomes = [(probability, np.asarray(factors) @ z[list(ids)]) for ids, factors, probability in law]
    mean = np.sum([probability * estimate for probability, estimate in outcomes], axis=0)
    bias2 = float(((mean - full) ** 2).sum())
    variance = float(sum(probability * ((estimate - mean) ** 2).sum() for probability, estimate in outcomes))
    return relative(Error(bias2 + variance, bias2, variance), full)


def measured(
    selector: Selector, view: View, updates: NDArray[Any], size: int, draws: int, rng: np.random.Generator
) -> Error:
    """Bias² and variance by ``draws`` selections from the same view.

    The Gram matrix of the updates is all that is needed: with δ the difference of a draw's weights and ω, the squared
    error is δᵀ·U·Uᵀ·δ. Of the mean's squared error the part that is chance (variance/draws) is taken off.
    """
    if not view.state:
        view = replace(view, state=start(selector, view.clients))
    difference = np.tile(-view.weights, (draws, 1))
    for row in difference:
        chosen = pick(selector, view, size, rng)
        row[chosen.ids] += chosen.weights
    exact = np.asarray(updates, np.float64)
    gram = exact @ exact.T
    full = view.weights @ gram @ view.weights
    errors = np.einsum("ij,jk,ik->i", difference, gram, difference, optimize=True)
    mean = difference.mean(axis=0)
    variance = (errors.mean() - mean @ gram @ mean) * draws / max(draws - 1, 1)
    total = errors.mean()
    spread = errors.std(ddof=1) / np.sqrt(draws) if draws > 1 else np.nan
    return Error(*(float(part / full) for part in (total, max(total - variance, 0.0), variance, spread)))


def relative(error: Error, full: Floats) -> Error:
    """In units of ‖full‖²."""
    unit = float((full**2).sum())
    return Error(error.total / unit, error.bias2 / unit, error.variance / unit, error.spread / unit)
