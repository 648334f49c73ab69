"""The named sets, and the one call that deals them out."""

import os
from pathlib import Path

import numpy as np
import pytest

import hcsfed
from hcsfed.data import DATASETS, PARTITIONS, Partition, client_optimum, load, optimum
from hcsfed.data.catalogue import CATALOGUE
from hcsfed.data.cifar import fill
from hcsfed.data.mnist import parse_idx
from hcsfed.data.shakespeare import roles
from hcsfed.errors import DataError, HcsfedError, SettingError
from hcsfed.types import Federation


def here(folder: str):
    there = Path(os.environ.get("HCSFED_DATA", "nowhere")) / folder
    return pytest.mark.skipif(not there.is_dir(), reason=f"no {folder} in HCSFED_DATA")


def equal(a: Federation, b: Federation) -> bool:
    names = ("x", "y", "test_x", "test_y", "offsets", "weights")
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)


def test_every_set_is_in_the_catalogue():
    assert list(CATALOGUE) == list(DATASETS)


def test_digits_are_the_default_and_feasible():
    f = hcsfed.load()
    assert (f.name, f.clients, f.classes, f.task) == ("digits", 100, 10, "classification")
    assert f.x.dtype == np.uint8
    assert f.x.shape[1:] == (1, 8, 8)
    assert f.x.max() * f.scale == 1
    assert len(f.test_x) == 360
    assert np.ptp(np.bincount(f.test_y)) <= 4  # 174 to 183 images a class
    assert (np.count_nonzero(f.class_counts, axis=1) == 1).all()
    assert f.about == {"data": {"name": "digits"}, "partition": {"name": "shard"}, "seed": 0}


@pytest.mark.parametrize("data", ["digits", "synthetic", "quadratic"])
@pytest.mark.parametrize("partition", [None, "iid"])
def test_the_same_seed_is_the_same_federation(data, partition):
    a, b, c = (load(data, partition, clients=12, seed=seed) for seed in (4, 4, 5))
    assert a.clients == 12
    assert equal(a, b)
    assert not equal(a, c)


def test_a_partition_made_elsewhere_can_be_given():
    f = load("digits", Partition(np.array([5, 4, 3]), np.array([0, 1, 3])))
    source = DATASETS["digits"]()
    assert np.array_equal(f.client(1)[0], source.x[[4, 3]])


def test_options_reach_the_set_and_the_partition():
    f = load("synthetic", "dirichlet", 10, data_options={"samples_per_client": 30}, partition_options={"alpha": 5})
    assert len(f.x) == 300
    assert f.about["data"] == {"name": "synthetic", "samples_per_client": 30}
    assert f.about["partition"] == {"name": "dirichlet", "alpha": 5}


def test_a_natural_federation_may_be_thinned_out():
    whole = load("synthetic", clients=30)
    assert whole.clients == 30
    source = DATASETS["synthetic"](clients=30, seed=0)
    some = load(source, clients=7)
    assert some.clients == 7
    assert set(some.sizes) <= set(whole.sizes)
    assert np.array_equal(source.x, DATASETS["synthetic"](clients=30, seed=0).x)  # what is the user's stays as it is


ONE = Partition(np.arange(3), np.array([0, 3]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": "digit"}, "unknown data set 'digit'; did you mean 'digits'"),
        ({"data": "no/such.npz"}, "cannot read no/such.npz: No such file"),
        ({"partition": "dirichlet2"}, "unknown partition 'dirichlet2'; did you mean 'dirichlet'"),
        ({"partition": "natural"}, "partition of data 'digits' must be one of iid, shard, dirichlet .*, got 'natural'"),
        ({"partition": "shard", "partition_options": {"alpha": 1}}, "unknown option of partition 'shard': 'alpha'"),
        ({"partition_options": {"alpha": 1}}, "unknown option of partition 'shard': 'alpha'"),
        ({"data_options": {"alpha": 1}}, "data set 'digits' takes no options, got 'alpha'"),
        (
            {"data": "synthetic", "data_options": {"alpha": -1}},
            "alpha of data 'synthetic' must be a number >= 0, got -1",
        ),
        ({"data": "synthetic", "data_options": {"samples_per_client": 0}}, "an int >= 1, got 0"),
        (
            {"data": "quadratic", "data_options": {"condition": 0.5}},
            "condition of data 'quadratic' must be a number >= 1",
        ),
        ({"data": "quadratic", "partition": "shard"}, "no single class each"),
        (
            {"data": "synthetic", "data_options": {"iid": "yes"}},
            "iid of data set 'synthetic' must be true or false, got 'yes'",
        ),
        ({"partition": 5}, "partition of load must be a name or a Partition, got 5"),
        ({"partition": ONE, "clients": 3}, "clients of load must be left out or 1, as in the given partition, got 3"),
        ({"partition": ONE, "partition_options": {"alpha": 1}}, "partition_options of load must be empty"),
        ({"clients": 0}, "clients of load must be an int >= 1, got 0"),
        ({"clients": 2.5}, "clients of load must be an int >= 1, got 2.5"),
        ({"clients": 10_000}, r"clients of partition 'shard' must be an int in \[1, 1437\]"),
        ({"clients": 1400}, "the rarest class allows 0: take fewer clients"),
        ({"seed": -1}, "seed of load must be an int >= 0, got -1"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_line(arguments, message):
    with pytest.raises(HcsfedError, match=message) as caught:
        load(**arguments)
    assert "\n" not in str(caught.value)


# Synthetic, as in FedProx's paper


def test_synthetic_inputs_have_the_papers_covariance():
    """Σ_jj = j^(−1.2) around each client's own mean."""
    f = load("synthetic", clients=40, data_options={"samples_per_client": 1000})
    spread = np.mean([f.client(k)[0].var(axis=0) for k in range(40)], axis=0)
    assert np.allclose(spread, np.arange(1, 61) ** -1.2, rtol=0.05)
    middles = np.array([f.client(k)[0].mean() for k in range(40)])
    assert 0.7 < middles.std() < 1.4  # B_k ~ N(0, 1); v_k adds 1/√60


def test_synthetic_sizes_are_lognormal_from_fifty_on():
    f = load("synthetic", clients=400)
    logs = np.log(np.maximum(f.sizes - 50, 1))
    assert f.sizes.min() >= 50
    assert abs(np.median(logs) - 4) < 0.4
    assert abs(logs.std() - 2) < 0.3


def test_synthetic_alpha_and_beta_set_clients_apart():
    def spread(**options):
        f = load("synthetic", clients=60, data_options={"samples_per_client": 50, **options})
        return np.std([f.client(k)[0].mean() for k in range(60)])

    assert spread(beta=3.0) > 2 * spread(beta=0.5)
    iid = load("synthetic", clients=60, data_options={"samples_per_client": 500, "iid": True})
    shares = iid.class_counts / 500
    assert shares.std(axis=0).max() < 0.05  # one model for all: the same classes everywhere
    own = load("synthetic", clients=60, data_options={"samples_per_client": 500, "alpha": 0.0, "beta": 0.0})
    assert (own.class_counts / 500).std(axis=0).max() > 0.15


def test_synthetic_labels_are_those_of_a_linear_model():
    f = load("synthetic", clients=3, data_options={"samples_per_client": 200, "beta": 0.0, "alpha": 0.0})
    from sklearn.linear_model import LogisticRegression

    x, y = f.client(0)
    assert LogisticRegression(C=100, max_iter=2000).fit(x, y).score(x, y) > 0.97


# Quadratic: optima in closed form


@pytest.mark.parametrize("bias", [False, True])
def test_quadratic_optima_have_no_slope(bias):
    f = load("quadratic", clients=9, data_options={"dimension": 6, "heterogeneity": 2.0})

    def slope(w, k):
        x, y = f.client(k)
        inputs = np.hstack([x, np.ones((len(x), 1))]) if bias else x
        return 2 * inputs.T @ (inputs @ w - y[:, 0]) / len(x)

    own = [client_optimum(f, k, bias=bias) for k in range(9)]
    assert all(np.abs(slope(own[k], k)).max() < 1e-5 for k in range(9))
    w = optimum(f, bias=bias)
    slopes = np.array([slope(w, k) for k in range(9)])
    assert np.abs(f.weights @ slopes).max() < 1e-5
    assert np.abs(slopes).max() > 0.1  # nobody's own optimum
    assert np.ptp(own, axis=0).max() > 0.5


def test_quadratic_without_heterogeneity_and_noise_has_one_optimum():
    f = load("quadratic", clients=5, data_options={"heterogeneity": 0.0, "noise": 0.0})
    for k in range(5):
        assert np.allclose(client_optimum(f, k), optimum(f), atol=1e-4)


def test_quadratic_hessians_are_as_conditioned_as_asked():
    f = load("quadratic", clients=3, data_options={"condition": 100.0, "samples_per_client": 20_000})
    for k in range(3):
        x = f.client(k)[0].astype(np.float64)
        assert abs(np.linalg.cond(x.T @ x) / 100 - 1) < 0.2
    a, b = (f.client(k)[0].T @ f.client(k)[0] / 20_000 for k in (0, 1))
    assert np.abs(a - b).max() > 0.1


# Files


def test_idx_files_are_parsed_and_others_refused():
    raw = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6])
    assert parse_idx(raw).tolist() == [[1, 2, 3], [4, 5, 6]]
    for broken in (b"", b"\x00\x00\x0d\x01", raw[:-1], raw[:6]):
        with pytest.raises(DataError, match="idx file"):
            parse_idx(broken)


def test_cifar_records_are_a_label_and_three_planes():
    pixels = np.arange(2 * 3072).reshape(2, 3, 32, 32) % 251
    raw = b"".join(bytes([label]) + p.astype(np.uint8).tobytes() for label, p in zip((7, 3), pixels, strict=True))
    x, y = np.empty((2, 3, 32, 32), np.uint8), np.empty(2, np.uint8)
    fill(raw, x, y)
    assert y.tolist() == [7, 3]
    assert np.array_equal(x, pixels)


def test_speeches_go_to_who_speaks():
    text = "First:\nHo!\nWho?\n\nSecond:\nI.\n\nFirst:\nYou.\n\nThird:\n\n"
    assert roles(text) == {"First": "Ho!\nWho?\nYou.\n", "Second": "I.\n"}


@here("mnist")
def test_mnist_is_the_published_one():
    f = load("mnist", clients=100)
    assert f.x.shape == (50_000, 1, 28, 28)
    assert f.x.dtype == f.y.dtype == np.uint8
    assert f.test_x.shape == (10_000, 1, 28, 28)
    # 980 zeros among the test images (LeCun et al. 1998), mean grey level 0.1307 of the training images.
    assert np.bincount(f.test_y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    whole = load("mnist", "iid")
    assert abs(whole.x.mean() * whole.scale - 0.1307) < 1e-4


@here("fashion-mnist")
def test_fashion_mnist_is_the_published_one():
    f = load("fashion-mnist", "iid")
    assert abs(f.x.mean() * f.scale - 0.2860) < 1e-4
    assert np.bincount(f.y).tolist() == [6000] * 10


@here("cifar-10-batches-bin")
def test_cifar10_is_the_published_one():
    f = load("cifar10", "iid")
    assert f.x.shape == (50_000, 3, 32, 32)
    assert np.allclose((f.x.mean(axis=(0, 2, 3)) / 255), [0.4914, 0.4822, 0.4465], atol=1e-4)
    assert (f.scale * 255 + f.shift, f.shift) == (1.0, -1.0)


@here("tinyshakespeare")
def test_shakespeare_is_one_client_per_role_predicting_the_next_character():
    f = load("shakespeare", data_options={"min_characters": 2000})
    assert f.clients == 99  # of 299 roles
    assert f.classes == 65
    assert f.x.shape[1:] == f.y.shape[1:] == (80,)
    assert f.x.dtype == f.y.dtype == np.uint8
    assert np.array_equal(f.x[:, 1:], f.y[:, :-1])
    x, y = f.client(0)
    assert np.array_equal(x[1:, 0], y[:-1, -1])  # windows of a role follow one another
    spell = f.about["alphabet"]
    assert "".join(spell[c] for c in x[0]).startswith("Before we proceed any further, hear me speak.")
    whole = load("shakespeare")
    assert whole.clients + whole.about["roles_left_out"] == 299
    assert len(PARTITIONS["iid"](whole.y, 5, seed=0).index) == len(whole.x)
    with pytest.raises(SettingError, match="length of data 'shakespeare' must be less than"):
        load("shakespeare", data_options={"length": 10**6})
