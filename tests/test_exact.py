"""Unbiased, by going through all that can happen: no draw is left out, so no error is left to chance.

The conformance suite measures the same claims on larger populations, within what chance allows.
"""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from enumerating import Luck, outcomes
from hcsfed.select import (
    SELECTORS,
    cube,
    draws,
    fedfast,
    hybrid,
    pick,
    pivotal,
)
from hcsfed.types import View

M = 2
WEIGHTS = {
    "all different": np.array([4, 3, 2, 1]),
    "all equal": np.array([2, 2, 2, 2]),
    "one is sure": np.array([7, 1, 2, 2]),
}
# Every way of dealing four clients to one or two clusters, up to names.
LABELS = [
    (0, 0, 0, 0),
    (0, 0, 0, 1),
    (0, 0, 1, 0),
    (0, 1, 0, 0),
    (1, 0, 0, 0),
    (0, 0, 1, 1),
    (0, 1, 0, 1),
    (0, 1, 1, 0),
]
SPECIAL = {
    "clustered-size": {"ordered": True},
    "clustered-updates": {"ordered": True},
}
OPTIONS = {
    "pivotal": [{}, {"mutual": True}, {"exact": 2}, {"chances": "norm"}],
    "cube": [{}, {"local": True}, {"local": True, "exact": 2}, {"directions": 1}, {"chances": "equal"}],
    "hcsfed": [{}, {"within": "uniform"}, {"allocation": "proportional"}, {"importance": "feature"}],
    "importance": [{}, {"floor": 0.3}, {"max_share": 0.3}],
    "frontier": [{}, {"design": "pivotal"}],
}
UNBIASED = [
    pytest.param(name, options, kind, id="-".join([name, *map(str, options.values()), kind]))
    for name in SELECTORS
    if SELECTORS.build(name).claims.unbiased
    for options in OPTIONS.get(name, [{}])
    for kind in (["all different"] if options else WEIGHTS)
]


def population(kind: str) -> View:
    sizes = WEIGHTS[kind]
    x = np.array([[0.0, 0.1], [0.2, 1.0], [3.0, 0.9], [3.3, 0.0]], np.float32)
    return View(
        sizes=sizes,
        weights=sizes / sizes.sum(),
        available=np.ones(4, bool),
        features=x,
        norms=np.array([1.0, 0.5, 2.0, 1.2]),
        losses=np.array([0.3, 2.0, 0.7, 1.1]),
        variances=np.array([4.0, 1.0, 0.2, 2.0]),
    )


def largest_entropy(pi: np.ndarray, luck: Luck) -> np.ndarray:
    """The law of :func:`draws.conditional_poisson`: independent coins, given how many come."""
    ids, m = draws._undecided(pi)
    sure = np.flatnonzero(pi >= 1 - draws.SURE)
    if m == 0:
        return sure
    chances = draws.working_chances(pi[ids], m)
    cohorts = [list(c) for c in combinations(range(len(ids)), m)]
    law = [np.prod(chances[c]) * np.prod(np.delete(1 - chances, c)) for c in cohorts]
    return np.union1d(sure, ids[luck.by_law(cohorts, law)])


@pytest.fixture(autouse=True)
def _openly(monkeypatch):
    """Nothing compiled, no rejection without end, and clusters that may be any."""
    monkeypatch.setattr(draws, "conditional_poisson", largest_entropy)
    for module in (pivotal, cube):
        monkeypatch.setattr(module, "compiled", lambda kernel: kernel)

    def clustered(x, clusters, luck):
        possible = [np.array(c) for c in LABELS if max(c) < clusters]
        return SimpleNamespace(labels=luck.by_law(possible, np.ones(len(possible))))

    for module in (hybrid, fedfast):
        monkeypatch.setattr(module, "kmeans", clustered)


@pytest.mark.parametrize(("name", "options", "kind"), UNBIASED)
def test_what_claims_to_be_unbiased_is(name, options, kind):
    selector, view = SELECTORS.build(name, **options), population(kind)
    special = {"weights": view.weights} if name == "fedfast" else SPECIAL.get(name, {})
    whole, mean, surprise, count = 0.0, np.zeros(4), np.zeros(4), 0
    for probability, selection in outcomes(lambda luck: pick(selector, view, M, luck), **special):
        count += 1
        whole += probability
        mean[selection.ids] += probability * selection.weights
        present = np.isin(np.arange(4), selection.ids)
        surprise += probability * (present - selection.inclusion)
        if selector.claims.fixed_size:
            assert len(selection.ids) == M
    assert whole == pytest.approx(1, abs=1e-9)
    assert mean == pytest.approx(view.weights, abs=1e-9)
    assert surprise == pytest.approx(0, abs=1e-9)
    assert count > 1 or name == "full"


@pytest.mark.parametrize("name", ["random-shrunk", "hcsfed-published"])
def test_what_does_not_claim_it_is_not(name):
    selector, view = SELECTORS.build(name), population("all different")
    mean = np.zeros(4)
    for probability, selection in outcomes(lambda luck: pick(selector, view, M, luck)):
        mean[selection.ids] += probability * selection.weights
    assert np.abs(mean - view.weights).max() > 0.05


def test_the_enumeration_knows_its_laws():
    """A coin, a number below a bound that is looked at twice, and dice."""

    def play(luck):
        u = luck.random()
        return (u < 0.25, u < 0.5, int(2 * u), int(luck.integers(3)))

    law = {}
    for probability, result in outcomes(play):
        law[result] = law.get(result, 0) + probability
    assert law == pytest.approx(
        {(True, True, 0, d): 1 / 12 for d in range(3)}
        | {(False, True, 0, d): 1 / 12 for d in range(3)}
        | {(False, False, 1, d): 1 / 6 for d in range(3)}
    )
    assert sum(p for p, _ in outcomes(lambda luck: luck.gumbel(3), weights=[1, 2, 3])) == pytest.approx(1)
    first = sum(
        p for p, g in outcomes(lambda luck: luck.gumbel(3), weights=[1, 2, 3]) if np.argmax(g + np.log([1, 2, 3])) == 2
    )
    assert first == pytest.approx(0.5)
