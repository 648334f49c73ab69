"""Features: comparable, short, honest about their size; the same for arrays and tensors, in one block or many."""

import math
import subprocess
import sys
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed.errors import SettingError
from hcsfed.features import (
    FEATURES,
    Context,
    GradientCompression,
    Labels,
    Noisy,
    OutputLayer,
    SharedCompression,
    Sketch,
    epsilon,
    stack,
)
from hcsfed.features.grouping import group, histogram, runs
from hcsfed.features.optimal import optimal
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, pick
from hcsfed.types import View


def context(n=6, d=300, **options):
    rng = np.random.default_rng(1)
    given = {
        "seed": 3,
        "round": 2,
        "aggregate": rng.normal(size=d).astype(np.float32),
        "output_bias": slice(d - 10, d),
        "labels": rng.integers(9, size=(n, 10)),
    }
    return Context(**{**given, **options})


def updates(n=6, d=300):
    return np.random.default_rng(0).standard_t(3, size=(n, d)).astype(np.float32)


def inertia(values, centres):
    nearest = np.searchsorted((centres[1:] + centres[:-1]) / 2, values)
    return float(((values - centres[nearest]) ** 2).sum())


@pytest.mark.parametrize("name", list(FEATURES))
def test_contract(name):
    feature, u, seen = FEATURES.build(name), updates(), context()
    before = u.copy()
    x = feature.encode(u, seen)
    assert x.dtype == np.float32
    assert x.shape[0] == len(u)
    assert feature.nbytes(x.shape[1]) == 4 * x.shape[1]
    assert feature.privacy
    assert (u == before).all()
    assert (x == feature.encode(u, context())).all()
    if name != "labels":
        parts = [feature.encode(u[i : i + 2], replace(seen, ids=np.arange(i, i + 2))) for i in (0, 2, 4)]
        assert np.concatenate(parts) == pytest.approx(x, rel=1e-6)
        broken = u.copy()
        broken[1, -3] = np.nan
        assert np.isfinite(feature.encode(broken, context())).all(axis=1).tolist() == [True, False] + [True] * 4


@pytest.mark.parametrize("name", [n for n in FEATURES if n != "labels"])
def test_torch_tensors(name):
    torch = pytest.importorskip("torch")
    feature, u = FEATURES.build(name), updates()
    tensor = torch.tensor(u, requires_grad=True)
    assert (feature.encode(tensor, context()) == feature.encode(u, context())).all()


def test_torch_and_numba_are_not_imported():
    code = "import sys, hcsfed.features, hcsfed.select; print('torch' in sys.modules, 'numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]


@given(st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=12), st.integers(2, 4))
@settings(deadline=None, max_examples=40)
def test_the_optimum_against_all_groupings(values, groups):
    v = np.sort(np.array(values, np.float32)).astype(np.float64)
    best = min(
        sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(v, cut))
        for k in range(1, min(groups, len(v)) + 1)
        for cut in combinations(range(1, len(v)), k - 1)
    )
    assert inertia(v, optimal(v, groups)) == pytest.approx(best, rel=1e-6, abs=1e-6)


TAILS = {
    "gauss": lambda rng, d: rng.normal(size=d),
    "laplace": lambda rng, d: rng.laplace(size=d),
    "t3": lambda rng, d: rng.standard_t(3, size=d),
    "t2": lambda rng, d: rng.standard_t(2, size=d),
}


@pytest.mark.parametrize("tail", TAILS)
def test_within_8_percent_of_the_optimum(tail):
    rng = np.random.default_rng(0)
    v = np.sort(TAILS[tail](rng, 20_000).astype(np.float32))
    best = inertia(v, optimal(v, 200))
    for form in (runs(v, 200), histogram(v)):
        assert inertia(v, group(*form, 200, "density", rng)) < 1.08 * best
    assert inertia(v, group(v, None, 200, "random", rng)) > 1.08 * best  # why the start matters


def test_runs_and_bins_keep_every_number():
    v = np.sort(np.random.default_rng(1).standard_cauchy(200_000).astype(np.float32))
    means, lengths = runs(v, 50)
    assert lengths.sum() == len(v)
    assert len(means) < len(v) / 4
    assert (np.diff(means) >= 0).all()
    assert (means * lengths).sum() == pytest.approx(v.sum(dtype=np.float64), rel=1e-6)
    points, counts = histogram(np.array([-2.0, -1.0, -1.0, 0.0, -0.0, 1e-30, 3.0], np.float32))
    assert counts.sum() == 7
    assert (np.diff(points) >= 0).all()
    assert points == pytest.approx([-2, -1, 0, 0, 1e-30, 3], rel=1e-3) or points == pytest.approx(
        [-2, -1, 0, 1e-30, 3], rel=1e-3
    )


def test_gc_gives_sorted_centres_of_the_size_asked():
    u = updates(3, 400)
    for options in ({}, {"exact": True}, {"start": "random"}, {"form": "histogram"}):
        x = GradientCompression(ratio=0.05, **options).encode(u, context(d=400))
        assert x.shape == (3, 20)
        assert (np.diff(x, axis=1) >= 0).all()
    assert GradientCompression(centres=7).encode(u, context()).shape == (3, 7)
    few = np.repeat(np.float32([[1, 2, 3]]), 20, axis=1)
    assert set(GradientCompression(centres=5).encode(few, context())[0]) <= {1, 2, 3}


def test_gc_cannot_tell_where_and_gc_shared_can():
    rng = np.random.default_rng(4)
    a = np.zeros((2, 200), np.float32)
    a[0, :100], a[1, 100:] = 1, 1
    seen = context(aggregate=np.concatenate([np.ones(100), -np.ones(100)]) + 0.01 * rng.normal(size=200))
    own, shared = GradientCompression().encode(a, seen), SharedCompression().encode(a, seen)
    assert np.linalg.norm(own[0] - own[1]) < 1e-6
    assert np.linalg.norm(shared[0] - shared[1]) > 1


def test_gc_shared_sends_group_means():
    u = updates(2, 100)
    first = SharedCompression(centres=10).encode(u, Context())  # no aggregate yet: ten stretches
    assert first == pytest.approx(u.reshape(2, 10, 10).mean(axis=2), rel=1e-5)
    aggregate = np.repeat([5.0, -5.0], 50)
    later = SharedCompression(centres=2).encode(u, Context(aggregate=aggregate))
    assert later == pytest.approx(np.stack([u[:, 50:].mean(axis=1), u[:, :50].mean(axis=1)], axis=1), rel=1e-4)


def test_a_sketch_keeps_inner_products_in_the_mean_and_is_linear():
    u = updates(2, 500).astype(np.float64)
    inner, norms = float(u[0] @ u[1]), np.linalg.norm(u, axis=1)
    seen = []
    for seed in range(200):
        x = Sketch(64).encode(u, Context(seed=seed)).astype(np.float64)
        seen.append(x[0] @ x[1])
    assert abs(np.mean(seen) - inner) < 4 * np.std(seen) / math.sqrt(200)
    assert np.var(seen) < 1.5 * (norms[0] ** 2 * norms[1] ** 2 + inner**2) / 64
    x = Sketch().encode(np.stack([u[0], u[1], u[0] + u[1]]), Context(seed=1, round=5))
    assert x[0] + x[1] == pytest.approx(x[2], abs=1e-4)
    assert (Sketch().encode(u, Context(seed=1, round=6)) == x[:2]).all()  # rounds are comparable


def test_labels_and_output_layer_ask_for_what_they_need():
    counts = np.array([[8, 2], [0, 0]])
    assert Labels().encode(updates(2), Context(labels=counts)) == pytest.approx(np.array([[0.8, 0.2], [0, 0]]))
    with pytest.raises(SettingError, match="class counts"):
        Labels().encode(updates(), Context())
    with pytest.raises(SettingError, match="last layer has a bias"):
        OutputLayer().encode(updates(), Context())


def test_noise_is_clipped_seeded_by_client_and_accounted_for():
    noisy = Noisy(Sketch(), clip=0.5, noise=1e-6)
    u = updates()
    x = noisy.encode(u, context(ids=np.arange(6)))
    assert (np.linalg.norm(x, axis=1) <= 0.5 * 1.001).all()
    alone = noisy.encode(u[4:5], context(ids=np.array([4])))
    assert (alone == x[4:5]).all()
    spread = Noisy(Sketch(), clip=2.0, noise=3.0).encode(np.zeros((50, 100), np.float32), Context())
    assert spread.std() == pytest.approx(6.0, rel=0.05)


def test_epsilon_solves_the_exact_equation():
    from scipy.stats import norm

    for mu, times, delta in [(0.1, 1, 1e-5), (1.0, 10, 1e-6), (2.0, 100, 1e-5)]:
        eps, total = epsilon(mu, times, delta), mu * math.sqrt(times)
        left = norm.cdf(total / 2 - eps / total) - math.exp(eps + norm.logcdf(-total / 2 - eps / total))
        assert left == pytest.approx(delta, rel=1e-3)
    # Balle & Wang 2018: below the classical √(2 ln(1.25/δ))·μ, which holds for ε < 1.
    assert epsilon(0.1, 1, 1e-5) < math.sqrt(2 * math.log(1.25e5)) * 0.1
    assert epsilon(0.1, 4, 1e-5) == epsilon(0.2, 1, 1e-5)
    assert Noisy(Sketch(), noise=20.0).spent(1) == epsilon(0.1, 1, 1e-5)
    assert epsilon(1e-9, 1, 0.1) == 0.0


# noise in multiples of the clip, messages, δ, ε by dp-accounting 0.6.0: PLDAccountant, GaussianDpEvent(noise / 2)
ACCOUNTED = [
    (20, 1, 1e-5, 0.34067),
    (20, 100, 1e-5, 4.37718),
    (4, 10, 1e-6, 8.30623),
    (2, 50, 1e-5, 54.37664),
    (1, 100, 1e-5, 284.39185),
    (100, 1000, 1e-7, 3.21821),
]


@pytest.mark.parametrize(("noise", "times", "delta", "expected"), ACCOUNTED)
def test_epsilon_is_that_of_another_accountant(noise, times, delta, expected):
    assert Noisy(Sketch(), noise=noise).spent(times, delta) == pytest.approx(expected, abs=1e-5)


def test_messages_of_a_wrong_length_are_left_out_and_named():
    """Neither a vector too short, nor too many numbers, nor nothing at all, breaks a round or steers it."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    good = rng.normal(size=(12, 5)).astype(np.float32)
    messages = [*good[:8], good[8, :3], np.zeros((5, 5)), None, np.append(good[11], [1.0, 2.0])]
    messages[2] = torch.from_numpy(good[2])
    x = stack(messages)
    assert x.shape == (12, 5)
    assert (x[:8] == good[:8]).all()
    assert np.isnan(x[8:]).all()
    view = View(np.full(12, 9), np.full(12, 1 / 12), np.ones(12, bool), features=x, norms=np.ones(12))
    alone = replace(view, features=good, available=np.arange(12) < 8)
    for name in ("hcsfed", "pivotal", "cube", "divfl", "fedfast", "clustered-updates"):
        chosen, other = (pick(SELECTORS.build(name), v, 3, stream(1, name)) for v in (view, alone))
        assert chosen.info["left_out"].tolist() == [8, 9, 10, 11]
        assert chosen.ids.tolist() == other.ids.tolist()
    assert stack([None, [1, 2]], width=3).shape == (2, 3)
    with pytest.raises(SettingError, match="vectors of features must be at least one vector"):
        stack([None, None])


def test_settings_are_checked():
    for make, message in [
        (lambda: GradientCompression(ratio=0), r"ratio of gc must be a number in \(0, 1\], got 0"),
        (lambda: GradientCompression(start="x"), "start of gc"),
        (lambda: GradientCompression(form="x"), "form of gc"),
        (lambda: SharedCompression(centres=-1), "centres of gc-shared"),
        (lambda: Sketch(0), "size of sketch"),
        (lambda: Noisy(Sketch(), clip=0), "clip of noisy features"),
        (lambda: Noisy(Sketch(), noise=math.inf), "noise of noisy features"),
    ]:
        with pytest.raises(SettingError, match=message):
            make()
