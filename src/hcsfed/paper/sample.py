"""A figure over seeds, and how two of them are told apart: the rules by which verdicts are given.

All rules are here, and none of them looks at what it would be nice to find.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hcsfed.paper.preset import Experiment, Point
from hcsfed.paper.store import Store
from hcsfed.record import Run
from hcsfed.settings import with_seed

Order = Literal["less", "more", "no difference", "not measured"]
SURE = 2.0  # standard errors of the paired difference
NEAR_SHARE = 0.2  # of a claimed factor
POINTS = 0.01  # test accuracies that differ by no more are the same
ROUNDS, ROUNDS_SHARE = 2.0, 0.15  # so are rounds to a target


@dataclass(frozen=True)
class Sample:
    """A figure by seed; None where the run ended before it was reached, with what had been spent by then in ``beyond``.

    Parameters
    ----------
    wanted
        How many seeds there should be.
    """

    values: Mapping[int, float | None]
    beyond: Mapping[int, float]
    wanted: int = 0

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def missed(self) -> int:
        return sum(value is None for value in self.values.values())

    @property
    def mean(self) -> float:
        """NaN where some seed missed: the mean of the others would flatter."""
        known = [value for value in self.values.values() if value is not None]
        return float(np.mean(known)) if known and not self.missed else math.nan

    @property
    def spread(self) -> float:
        """Standard deviation over seeds."""
        known = [value for value in self.values.values() if value is not None]
        return float(np.std(known, ddof=1)) if len(known) > 1 and not self.missed else math.nan

    @property
    def least(self) -> float:
        """The mean, where a seed that missed counts with what it had spent in vain: a lower bound."""
        return (
            float(np.mean([self.beyond[s] if v is None else v for s, v in self.values.items()])) if self.n else math.nan
        )


def sample(
    store: Store, point: Point, seeds: int, figure: Callable[[Run], float | None], spent: Callable[[Run], float]
) -> Sample:
    """One figure of all runs of a point that have gone to their end."""
    values: dict[int, float | None] = {}
    beyond: dict[int, float] = {}
    for seed in range(seeds):
        run = store.find(with_seed(point.settings, seed))
        if run is None:
            continue
        value = figure(run)
        if value is None and len(run.history) < point.settings.rounds:
            continue  # it may still get there
        values[seed], beyond[seed] = value, spent(run)
    return Sample(values, beyond, seeds)


def rounds_to(store: Store, point: Point, target: float, seeds: int) -> Sample:
    """Rounds to a test accuracy; who missed it counts as one round more than there were."""
    return sample(store, point, seeds, lambda run: run.rounds_to(target), lambda run: len(run.history) + 1.0)


def spent_to(store: Store, point: Point, target: float, seeds: int, cost: str) -> Sample:
    """Bytes or local steps to a test accuracy."""
    return sample(store, point, seeds, lambda run: run.total(cost, target), lambda run: float(run.total(cost) or 0))


def final(store: Store, point: Point, seeds: int) -> Sample:
    """Test accuracy after the last round."""

    def last(run: Run) -> float | None:
        return run.final_accuracy if len(run.history) >= point.settings.rounds else None

    return sample(store, point, seeds, last, lambda run: math.nan)


def best(store: Store, point: Point, seeds: int) -> Sample:
    """The highest test accuracy of any round, as the paper's Fig. 4 has it; it flatters, and decides nothing."""

    def top(run: Run) -> float | None:
        known = [r["accuracy"] for r in run.history if r["accuracy"] is not None]
        return max(known) if known and len(run.history) >= point.settings.rounds else None

    return sample(store, point, seeds, top, lambda run: math.nan)


def best_round(store: Store, point: Point, seeds: int) -> Sample:
    """The first round with that accuracy."""

    def when(run: Run) -> float | None:
        known = [(r["accuracy"], -r["round"]) for r in run.history if r["accuracy"] is not None]
        return -max(known)[1] if known and len(run.history) >= point.settings.rounds else None

    return sample(store, point, seeds, when, lambda run: math.nan)


# Rules


def order(a: Sample, b: Sample) -> Order:
    """Whether a is less than b: the mean paired difference is beyond twice its standard error.

    Seeds that missed count with what they had spent, which is too little: "less" stands on it only where they are b's,
    "more" only where they are a's. With one seed there is no error, and the difference itself decides.
    """
    seeds = sorted(a.values.keys() & b.values.keys())
    if not seeds:
        return "not measured"
    pairs = [(_value(a, s), _value(b, s)) for s in seeds]
    differences = np.array([x - y for x, y in pairs])
    error = differences.std(ddof=1) / math.sqrt(len(seeds)) if len(seeds) > 1 else 0.0
    middle = float(differences.mean())
    if abs(middle) <= SURE * error or middle == 0:
        return "no difference"
    if middle < 0:
        return "no difference" if any(a.values[s] is None for s in seeds) else "less"
    return "no difference" if any(b.values[s] is None for s in seeds) else "more"


def _value(a: Sample, seed: int) -> float:
    value = a.values[seed]
    return a.beyond[seed] if value is None else value


def factor(slow: Sample, quick: Sample) -> float:
    """How many times less the second is; a lower bound where the first missed, NaN where the second did."""
    return slow.least / quick.mean if quick.n and quick.mean else math.nan


def near_factor(found: float, claimed: float) -> bool:
    """A factor is there where it is reached but for a fifth."""
    return found >= (1 - NEAR_SHARE) * claimed


def agrees(ours: Sample, paper: float, plus_minus: float, share: bool) -> bool | None:
    """Whether a cell is the paper's: within a point (or two rounds, or 15 %), or twice the two spreads together."""
    if not ours.n or math.isnan(ours.mean):
        return None
    spread = 0.0 if math.isnan(ours.spread) else ours.spread
    allowed = max(POINTS if share else max(ROUNDS, ROUNDS_SHARE * paper), SURE * math.hypot(spread, plus_minus))
    return abs(ours.mean - paper) <= allowed + 1e-9


def points(one: Experiment, **words: object) -> list[Point]:
    """The points of an experiment with these words."""
    return [p for p in one.points if all(getattr(p, key) == value for key, value in words.items())]
