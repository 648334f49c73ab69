"""The last percents of gradient compression: edges moved together within a band."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hcsfed.features import Context, GradientCompression
from hcsfed.features.band import refine
from hcsfed.features.grouping import group, histogram, runs
from hcsfed.features.optimal import optimal
from hcsfed.rng import stream


def inertia(ordered: np.ndarray, centres: np.ndarray) -> float:
    nearest = np.searchsorted((centres[1:] + centres[:-1]) / 2, ordered)
    return float(((ordered - centres[nearest]) ** 2).sum())


def sums(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(points) + 1.0), np.concatenate([[0.0], np.cumsum(points)])


@given(st.integers(0, 10_000), st.integers(2, 16), st.integers(1, 8))
@settings(deadline=None, max_examples=60)
@example(1244, 7, 6)
def test_within_the_band_the_optimum_is_found(seed: int, n: int, groups: int) -> None:
    """Of up to sixteen numbers no edge has farther to go than the band is wide, if it starts in the middle."""
    values = np.sort(stream(seed, "values").integers(-20, 20, n).astype(np.float64))
    groups = min(groups, len(np.unique(values)))
    best = inertia(values, optimal(values, groups))
    edges = np.linspace(0, n, groups + 1).round().astype(int)
    start = np.array([values[a:b].mean() for a, b in pairwise(edges)])
    found = refine(values, *sums(values), start)
    assert inertia(values, found) <= inertia(values, np.sort(start)) + 1e-9
    owners = np.searchsorted((start[1:] + start[:-1]) / 2, values, side="right")  # on an edge: the upper group's
    if len(np.unique(start)) == groups == len(np.unique(owners)):
        assert inertia(values, found) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("law", ["standard_normal", "laplace", "standard_t"])
@pytest.mark.parametrize(("d", "groups"), [(5_000, 200), (20_000, 1_000), (8_000, 40)])
def test_inertia_is_within_eight_percent_of_the_optimum(law: str, d: int, groups: int) -> None:
    rng = stream(0, law)
    values = (rng.standard_t(2, d) if law == "standard_t" else getattr(rng, law)(size=d)).astype(np.float32)
    ordered = np.sort(values)
    centres = GradientCompression(centres=groups).encode(values[None], Context())[0].astype(np.float64)
    assert inertia(ordered, centres) <= 1.06 * inertia(ordered, optimal(ordered, groups))


def test_a_mean_far_from_zero_costs_no_digits() -> None:
    values = np.sort(stream(0, "far").standard_normal(3_000))
    near, far = (
        refine(values, *sums(values), values[::100]),
        refine(values + 1e6, *sums(values + 1e6), values[::100] + 1e6),
    )
    np.testing.assert_allclose(far - 1e6, near, atol=1e-6)


@pytest.mark.parametrize("groups", [100, 1_000, 1_001, 4_000])
def test_bins_are_fine_enough_for_their_groups(groups: int) -> None:
    values = stream(0, "bins").standard_normal(600_000).astype(np.float32)
    ordered, rng = np.sort(values), stream(0, "x")
    fine = inertia(ordered, group(*runs(ordered, groups), groups, "density", rng))
    assert inertia(ordered, group(*histogram(values, groups), groups, "density", rng)) <= 1.03 * fine


def test_counting_on_all_cores_counts_everyone_once() -> None:
    values = stream(0, "many").standard_normal((1 << 20) + 3).astype(np.float32)
    points, counts = histogram(values)
    assert counts.sum() == len(values)
    assert counts @ points == pytest.approx(values.sum(dtype=np.float64), abs=0.001 * len(values))
    assert (np.diff(points) > 0).all()


@pytest.mark.parametrize("form", ["sort", "histogram"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("exact", [False, True])
def test_an_update_that_is_not_finite_gives_none(form: str, odd: float, exact: bool) -> None:
    updates = stream(0, "odd").standard_normal((2, 50)).astype(np.float32)
    updates[1, 17] = odd
    x = GradientCompression(centres=5, form=form, exact=exact).encode(updates, Context())  # type: ignore[arg-type]
    assert np.isfinite(x[0]).all()
    assert np.isnan(x[1]).all()
