"""Old features and norms: every selector works with them, designs stay unbiased, and age can be bounded."""

from __future__ import annotations

import numpy as np
import pytest

import hcsfed
from federations import images
from hcsfed.assemble import assemble
from hcsfed.errors import SettingError
from hcsfed.features import FEATURES
from hcsfed.hearing import _context
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, pick
from hcsfed.settings import Settings, merge
from hcsfed.simulate import simulate
from hcsfed.types import View

REFRESHING = [name for name in SELECTORS if "refresh" in SELECTORS.options(name)]
COMPARING = [n for n in REFRESHING if "features" in SELECTORS.build(n).claims.needs]
QUICK = {"rounds": 3, "cohort": 4, "steps": 2, "lr": 0.05}
Z = 4.5


def test_whoever_goes_by_features_or_norms_can_be_refreshed_in_both_ways():
    by = {n for n in SELECTORS if SELECTORS.build(n).claims.needs & {"features", "norms"}}
    # The one lets clients speak by their own fresh norm; the other is stale by what it is.
    assert by - set(REFRESHING) == {"local-rounds", "frontier"}


@pytest.fixture(scope="module")
def tiny():
    return images([3, 4, 5, 6, 7, 8, 9, 10])


def note(run, selector):
    """Bytes of a client's small message besides its update, from what the first round cost more."""
    d = 4 * run.about["dimension"]
    first = run.history[0]
    return (first["upload_bytes"] - len(first["ids"]) * d) // 8


@pytest.mark.parametrize("feature", list(FEATURES))
@pytest.mark.parametrize("selector", COMPARING)
def test_stale_hears_everyone_once_and_then_the_picked(tiny, selector, feature):
    options = {"features.name": feature, "selector.refresh": "stale"}
    run = simulate(tiny, selector=selector, options=options, **QUICK)
    d, k = 4 * run.about["dimension"], {"gc": 6, "gc-published": 6, "gc-shared": 6, "labels": 5, "output-layer": 5}
    sent = 4 * k.get(feature, run.about["dimension"] if feature in ("raw", "cosine") else 64)
    sent += 4 * ("norms" in SELECTORS.build(selector).claims.needs)
    assert run.history[0]["local_steps"] == 8 * 2
    assert note(run, selector) == sent
    for record in run.history[1:]:
        m = len(record["ids"])
        assert record["local_steps"] == m * 2
        assert 0 <= record["upload_bytes"] - m * d <= m * sent
        assert record["download_bytes"] == m * d


@pytest.mark.parametrize("selector", REFRESHING)
def test_fresh_hears_everyone_every_time(tiny, selector):
    for refresh, steps in (("fresh", [16, 16, 16]), ("stale", None)):
        run = simulate(tiny, selector=selector, options={"selector.refresh": refresh}, **QUICK)
        told = [r["local_steps"] for r in run.history]
        assert told == (steps or [16, *(2 * len(r["ids"]) for r in run.history[1:])])


def test_old_norms_need_a_floor_to_stay_unbiased():
    for name in ("importance", "importance-independent"):
        assert SELECTORS.build(name).claims.unbiased
        assert not SELECTORS.build(name, refresh="stale").claims.unbiased
        assert SELECTORS.build(name, refresh="stale", floor=0.1).claims.unbiased


@pytest.mark.parametrize("feature", ["gc-shared", "sketch", "gc", "raw", "cosine", "output-layer", "labels"])
def test_old_vectors_mean_what_new_ones_mean(tiny, feature):
    """The same update encoded in the first round and, after others, in a later one."""
    draw = np.random.default_rng(0)
    for refresh in ("stale", "fresh"):
        settings = merge(Settings(), {"selector": {"name": "cube", "refresh": refresh}, "features": feature})
        parts = assemble(settings, federation=tiny)
        d = parts.trainer.dimension
        updates = draw.normal(size=(8, d)).astype(np.float32)
        memories = {}, {"aggregate": draw.normal(size=d)}
        one, other = (
            parts.feature.encode(updates, _labelled(_context(parts, memory, t), tiny))
            for memory, t in zip(memories, (0, 5), strict=True)
        )
        same = np.array_equal(one, other)
        assert same if refresh == "stale" else same == (feature != "gc-shared")


def _labelled(context, federation):
    return hcsfed.features.Context(**{**vars(context), "labels": federation.class_counts})


def aged(n, seed=0):
    """Clients of unequal weight, some of whom were not heard for long."""
    rng = stream(seed, "aged")
    sizes = rng.integers(1, 20, n)
    return View(
        sizes=sizes,
        weights=sizes / sizes.sum(),
        available=np.arange(n) != 3,
        features=rng.normal(size=(n, 5)).astype(np.float32),
        norms=rng.gamma(2.0, size=n),
        ages=rng.integers(0, 9, n),
    )


@pytest.mark.parametrize("selector", REFRESHING)
def test_visits_for_age_keep_weights_unbiased_and_probabilities_exact(selector):
    view, m, draws = aged(9), 5, 1200
    view.ages[:] = [9, 9, 9, 9, 0, 1, 2, 9, 0]  # four within reach are due, for two of five places
    options = {"refresh": "stale", "max_age": 8} | ({"floor": 0.2} if "floor" in SELECTORS.options(selector) else {})
    chosen = SELECTORS.build(selector, **options)
    weights, present, surprise = np.zeros((3, draws, 9))
    for i in range(draws):
        selection = pick(chosen, view, m, stream(i, "visits"))
        assert len(selection.info["revisited"]) == 2
        assert np.isin(selection.info["revisited"], [0, 1, 2, 7]).all()
        assert np.isin(selection.info["revisited"], selection.ids).all()
        weights[i, selection.ids] = selection.weights
        present[i, selection.ids] = 1
        surprise[i] = present[i] - (present[i] if selection.inclusion is None else selection.inclusion)
    target = np.where(view.available, view.weights, 0)
    for values, mean, holds in (
        (weights, target / target.sum(), chosen.claims.unbiased),
        (surprise, np.zeros(9), True),
    ):
        gap = np.abs(values.mean(axis=0) - mean)
        spread = values.std(axis=0) / np.sqrt(draws)
        assert not holds or (gap < Z * spread + 1e-9).all()


@pytest.mark.parametrize("selector", ["pivotal", "hcsfed", "importance", "divfl"])
def test_age_is_bounded_but_for_the_queue(selector):
    n, m, most = 40, 6, 9
    view = aged(n)
    view.available[:] = True
    oldest = {}
    for max_age in (0, most):
        chosen = SELECTORS.build(selector, refresh="stale", max_age=max_age)
        view.ages[:] = 0
        reached = []
        for t in range(120):
            selection = pick(chosen, view, m, stream(t, "bound"))
            assert len(selection) == m
            view.ages[:] += 1
            view.ages[selection.ids] = 0
            reached.append(int(view.ages.max()))
        oldest[max_age] = max(reached)
    # Three of the six places serve those who are due: forty who all are wait for 14 rounds at the very most.
    assert oldest[most] <= most + 14 < oldest[0]


def test_nobody_due_changes_nothing_and_one_place_stays_the_designs():
    view = aged(12)
    for max_age, m in ((100, 5), (1, 1)):
        one, other = (pick(SELECTORS.build("cube", max_age=age), view, m, stream(0, "none")) for age in (0, max_age))
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.weights, other.weights)


def test_clusters_of_those_who_were_not_due_are_told_by_client():
    view = aged(12)
    selection = pick(SELECTORS.build("hcsfed", refresh="stale", max_age=5), view, 6, stream(0, "labels"))
    labels, due = selection.info["labels"], selection.info["revisited"]
    assert len(labels) == 12
    assert (labels[due] == -1).all()
    assert labels[3] == -1
    others = np.setdiff1d(np.flatnonzero(view.available), due)
    assert (labels[others] >= 0).all()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": "importance", "refresh": "old"}, "refresh of importance must be one of fresh, stale"),
        ({"name": "divfl", "max_age": -1}, "max_age of divfl must be an int >= 0"),
        ({"name": "cube", "max_age": -1}, "max_age of cube must be an int >= 0"),
        ({"name": "random", "max_age": 3}, "selector 'random' takes no options"),
    ],
)
def test_bad_options_are_told(options, told):
    with pytest.raises(SettingError, match=told):
        assemble(merge(Settings(), {"selector": options}))
