"""Places are integers that add up, stay within the clusters and leave nobody out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed.errors import SettingError
from hcsfed.select.allocation import allocate, group_sums, places, variability


@given(
    st.lists(st.tuples(st.one_of(st.just(0.0), st.floats(1e-9, 1e9)), st.integers(0, 20)), min_size=1, max_size=15),
    st.data(),
)
@settings(deadline=None, max_examples=200)
def test_sum_caps_and_floor(clusters, data):
    shares, capacity = np.array([c[0] for c in clusters]), np.array([c[1] for c in clusters])
    m = data.draw(st.integers(0, int(capacity.sum())))
    m_h = allocate(shares, capacity, m)
    assert m_h.sum() == m
    assert (m_h >= 0).all()
    assert (m_h <= capacity).all()
    if (capacity > 0).sum() <= m:
        assert (m_h[capacity > 0] >= 1).all()


@given(st.lists(st.floats(1.0, 3.0), min_size=2, max_size=10), st.integers(30, 60))
@settings(deadline=None, max_examples=50)
def test_largest_remainder_where_no_bound_binds(shares, m):
    s = np.array(shares)
    m_h = allocate(s, np.full(len(s), 1000), m)
    assert (np.abs(m_h - m * s / s.sum()) < 1 + 1e-6).all()


def test_known_cases():
    assert allocate([5, 1, 0, 100], [10, 1, 3, 2], 8).tolist() == [4, 1, 1, 2]
    assert allocate([0, 0], [3, 1], 2).tolist() == [1, 1]
    assert allocate([1, 2, 3], [5, 5, 5], 2).tolist() in ([0, 1, 1], [1, 0, 1])
    with pytest.raises(SettingError, match=r"m of the allocation must be in \[0, 3\], got 4"):
        allocate([1, 1], [1, 2], 4)


def test_eq6_against_the_double_loop():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(30, 5)), np.concatenate([np.arange(4), rng.integers(3, size=26)])
    s = variability(x, labels)
    for h in range(4):
        member = x[labels == h]
        n = len(member)
        pair = sum(((a - b) ** 2).sum() for a in member for b in member)
        assert s[h] == pytest.approx(pair / (n * (n - 1)) if n > 1 else 0)


def test_neyman_is_the_square_root_of_eq6_and_lowers_the_variance():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 50)
    x = rng.normal(size=(100, 4)) * np.where(labels == 0, 1.0, 3.0)[:, None]
    assert places("proportional", x, labels, 20).tolist() == [10, 10]
    neyman, eq6 = places("neyman", x, labels, 20), places("eq6", x, labels, 20)
    assert neyman[1] / neyman[0] == pytest.approx(3, rel=0.3)
    assert eq6[1] > neyman[1]

    def variance(m_h):
        return sum((50**2) * (1 / m - 1 / 50) * s / 2 for m, s in zip(m_h, variability(x, labels), strict=True))

    best = min(range(1, 20), key=lambda a: variance([a, 20 - a]))
    assert variance(neyman) <= 1.02 * variance([best, 20 - best])
    assert variance(neyman) < variance([10, 10])
    assert variance(neyman) < variance(eq6)


def test_sums_by_group_of_huge_numbers_and_of_many_rows():
    rng = np.random.default_rng(2)
    x, labels = rng.normal(size=(20_000, 3)).astype(np.float32), rng.integers(7, size=20_000)
    expected = np.stack([x[labels == h].sum(axis=0, dtype=np.float64) for h in range(7)])
    assert group_sums(x, labels, 7) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    huge = np.array([[1e38], [-1e38], [3e38], [3e38]], np.float32)
    assert np.isfinite(variability(huge, np.array([0, 0, 1, 1]))).all()
