"""Clusters: never empty, never more than there are distinct clients, as good as scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed.errors import SettingError
from hcsfed.select import kmeans as module
from hcsfed.select.kmeans import kmeans


def rng(seed=0):
    return np.random.default_rng(seed)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 4), st.integers(0, 50))
@settings(deadline=None, max_examples=60)
def test_every_cluster_has_a_member(n, clusters, distinct, seed):
    x = rng(seed).normal(size=(distinct, 3)).astype(np.float32)[rng(seed).integers(distinct, size=n)]
    found = kmeans(x, clusters, rng(seed))
    members = np.bincount(found.labels, minlength=found.count)
    assert (members > 0).all()
    assert found.count == min(clusters, len(np.unique(x, axis=0)))
    assert len(found.labels) == n


def test_well_separated_groups_are_found():
    truth = np.repeat(np.arange(10), 10)
    for seed in range(5):
        x = (10 * rng(seed).normal(size=(10, 50)))[truth] + rng(seed).normal(size=(100, 50))
        labels = kmeans(x.astype(np.float32), 10, rng(seed)).labels
        assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 10


def test_as_good_as_scikit_learn():
    from sklearn.cluster import KMeans

    x = rng(3).normal(size=(300, 8)).astype(np.float32)
    ours = np.mean([kmeans(x, 12, rng(s)).inertia for s in range(5)])
    theirs = np.mean([KMeans(12, n_init=2, random_state=s).fit(x).inertia_ for s in range(5)])
    assert ours <= 1.02 * theirs


def test_the_inertia_is_that_of_the_labels():
    x = rng(4).normal(size=(200, 6)) * 1e-20
    found = kmeans(x, 7, rng())
    assert found.inertia == pytest.approx(((x - found.centres[found.labels]) ** 2).sum(), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_does_not_matter(scale):
    x = rng(5).normal(size=(60, 4)).astype(np.float32)
    assert (kmeans(x, 5, rng()).labels == kmeans((x * scale).astype(np.float32), 5, rng()).labels).all()


def test_many_clients_by_a_sample(monkeypatch):
    x = (4 * rng(6).normal(size=(20, 8)))[rng(6).integers(20, size=30_000)] + rng(7).normal(size=(30_000, 8))
    x = x.astype(np.float32)
    sampled = kmeans(x, 20, rng())
    monkeypatch.setattr(module, "_SMALL", 1 << 30)
    assert sampled.inertia <= 1.2 * kmeans(x, 20, rng(), restarts=1).inertia
    assert (np.bincount(sampled.labels) > 0).all()


def test_same_seed_same_labels_and_bad_counts():
    x = rng(8).normal(size=(80, 5))
    assert (kmeans(x, 6, rng(1)).labels == kmeans(x, 6, rng(1)).labels).all()
    with pytest.raises(SettingError, match="clusters of k-means"):
        kmeans(x, 0, rng())
