"""Packing: what goes in comes out, client by client, small and checked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed.data import pack
from hcsfed.data.pack import gather
from hcsfed.data.partition import offsets_of
from hcsfed.errors import DataError


def packed(**changes):
    given = {
        "x": np.arange(12, dtype=np.float32).reshape(6, 2),
        "y": np.array([0, 1, 2, 0, 1, 2]),
        "test_x": np.zeros((2, 2), np.float32),
        "test_y": np.array([0, 2]),
        "offsets": [0, 2, 6],
        "classes": 3,
    } | changes
    arrays = [given.pop(name) for name in ("x", "y", "test_x", "test_y")]
    return pack(*arrays, **given)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.sampled_from([np.uint8, np.float32, np.float64, np.int64]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_each_client_gets_its_rows(sizes, dtype, overwrite, seed):
    rng = np.random.default_rng(seed)
    rows = sum(sizes) + int(rng.integers(0, 5))
    x = rng.integers(0, 200, (rows, 3, 2)).astype(dtype)
    y = rng.integers(0, 300, rows)
    index = rng.integers(0, rows, sum(sizes)) if rng.random() < 0.5 else rng.permutation(rows)[: sum(sizes)]
    before = x.copy()
    f = pack(x, y, before, y, index=index, offsets=offsets_of(sizes), classes=300, overwrite=overwrite)
    assert f.sizes.tolist() == sizes
    assert f.x.dtype == (np.uint8 if dtype == np.uint8 else np.float32)
    assert f.y.dtype == np.uint16
    for k in range(len(sizes)):
        theirs = index[f.offsets[k] : f.offsets[k + 1]]
        mine_x, mine_y = f.client(k)
        assert np.array_equal(mine_x, before[theirs])
        assert np.array_equal(mine_y, y[theirs])
    assert np.allclose(f.weights, np.array(sizes) / sum(sizes))
    assert np.array_equal(f.test_x, before)
    if not overwrite:
        assert np.array_equal(x, before)


def test_giving_the_rows_away_holds_no_second_copy():
    x = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    order = np.random.default_rng(0).permutation(1000)
    before = x.copy()
    out = gather(x, order, np.float32, overwrite=True)
    assert np.shares_memory(out, x)
    assert np.array_equal(out, before[order])


def test_rows_in_order_are_not_copied():
    x = np.zeros((6, 2), np.float32)
    assert packed(x=x).x is x


@pytest.mark.parametrize(("classes", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (70_000, np.uint32)])
def test_labels_are_stored_narrow(classes, dtype):
    assert packed(classes=classes, y=np.array([0, 0, 0, 0, 0, classes - 1]), test_y=np.array([0, 1])).y.dtype == dtype


def test_weights_are_scaled_to_sum_to_one():
    assert packed(weights=[1, 3]).weights.tolist() == [0.25, 0.75]
    assert packed(weights=[0, 3]).weights.tolist() == [0, 1]
    assert packed().weights.tolist() == [2 / 6, 4 / 6]


def test_sequences_keep_their_tokens_and_count_every_label():
    y = np.array([[0, 1], [1, 1], [2, 2]])
    f = packed(x=y * 300, y=y, test_x=y, test_y=y, offsets=[0, 2, 3])
    assert f.x.dtype == np.int32
    assert f.class_counts.tolist() == [[1, 3, 0], [0, 0, 2]]


def test_regression_has_no_classes():
    f = packed(y=np.ones((6, 1)), test_y=np.ones((2, 1)), classes=0, task="regression")
    assert f.y.dtype == np.float32
    assert f.class_counts.shape == (2, 0)


NAN = np.array([[0, 0], [0, 0], [0, 0], [0, np.nan], [0, 0], [0, np.inf]])


def test_rows_that_nobody_holds_may_be_anything():
    assert np.isfinite(packed(x=NAN, index=np.array([0, 1, 2, 4, 4, 4])).x).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": NAN}, "x of data must hold finite numbers, got NaN or infinity in row 3"),
        ({"x": NAN[:4], "y": [0, 0, 0, 0], "index": [0, 1, 3, 3, 0, 0]}, "infinity in row 3"),
        ({"x": np.full((6, 2), 1e300)}, "x of data must hold finite numbers"),  # too large for float32
        ({"test_x": np.full((2, 2), np.nan)}, "test_x of data must hold finite numbers, got NaN or infinity in row 0"),
        ({"y": np.full((6, 1), np.nan), "test_y": np.ones((2, 1)), "task": "regression"}, "y of data must hold finite"),
        ({"x": np.array([["a"] * 2] * 6)}, "x of data must hold numbers, got <U1"),
        (
            {"x": np.zeros((5, 2))},
            r"x and y of data must have as many rows as each other, got shapes \[5, 2\] and \[6\]",
        ),
        ({"test_y": np.zeros(3, int)}, "test_x and test_y of data must have as many rows"),
        ({"test_x": np.zeros((2, 3))}, r"must have the shape of its training rows, got x \[3\] against \[2\]"),
        ({"y": np.array([0, 1, 2, 0, 1, 3])}, r"y of data must be in \[0, 2\] \(3 classes\), got values from 0 to 3"),
        ({"y": np.array([0, 1, 2, 0, 1, -1])}, "got values from -1 to 2"),
        (
            {"test_x": np.zeros((0, 2)), "test_y": np.zeros(0, int)},
            "test_x of data must hold at least one row, got none",
        ),
        ({"test_y": np.array([0, 7])}, r"test_y of data must be in \[0, 2\]"),
        ({"y": np.zeros(6)}, r"y of data must be ints in \[0, 2\], got float64"),
        ({"classes": 0}, "classes of data must be an int >= 1, got 0"),
        ({"offsets": [0, 6, 6]}, "every client of data must hold at least one row, client 1 holds none"),
        ({"offsets": [0, 0, 0, 6]}, r"client 0 \(and 1 more\) holds none"),
        ({"offsets": [0, 7, 6]}, "client 1 holds none"),
        ({"offsets": [0, 2, 5]}, "offsets of data must run from 0 to 6, got 0 to 5"),
        ({"offsets": [0]}, r"offsets of data must be N \+ 1 ints"),
        ({"index": np.array([0, 1, 2, 3, 4, 6])}, r"row numbers in \[0, 5\], got values from 0 to 6"),
        ({"index": np.array([0, 1, 2, 3, 4, -1])}, "got values from -1 to 4"),
        ({"weights": [1, -1]}, "weights of data must be finite numbers >= 0, not all 0, got values from -1.0 to 1.0"),
        ({"weights": [0, 0]}, "not all 0"),
        ({"weights": [1, np.nan]}, "finite"),
        ({"weights": [1, 1, 1]}, "weights of data must be 2 numbers, one per client"),
        ({"test_x": np.zeros((2, 2), np.uint8)}, "test_x of data must be of the type of x, got uint8 against float32"),
        ({"x": np.zeros((6, 2), np.uint8), "test_x": np.zeros((2, 2))}, "got float64 against uint8"),
        ({"classes": 2.5}, "classes of data must be an int >= 1, got 2.5"),
        ({"scale": "big"}, "scale and shift of data must be finite numbers, got 'big' and 0.0"),
        ({"scale": np.nan}, "scale and shift of data must be finite numbers"),
    ],
)
def test_broken_data_is_refused_in_one_line(changes, message):
    with pytest.raises(DataError, match=message) as caught:
        packed(**changes)
    assert "\n" not in str(caught.value)
