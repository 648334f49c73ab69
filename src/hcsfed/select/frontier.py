"""Three parts in one preset: sketches of all clients, a cohort balanced on them, and guesses that it corrects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.contract import Claims
from hcsfed.select.cube import Cube
from hcsfed.select.pivotal import Chances, LocalPivotal
from hcsfed.types import Selection, View


@dataclass(frozen=True)
class Frontier:
    """A balanced cohort whose answers correct the server's guess of every update; sets features and estimator too.

    1. *Sketches*: everyone sends one in the first round, from a few local steps; afterwards it comes with an answer.
    2. *Design*: the cohort is balanced on what the server knows of the clients (the cube method), unbiased.
    3. *Estimator*: the difference estimator, which guesses the update of a client by its last one, and by ridge
       regression on the sketches where there is none. ``estimator=weighted`` and others can be set instead.

    Parameters
    ----------
    design
        ``cube`` or ``pivotal``.
    features
        What clients are compared by: a name of :data:`hcsfed.features.FEATURES`.
    chances
        π ∝ ω_k (``weight``), all ``equal``, or ∝ ω_k‖u_k‖ (``norm``).
    estimator
        What is made of the answers, unless the run's settings say otherwise.
    opening
        Local steps that everyone takes for its first sketch, scaled up to those of a round; 0: a whole round's.
    max_share
        As in :class:`~hcsfed.select.cube.Cube`.
    """

    design: Literal["cube", "pivotal"] = "cube"
    features: str = "sketch"
    chances: Chances = "weight"
    estimator: str = "regression"
    opening: int = 5
    max_share: float = 1.0

    name: ClassVar[str] = "frontier"

    def __post_init__(self) -> None:
        if self.design not in ("cube", "pivotal"):
            raise bad("design", self.name, "one of cube, pivotal", self.design)
        if isinstance(self.opening, bool) or not isinstance(self.opening, int) or self.opening < 0:
            raise bad("opening", self.name, "an int >= 0", self.opening)
        self._drawing()

    @property
    def claims(self) -> Claims:
        return self._drawing().claims

    def _drawing(self) -> Cube | LocalPivotal:
        design = Cube if self.design == "cube" else LocalPivotal
        return design(features=self.features, chances=self.chances, max_share=self.max_share)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        return self._drawing().select(view, size, rng)
