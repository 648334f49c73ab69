"""Partitions: every index valid, disjoint where promised, sizes as asked, the same seed the same split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed.data import PARTITIONS, Partition
from hcsfed.data.dirichlet import dirichlet, log_dirichlet
from hcsfed.data.iid import iid
from hcsfed.data.natural import natural
from hcsfed.data.partition import offsets_of
from hcsfed.data.shard import shard
from hcsfed.errors import DataError, SettingError

quick = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 2**32)


@st.composite
def label_arrays(draw, least_per_class=1):
    """Labels of 1 to 8 classes in any order, some of them missing in between."""
    classes = draw(st.integers(1, 8))
    counts = draw(st.lists(st.integers(least_per_class, 60), min_size=classes, max_size=classes))
    labels = np.repeat(np.arange(classes) * 2, counts)
    return np.random.default_rng(draw(seeds)).permutation(labels).astype(draw(st.sampled_from([np.uint8, np.int64])))


def same(a: Partition, b: Partition) -> bool:
    return np.array_equal(a.index, b.index) and np.array_equal(a.offsets, b.offsets)


def check_valid(p: Partition, rows: int, clients: int, *, disjoint: bool) -> None:
    assert p.index.dtype == p.offsets.dtype == np.int64
    assert p.clients == clients
    assert p.offsets[0] == 0
    assert p.offsets[-1] == len(p.index)
    assert (p.sizes >= 1).all()
    assert p.index.min() >= 0
    assert p.index.max() < rows
    if disjoint:
        assert len(np.unique(p.index)) == len(p.index)


@quick
@given(st.integers(1, 300), st.data(), seeds)
def test_iid_deals_every_row_once_and_evenly(rows, data, seed):
    clients = data.draw(st.integers(1, rows))
    p = iid(np.zeros(rows, int), clients, seed=seed)
    check_valid(p, rows, clients, disjoint=True)
    assert len(p.index) == rows
    assert np.ptp(p.sizes) <= 1
    assert same(p, iid(np.zeros(rows, int), clients, seed=seed))


@quick
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), seeds)
def test_iid_and_dirichlet_give_the_listed_sizes(sizes, seed):
    labels = np.arange(200) % 5
    for p in (iid(labels, len(sizes), seed=seed, sizes=sizes), dirichlet(labels, len(sizes), seed=seed, sizes=sizes)):
        check_valid(p, 200, len(sizes), disjoint=True)
        assert p.sizes.tolist() == sizes


@quick
@given(label_arrays(), st.data(), seeds)
def test_shard_gives_k_classes_evenly_or_refuses(labels, data, seed):
    present, stock = np.unique(labels, return_counts=True)
    k = data.draw(st.integers(1, len(present)))
    clients = data.draw(st.integers(1, min(12, len(labels))))
    try:
        p = shard(labels, clients, seed=seed, classes_per_client=k)
    except SettingError:
        # Only where some class is too rare to give one row to each of its at most ⌈N·k/C⌉ clients.
        assert stock.min() < -(-clients * k // len(present))
        return
    check_valid(p, len(labels), clients, disjoint=True)
    assert np.ptp(p.sizes) == 0
    holds = np.array([[np.count_nonzero(labels[p.client(i)] == c) for c in present] for i in range(clients)])
    assert ((holds > 0).sum(1) == k).all()
    assert all(np.ptp(row[row > 0]) <= 1 for row in holds)
    assert np.ptp((holds > 0).sum(0)) <= 1
    assert same(p, shard(labels, clients, seed=seed, classes_per_client=k))


def test_shard_of_a_hundred_clients_is_the_papers():
    """Ten clients a class, 500 images each, disjoint: the set-up of the paper's non-IID MNIST."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 5421))  # MNIST's rarest class has 5,421
    p = shard(labels, 100, seed=3)
    check_valid(p, len(labels), 100, disjoint=True)
    assert (p.sizes == 500).all()
    of = [np.unique(labels[p.client(k)]).tolist() for k in range(100)]
    assert of == [[c] for c in range(10) for _ in range(10)]


def test_shard_draws_which_classes_stand_at_one_client_more():
    labels = np.arange(100) % 10
    extra = set()
    for seed in range(20):
        p = shard(labels, 13, seed=seed)
        held = np.bincount([labels[p.client(k)[0]] for k in range(13)], minlength=10)
        assert sorted(held) == [1] * 7 + [2] * 3
        extra.add(tuple(np.flatnonzero(held == 2)))
    assert len(extra) > 5


def test_two_classes_per_client_come_in_all_pairs():
    labels = np.arange(4000) % 10
    p = shard(labels, 100, seed=0, classes_per_client=2)
    pairs = {tuple(np.unique(labels[p.client(k)])) for k in range(100)}
    assert len(pairs) > 25  # of 45; a fixed rota would give 5


@quick
@given(label_arrays(), st.data(), seeds, st.sampled_from([0.001, 0.01, 0.3, 1, 1e6]), st.booleans())
def test_dirichlet_is_valid_at_any_alpha(labels, data, seed, alpha, replace):
    clients = data.draw(st.integers(1, min(20, len(labels))))
    p = dirichlet(labels, clients, seed=seed, alpha=alpha, replace=replace)
    check_valid(p, len(labels), clients, disjoint=not replace)
    assert len(p.index) == len(labels)
    assert np.ptp(p.sizes) <= 1
    assert same(p, dirichlet(labels, clients, seed=seed, alpha=alpha, replace=replace))


@pytest.mark.parametrize("alpha", [0.001, 0.1, 1.0, 10.0])
def test_dirichlet_draws_have_the_second_moment_of_the_theory(alpha):
    """E Σ_c p_c² = (α + 1)/(C·α + 1) for a symmetric Dirichlet distribution."""
    log_p = log_dirichlet(alpha, (20_000, 10), np.random.default_rng(0))
    assert np.isfinite(log_p).all()
    p = np.exp(log_p - log_p.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    squares = (p**2).sum(1)
    spread = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - (alpha + 1) / (10 * alpha + 1)) < 5 * spread + 1e-12
    assert np.abs(p.mean(0) - 0.1).max() < 0.02


def test_small_alpha_gives_one_class_and_large_alpha_all():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 500))
    few, many = (dirichlet(labels, 50, seed=1, alpha=a, samples_per_client=50, replace=True) for a in (0.001, 1000))
    classes = [[len(np.unique(labels[p.client(k)])) for k in range(50)] for p in (few, many)]
    assert np.mean(classes[0]) < 1.2
    assert np.mean(classes[1]) > 9.5


def test_dirichlet_with_replacement_shares_rows_and_may_outgrow_the_set():
    p = dirichlet(np.arange(40) % 4, 10, seed=0, samples_per_client=30, replace=True)
    assert (p.sizes == 30).all()
    assert len(np.unique(p.index)) <= 40


def test_the_papers_unequal_sizes():
    labels = np.arange(50_000) % 10
    p = dirichlet(labels, 100, seed=0, alpha=0.01, sizes="paper", replace=True)
    assert dict(zip(*np.unique(p.sizes, return_counts=True), strict=True)) == {
        100: 10,
        250: 30,
        500: 30,
        750: 20,
        1000: 10,
    }
    assert p.sizes.sum() == 48_500


@quick
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.data(), seeds)
def test_natural_keeps_clients_whole(sizes, data, seed):
    offsets = offsets_of(sizes)
    rows = int(offsets[-1])
    whole = natural(np.zeros(rows), None, seed=seed, offsets=offsets)
    assert whole.index.tolist() == list(range(rows))
    assert whole.sizes.tolist() == sizes
    clients = data.draw(st.integers(1, len(sizes)))
    p = natural(np.zeros(rows), clients, seed=seed, offsets=offsets)
    check_valid(p, rows, clients, disjoint=True)
    theirs = [tuple(range(offsets[k], offsets[k + 1])) for k in range(len(sizes))]
    assert all(tuple(p.client(k)) in theirs for k in range(clients))


@pytest.mark.parametrize("name", ["iid", "shard", "dirichlet"])
def test_another_seed_is_another_split(name):
    labels = np.arange(300) % 3
    assert not same(PARTITIONS[name](labels, 6, seed=0), PARTITIONS[name](labels, 6, seed=1))


LABELS = np.arange(100) % 10


@pytest.mark.parametrize(
    ("name", "clients", "options", "message"),
    [
        ("iid", 0, {}, "clients of partition 'iid' must be an int >= 1, got 0"),
        ("iid", 1.5, {}, "clients of partition 'iid' must be an int >= 1, got 1.5"),
        ("iid", 101, {}, r"clients of partition 'iid' must be an int in \[1, 100\]"),
        ("iid", 10, {"samples_per_client": 11}, "at most 100 rows in all, got '110 rows over 10 clients'"),
        ("iid", 10, {"sizes": [1, 2]}, r"10 ints >= 1, one per client, got \[1, 2\]"),
        ("iid", 2, {"sizes": [0, 2]}, r"2 ints >= 1"),
        ("iid", 2, {"sizes": [[1], [2, 3]]}, "2 ints >= 1"),
        ("iid", 2, {"sizes": 7}, "2 ints >= 1, one per client, got 7"),
        ("iid", 10, {"sizes": "big"}, "'paper' or a list of ints, got 'big'"),
        ("iid", 2, {"sizes": [1, 2], "samples_per_client": 3}, "left out when sizes are given"),
        (
            "shard",
            10,
            {"classes_per_client": 0},
            r"classes_per_client .* an int in \[1, 10\], the number of classes, got 0",
        ),
        ("shard", 10, {"classes_per_client": 11}, "got 11"),
        ("shard", 10, {"samples_per_client": 11}, r"an int in \[1, 10\] for 10 clients of 1 classes, got 11"),
        ("shard", 100, {"classes_per_client": 2}, "take fewer clients"),
        ("dirichlet", 10, {"alpha": 0}, "alpha of partition 'dirichlet' must be a number > 0, got 0"),
        ("dirichlet", 10, {"alpha": float("nan")}, "got nan"),
        ("dirichlet", 10, {"alpha": "many"}, "got 'many'"),
        ("dirichlet", 10, {"sizes": "paper"}, "100 when sizes are 'paper', got 10"),
        ("dirichlet", 100, {"sizes": "paper"}, "at most 100 rows in all"),
        ("dirichlet", 10, {"samples_per_client": 0}, "an int >= 1, got 0"),
        ("dirichlet", 10, {"replace": "yes"}, "replace of partition 'dirichlet' must be true or false, got 'yes'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name, clients, options, message):
    with pytest.raises(SettingError, match=message) as caught:
        PARTITIONS[name](LABELS, clients, seed=0, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["shard", "dirichlet"])
@pytest.mark.parametrize("labels", [np.zeros((20, 8), np.uint8), np.zeros(20, np.float32)])
def test_partitions_by_class_need_a_class_per_row(name, labels):
    with pytest.raises(DataError, match="no single class each"):
        PARTITIONS[name](labels, 2, seed=0)
