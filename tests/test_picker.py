"""The callback for other frameworks: names in, weights out, and the very selections of the library."""

from __future__ import annotations

import numpy as np
import pytest

from hcsfed.errors import HcsfedError
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, Picker, pick, start
from hcsfed.types import View

N = 30
NAMES = [f"site-{k}" for k in range(N)]
DRAW = np.random.default_rng(0)
SEEN = {
    "features": (3 * DRAW.normal(size=(3, 6))[np.arange(N) % 3] + DRAW.normal(size=(N, 6))).astype(np.float32),
    "sizes": DRAW.integers(1, 40, N),
    "norms": DRAW.gamma(2.0, size=N),
    "losses": DRAW.gamma(2.0, size=N),
    "labels": DRAW.integers(0, 20, (N, 5)),
    "variances": DRAW.gamma(2.0, size=N),
}


@pytest.mark.parametrize("name", sorted(set(SELECTORS) - {"test-accuracy"}))
def test_it_is_the_librarys_own_pick(name):
    selector = SELECTORS.build(name)
    picker = Picker(name, cohort=6, seed=4)
    for t in range(3):
        found = picker.select(NAMES, **SEEN)
        weights = SEEN["sizes"] / SEEN["sizes"].sum()
        notes = start(selector, N) if t == 0 else picker.notes
        seen = {key: SEEN[key] for key in ("features", "norms", "losses", "labels", "variances")}
        view = View(SEEN["sizes"], weights, np.ones(N, bool), round=t, state=notes, **seen)
        expected = pick(selector, view, 6, stream(4, "select", t))
        assert list(found) == [NAMES[k] for k in expected.ids]
        np.testing.assert_allclose(list(found.values()), expected.weights)
        picker.observe(list(found), losses=np.ones(len(found)), norms=np.ones(len(found)))


def test_some_are_away_and_some_come_later():
    for name in ("hcsfed", "oort", "fedcor", "pivotal"):
        picker = Picker(name, cohort=3, seed=1)
        for t in range(8):
            here = NAMES[:10] if t < 4 else [*NAMES[5:20][::-1]]
            rows = [NAMES.index(n) for n in here]
            found = picker.select(here, SEEN["features"][rows], losses=SEEN["losses"][rows])
            assert len(found) == 3
            assert set(found) <= set(here)
            picker.observe(list(found)[::-1], losses=[0.5] * 3)
        assert picker.names == [*NAMES[:10], *NAMES[10:20][::-1]]


def test_the_weighted_sum_is_everyones_mean_on_average():
    updates = DRAW.normal(size=(N, 4))
    picker, total = Picker("hcsfed", cohort=6), np.zeros(4)
    rounds = 3000
    for _ in range(rounds):
        for name, weight in picker.select(NAMES, SEEN["features"], sizes=SEEN["sizes"]).items():
            total += weight * updates[NAMES.index(name)]
    everyone = SEEN["sizes"] / SEEN["sizes"].sum() @ updates
    np.testing.assert_allclose(total / rounds, everyone, atol=0.05)


def test_a_share_is_of_those_who_are_there():
    picker = Picker("random", cohort=0.2)
    assert len(picker.select(NAMES)) == 6
    assert len(picker.select(NAMES[:10])) == 2
    assert len(Picker("random", cohort=50).select(NAMES[:4])) == 4


def test_who_sends_nonsense_is_left_out():
    broken = SEEN["features"].copy()
    broken[7] = np.nan
    picker = Picker("hcsfed", cohort=N)
    assert set(picker.select(NAMES, broken)) == {*NAMES} - {NAMES[7]}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: Picker("hcsfed").select(NAMES), "given with"),
        (lambda: Picker("random").select([]), "ids of Picker must be one or more distinct names"),
        (lambda: Picker("random").select(["a", "a"]), "ids of Picker must be one or more distinct names"),
        (lambda: Picker("hcsfed").select(NAMES, np.zeros((3, 2))), "one row for each of the 30 ids, got '3 rows'"),
        (lambda: Picker("random").select(NAMES, sizes=[-1] * N), "sizes of Picker must be numbers"),
        (lambda: Picker("random").select(NAMES, sizes=[0] * N), "sizes of Picker must be numbers"),
        (lambda: Picker("randm"), "did you mean 'random'"),
        (lambda: Picker("random").observe(["a"]), "called after select"),
    ],
)
def test_mistakes_are_named(call, why):
    with pytest.raises(HcsfedError, match=why):
        call()
