"""Any selector behind one call, for the loop of any framework: names and what is known of them in, weights out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.select.contract import Selector, longer, observe, pick, start
from hcsfed.settings import cohort_size
from hcsfed.types import Answers, Selection, State, View


@dataclass(eq=False)
class Picker:
    """A selector, and what it has to remember from round to round.

    Parameters
    ----------
    selector
        A selector, or its name.
    cohort
        How many answer a round: a count, or a share of those who are there.
    seed
        The same seed and the same calls give the same cohorts.
    round
        Rounds so far.
    names
        Everyone ever named, in the order of their numbers.
    notes
        What the selector wrote down.
    """

    selector: Selector | str = "hcsfed"
    cohort: int | float = 0.1
    seed: int = 0
    round: int = 0
    names: list[Hashable] = field(default_factory=list)
    notes: State = field(default_factory=dict)
    _picked: Selection | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.selector, str):
            from hcsfed.select import SELECTORS

            self.selector = SELECTORS.build(self.selector)

    def select(
        self,
        ids: Sequence[Hashable],
        features: ArrayLike | None = None,
        *,
        sizes: ArrayLike | None = None,
        norms: ArrayLike | None = None,
        losses: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        variances: ArrayLike | None = None,
    ) -> dict[Hashable, float]:
        """Who is to answer this round → what to multiply each update by; the sum of these stands for everyone's mean.

        Weights must reach the sum as they are: nothing is to be divided by their total.

        Parameters
        ----------
        ids
            Names of those who can be asked now.
        features
            A row for each of them; a row that holds NaN leaves that client out.
        sizes
            Their examples, by which they count; by default all count the same.
        norms
            Of their updates; by default of their features.
        losses, labels, variances
            As in :class:`~hcsfed.types.View`.
        """
        here = self._numbers(ids)
        if norms is None and features is not None:
            norms = np.linalg.norm(np.asarray(features, np.float64), axis=1)
        amounts = self._spread(np.ones(len(ids)) if sizes is None else sizes, here, "sizes", 0.0)
        if not np.isfinite(amounts).all() or (amounts < 0).any() or not amounts.any():
            raise bad("sizes", "Picker", "numbers ≥ 0 that are not all 0", sizes)
        known = np.zeros(len(self.names), bool)
        known[here] = True
        view = View(
            sizes=amounts.astype(np.int64),
            weights=amounts / amounts.sum(),
            available=known,
            round=self.round,
            features=None if features is None else self._spread(features, here, "features").astype(np.float32),
            norms=None if norms is None else self._spread(norms, here, "norms"),
            losses=None if losses is None else self._spread(losses, here, "losses"),
            labels=None if labels is None else self._spread(labels, here, "labels", 0.0).astype(np.int64),
            variances=None if variances is None else self._spread(variances, here, "variances"),
            state=self.notes,
        )
        wanted = self.cohort if isinstance(self.cohort, float) else min(self.cohort, len(ids))
        size = cohort_size(wanted, len(ids))
        self._picked = pick(self._chosen, view, size, stream(self.seed, "select", self.round))
        self.round += 1
        pairs = zip(self._picked.ids.tolist(), self._picked.weights.tolist(), strict=True)
        return {self.names[k]: weight for k, weight in pairs}

    def observe(
        self,
        ids: Sequence[Hashable],
        *,
        losses: ArrayLike | None = None,
        norms: ArrayLike | None = None,
        seconds: ArrayLike | None = None,
    ) -> None:
        """Tell the selector how those who answered did; only those that learn from answers need to know."""
        if self._picked is None:
            raise bad("observe", "Picker", "called after select", None)
        here = self._numbers(ids)

        def of(given: ArrayLike | None) -> NDArray[Any]:
            return np.full(len(here), np.nan) if given is None else np.asarray(given, np.float64)

        order = np.argsort(here)
        answers = Answers(
            here[order],
            of(norms)[order],
            of(losses)[order],
            np.ones(len(here), np.int64),
            seconds=None if seconds is None else of(seconds)[order],
        )
        self.notes = observe(self._chosen, self.notes, self._picked, answers)

    @property
    def _chosen(self) -> Selector:
        assert not isinstance(self.selector, str)
        return self.selector

    def _numbers(self, ids: Sequence[Hashable]) -> NDArray[np.int64]:
        """Each name's number; new names get the next ones, and room in the memory."""
        if len(set(ids)) != len(ids) or not len(ids):
            raise bad("ids", "Picker", "one or more distinct names", list(ids))
        before = len(self.names)
        numbers = {name: k for k, name in enumerate(self.names)}
        for name in ids:
            if name not in numbers:
                numbers[name] = len(self.names)
                self.names.append(name)
        if len(self.names) > before:
            fresh = start(self._chosen, len(self.names))
            self.notes = longer(self.notes, start(self._chosen, before), fresh) if before else fresh
        return np.array([numbers[name] for name in ids], np.int64)

    def _spread(self, given: ArrayLike, here: NDArray[np.int64], name: str, others: float = np.nan) -> NDArray[Any]:
        """A row for everyone ever named."""
        rows = np.asarray(given, np.float64)
        if len(rows) != len(here):
            raise bad(name, "Picker", f"one row for each of the {len(here)} ids", f"{len(rows)} rows")
        whole = np.full((len(self.names), *rows.shape[1:]), others)
        whole[here] = rows
        return whole
