"""Robust estimators: in each stratum not the mean of the answers but a centre that a few of them can't drag away.

D. Yin, Y. Chen, R. Kannan & P. Bartlett, "Byzantine-robust distributed learning: towards optimal statistical rates",
ICML 2018, for the median and the trimmed mean of all clients, coordinate by coordinate. Strata and weights are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.aggregate.contract import Setup
from hcsfed.aggregate.estimate import as_array
from hcsfed.aggregate.estimator import Total
from hcsfed.errors import bad
from hcsfed.types import Floats, Ints, Selection, State, View
from hcsfed.updates import Updates, Vectors

_NUMBERS = 1 << 22  # sorted at a time


@dataclass(frozen=True)
class Robust:
    """Σ_h W_h·c_h, where c_h is the trimmed mean of stratum h in each coordinate, W_h the sum of its picked's weights.

    Strata are the clusters of the selection, where it has any; else all are one. Of a stratum's weight a share ``trim``
    is cut off at each end, half of the next client's weight if it comes to that; ½ is the median. 0 is the mean, hence
    the selection's own estimate.

    What it costs: a centre is not a mean. Where honest clients differ, as they do with a class or two each, a
    coordinate that few of them move is cut away as a lie would be, and the estimate is biased however many answer;
    the more alike the clients of a stratum, the less. And what it doesn't give: a stratum of one or two answers has
    nobody to hold a lie against, so that with as many clusters as places it is the mean. In a stratum liars must hold
    less than the share ``trim`` of the weight; bounds on weights are the selector's affair (``floor``, ``max_share``).

    Parameters
    ----------
    trim
        In [0, ½].
    within
        ``strata``, or ``cohort``: one stratum whatever the selection has.
    """

    trim: float = 0.2
    within: Literal["strata", "cohort"] = "strata"

    name: ClassVar[str] = "robust"
    compares: ClassVar[bool] = False
    everyone_first: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.trim <= 0.5:
            raise bad("trim", self.name, "a number in [0, 0.5]", self.trim)
        if self.within not in ("strata", "cohort"):
            raise bad("within", self.name, "strata or cohort", self.within)

    def start(self, setup: Setup) -> State:
        return {}

    def adapt(self, setup: Setup, state: State, before: Floats) -> None:
        pass

    def open(self, setup: Setup, state: State, view: View, selection: Selection) -> Total:
        labels = selection.info.get("labels") if self.within == "strata" else None
        strata = np.zeros(setup.clients, np.int64) if labels is None else np.asarray(labels)
        return _Kept(self.trim, strata, setup)


@dataclass(eq=False)
class _Kept:
    """All answers of a round: a centre needs them at once."""

    trim: float
    strata: Ints
    setup: Setup
    ids: list[Ints] = field(default_factory=list)
    rows: list[Vectors] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)

    def add(self, updates: Updates, weights: Floats) -> None:
        self.ids.append(updates.ids)
        self.rows.append(updates.vectors)
        self.weights.append(weights)

    def value(self) -> Vectors:
        total = np.zeros(self.setup.dimension)
        if self.ids:
            rows = np.concatenate([as_array(part) for part in self.rows])
            weights, labels = np.concatenate(self.weights), self.strata[np.concatenate(self.ids)]
            for stratum in np.unique(labels):
                members = np.flatnonzero((labels == stratum) & (weights > 0))
                if len(members):
                    add_centre(total, rows[members], weights[members], self.trim)
        estimate = total.astype(np.float32)
        if self.setup.device is None:
            return estimate
        import torch

        return torch.from_numpy(estimate).to(self.setup.device)


def add_centre(total: Floats, rows: NDArray[np.float32], weights: Floats, trim: float) -> None:
    """Total += Σweights · the weighted trimmed mean of the rows, coordinate by coordinate."""
    width = max(1, _NUMBERS // len(rows))
    for first in range(0, len(total), width):
        here = slice(first, first + width)
        total[here] += weights.sum() * middle(rows[:, here].astype(np.float64), weights, trim)


def middle(values: Floats, weights: Floats, trim: float) -> Floats:
    """Of each column: laid end to end by size, each with the length of its weight, the mean of the middle stretch."""
    order = np.argsort(values, axis=0)
    ends = np.cumsum(weights[order], axis=0)
    whole = ends[-1]
    ends /= whole
    starts = np.vstack([np.zeros_like(whole), ends[:-1]])
    # The median's stretch has no length: a hair of one finds the middle value, or both where the middle lies between.
    low, high = min(trim, 0.5 - 1e-9), max(1 - trim, 0.5 + 1e-9)
    shares = np.maximum(np.minimum(ends, high) - np.maximum(starts, low), 0)
    inside: Floats = (shares * np.take_along_axis(values, order, axis=0)).sum(axis=0) / shares.sum(axis=0)
    return inside


def median(within: Literal["strata", "cohort"] = "strata") -> Robust:
    """The median of the answers in each stratum, coordinate by coordinate: robust against nearly half, and biased."""
    return Robust(trim=0.5, within=within)


def trimmed(trim: float = 0.2, within: Literal["strata", "cohort"] = "strata") -> Robust:
    """The mean of the answers in each stratum without the outer ones, coordinate by coordinate: robust, and biased."""
    return Robust(trim=trim, within=within)
