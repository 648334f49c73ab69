"""Three parts in one preset: sketches of all clients, a cohort balanced on them, and guesses that it corrects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.contract import Claims
from hcsfed.select.cube import MOST, cube
from hcsfed.select.draws import inclusion
from hcsfed.select.pivotal import local_pivotal
from hcsfed.types import Floats, Selection, View


@dataclass(frozen=True)
class Frontier:
    """A balanced cohort whose answers correct the server's guess of every update; sets features and estimator too.

    1. *Sketches*: everyone sends one in the first round, from a few local steps; afterwards it comes with an answer.
    2. *Design*: unbiased, balanced on what the sketches say of the clients (the cube method), with more places for
       those whose guess should be further off, because they were not heard for long.
    3. *Estimator*: a guess of every client's update, by regression on the sketches and by what the client sent last,
       corrected by those who answer (:class:`~hcsfed.aggregate.Regression`). ``estimator=weighted`` and others can be
       set instead.

    Parameters
    ----------
    design
        ``cube`` or ``pivotal``.
    features
        What clients are compared by: a name of :data:`hcsfed.features.FEATURES`.
    chances
        π ∝ ω_k·ρ_k, where ρ_k is how far off the guess should be: ``residual``, √(1 + rounds since the client was
        heard), or ``even``, for all the same.
    estimator
        What is made of the answers, unless the run's settings say otherwise.
    opening
        Local steps that everyone takes for its first sketch, scaled up to those of a round; 0: a whole round's.
    """

    design: Literal["cube", "pivotal"] = "cube"
    features: str = "sketch"
    chances: Literal["residual", "even"] = "residual"
    estimator: str = "regression"
    opening: int = 10

    name: ClassVar[str] = "frontier"
    claims: ClassVar[Claims] = Claims(unbiased=True, fixed_size=True, needs=frozenset({"features"}))

    def __post_init__(self) -> None:
        for parameter, value, allowed in (
            ("design", self.design, ("cube", "pivotal")),
            ("chances", self.chances, ("residual", "even")),
        ):
            if value not in allowed:
                raise bad(parameter, self.name, "one of " + ", ".join(allowed), value)
        if isinstance(self.opening, bool) or not isinstance(self.opening, int) or self.opening < 0:
            raise bad("opening", self.name, "an int >= 0", self.opening)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if view.features is None:
            raise bad("view", self.name, "given with features", None)
        off = view.weights * self._residuals(view)
        pi = inclusion(off, size)
        if self.design == "cube":
            ids = cube(view.features, off, pi, min(size, MOST), rng)
        else:
            ids = local_pivotal(view.features, pi, rng)
        return Selection(ids, view.weights[ids] / pi[ids], pi)

    def _residuals(self, view: View) -> Floats:
        """ρ_k but for its scale."""
        if self.chances == "even" or view.ages is None:
            return np.ones(view.clients)
        return np.asarray(np.sqrt(1.0 + view.ages))
