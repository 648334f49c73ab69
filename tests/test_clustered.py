"""Fraboni's two algorithms, in whole tokens: every table of draws is exact, for every n, m and weights.

The failing cases are those of the authors' published float bookkeeping (see :mod:`hcsfed.select.urns`).
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist
from sklearn.metrics import adjusted_rand_score

from hcsfed.errors import SettingError
from hcsfed.rng import stream
from hcsfed.select import ClusteredUpdates, pick, ward
from hcsfed.select.clustered_size import by_size
from hcsfed.select.clustered_updates import by_likeness, clusters
from hcsfed.select.urns import draw, whole_sizes
from hcsfed.select.ward import condensed, cut
from hcsfed.types import View

GOLDEN = [
    *[pytest.param([1] * 10, m, id=f"uniform-10-{m}") for m in (3, 6, 7)],
    *[pytest.param([1] * 100, m, id=f"uniform-100-{m}") for m in (7, 14, 17, 28, 29)],
    pytest.param([5, 1, 1, 1, 1, 1], 3, id="half-for-one"),
    pytest.param([97, 1, 1, 1], 3, id="nearly-all-for-one"),
    pytest.param([10, 10, 1, 1, 1, 1], 4, id="two-heavy"),
    pytest.param([7], 1, id="one-client"),
]


def table(pieces, m, total, n):
    """r_{i,k}: the tokens of client k in urn i, by going along the line."""
    r = np.zeros((m, n), int)
    at = 0
    for client, tokens in zip(pieces.clients, pieces.tokens, strict=True):
        while tokens > 0:
            urn = at // total
            put = min(tokens, (urn + 1) * total - at)
            r[urn, client] += put
            at += put
            tokens -= put
    assert at == m * total
    return r


def check(pieces, sizes, m):
    n, total = len(sizes), int(sum(sizes))
    r = table(pieces, m, total, n)
    assert (r.sum(axis=1) == total).all(), "every urn is full"
    assert (r.sum(axis=0) == m * np.array(sizes)).all(), "E[weight_k] = n_k / M, exactly"
    selection = draw(pieces, m, total, n, stream(0, "draw"))
    missed = [np.prod([1 - Fraction(int(t), total) for t in r[:, k]]) for k in range(n)]
    np.testing.assert_allclose(selection.inclusion, [float(1 - q) for q in missed], atol=1e-12)
    assert selection.info["draws"].sum() == m
    return r


def tree_of(features, distance="l2"):
    return ward.ward(condensed(np.asarray(features, np.float32), distance))


@pytest.mark.parametrize(("sizes", "m"), GOLDEN)
def test_where_published_arithmetic_fails(sizes, m):
    check(by_size(np.array(sizes), m, stream(0, "size")), sizes, m)
    features = stream(0, "features").normal(size=(len(sizes), 3))
    check(by_likeness(tree_of(features), np.array(sizes), m)[0], sizes, m)


populations = st.lists(st.integers(1, 60), min_size=1, max_size=25)


@settings(max_examples=150, deadline=None)
@given(populations, st.data())
def test_any_sizes_any_cohort_any_likeness(sizes, data):
    n = len(sizes)
    m = data.draw(st.integers(1, n), label="m")
    features = np.array(data.draw(st.lists(st.integers(0, 3), min_size=2 * n, max_size=2 * n))).reshape(n, 2)
    check(by_size(np.array(sizes), m, stream(0, "size")), sizes, m)
    for distance in ("l1", "l2", "arccos"):
        check(by_likeness(tree_of(features, distance), np.array(sizes), m)[0], sizes, m)


def test_a_client_of_half_the_weight_is_drawn_for_half_the_weight():
    # p = (½, …), m = 3: Algorithm 2 as published has no valid cut here, and its repair underweights the large client.
    sizes = np.array([5, 1, 1, 1, 1, 1])
    features = stream(3, "features").normal(size=(6, 3))
    r = check(by_likeness(tree_of(features), sizes, 3)[0], sizes, 3)
    assert Fraction(int(r[:, 0].sum()), 3 * 10) == Fraction(1, 2)


def test_urns_hold_few_clients_each():
    # Descending sizes in a row: a client lies in two neighbouring urns at most, unless it fills whole ones.
    sizes = np.array([40, 30, 20, 10])
    r = check(by_size(sizes, 2, stream(0, "size")), sizes, 2)
    np.testing.assert_array_equal(r, [[80, 20, 0, 0], [0, 40, 40, 20]])


def test_like_clients_share_an_urn():
    features = np.repeat(np.eye(3) * 5, 4, axis=0) + 0.1 * stream(0, "noise").normal(size=(12, 3))
    r = check(by_likeness(tree_of(features), np.ones(12, int), 3)[0], [1] * 12, 3)
    groups = {tuple(np.flatnonzero(row)) for row in r}
    assert groups == {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)}


def test_weights_other_than_sizes_are_kept_to_a_part_in_a_billion():
    weights = np.array([0.5, 0.3, 0.2 - 1e-9, 1e-9])
    view = View(np.array([1, 1, 1, 0]), weights, np.ones(4, bool))
    units = whole_sizes(view, 2)
    np.testing.assert_allclose(units / units.sum(), weights, atol=1e-12)
    assert (units > 0).all()


def test_the_cut_is_the_highest_level_whose_clusters_fit():
    features = stream(5, "features").normal(size=(40, 3))
    tokens = stream(5, "tokens").integers(1, 30, 40)
    room = 120
    tree = tree_of(features)
    labels = clusters(tree, tokens, room)
    held = np.bincount(labels, tokens)
    assert held.max() <= room
    coarser = fcluster(tree, labels.max(), "maxclust")  # one cluster fewer
    assert np.bincount(coarser, tokens).max() > room
    same = fcluster(tree, labels.max() + 1, "maxclust")
    assert adjusted_rand_score(labels, same) == 1


@pytest.mark.parametrize(("distance", "metric"), [("l2", "euclidean"), ("l1", "cityblock"), ("arccos", "cosine")])
@pytest.mark.parametrize("n", [60, 1100])
def test_distances_are_those_of_the_definition(distance, metric, n):
    features = stream(1, "features").normal(size=(n, 6)).astype(np.float32)
    direct = pdist(features.astype(np.float64), metric)
    direct = np.arccos(np.clip(1 - direct, -1, 1)) if distance == "arccos" else direct / np.abs(features).max()
    np.testing.assert_allclose(condensed(features, distance), direct, atol=2e-7)


def test_the_tree_is_not_that_of_a_square_matrix():
    features = stream(2, "features").normal(size=(30, 4)).astype(np.float32)
    np.testing.assert_allclose(
        tree_of(features)[:, 2], linkage(features / np.abs(features).max(), "ward")[:, 2], rtol=1e-5
    )


@pytest.mark.parametrize("distance", ["l2", "arccos"])
def test_the_sketch_keeps_the_partition(distance, monkeypatch):
    # 20 groups in 3,000 dimensions, a tenth of the signal as noise in every coordinate.
    rng = stream(0, "groups")
    centres = rng.normal(size=(20, 3000))
    features = (centres[np.arange(300) % 20] + 0.5 * rng.normal(size=(300, 3000))).astype(np.float32)
    exact = cut(tree_of(features, distance), 280)
    monkeypatch.setattr(ward, "_EXACT", 100)
    sketched = cut(tree_of(features, distance), 280)
    assert adjusted_rand_score(exact, sketched) == 1
    assert adjusted_rand_score(exact, np.arange(300) % 20) == 1


def test_clients_never_seen_stand_apart_and_together():
    features = np.array([[0, 0], [1, 0], [0, 1], [0, 0], [2, 0]], np.float32)
    square = np.zeros((5, 5))
    square[np.triu_indices(5, 1)] = condensed(features, "arccos")
    np.testing.assert_allclose(square[0], [0, np.pi / 2, np.pi / 2, 0, np.pi / 2], atol=1e-12)
    np.testing.assert_allclose(square[1, 4], 0, atol=1e-12)


def test_too_many_clients_for_a_tree_are_refused_with_a_way_out():
    with pytest.raises(SettingError, match="at most 20000, got 20001; "):
        condensed(np.zeros((20_001, 1), np.float32), "l2")


def test_an_unknown_distance_is_named():
    view = View(np.ones(3, int), np.full(3, 1 / 3), np.ones(3, bool), features=np.zeros((3, 2), np.float32))
    with pytest.raises(SettingError, match="distance of clustered-updates must be"):
        pick(ClusteredUpdates("cosine"), view, 2, stream(0, "distance"))
