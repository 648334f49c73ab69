"""How long does each selector take for the paper's hundred clients?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hcsfed.cli.bench.figures import Spread
from hcsfed.cli.bench.selection.finding import Finding
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, Selector, observe, pick, start
from hcsfed.types import Answers, View

QUESTION = "A selection among the paper's hundred clients"
CLIENTS, WIDTH, COHORT, KINDS = 100, 785, 10, 10
LIMIT_MS = 5.0
_LEARNING = 20
"""Rounds that a selector with a memory learns from first; until then it may pick at random."""


def population() -> View:
    """Everything that a selector may ask for; features of ten kinds of client."""
    rng = stream(0, "hundred")
    kinds = rng.standard_normal((KINDS, WIDTH))
    x = (kinds[np.arange(CLIENTS) % KINDS] + 0.5 * rng.standard_normal((CLIENTS, WIDTH))).astype(np.float32)
    sizes = rng.integers(50, 500, CLIENTS)
    return View(
        sizes,
        sizes / sizes.sum(),
        np.ones(CLIENTS, bool),
        features=x,
        norms=np.linalg.norm(x, axis=1).astype(np.float64),
        losses=rng.random(CLIENTS) + 0.5,
        labels=rng.integers(0, 50, (CLIENTS, 10)),
        accuracies=rng.random(CLIENTS),
        variances=rng.random(CLIENTS),
        ages=np.zeros(CLIENTS, np.int64),
    )


def seconds(selector: Selector, view: View, repeats: int) -> list[float]:
    """One selection a round, the memory kept as in a run; the first rounds are not counted."""
    state, rng, took = start(selector, CLIENTS), stream(0, "losses"), []
    for round_ in range(_LEARNING + repeats):
        losses = (1.5 + rng.random(CLIENTS)) / (1 + 0.1 * round_)
        now = replace(view, round=round_, state=state, losses=losses)
        began = time.perf_counter()
        chosen = pick(selector, now, COHORT, stream(0, selector.name, round_))
        took.append(time.perf_counter() - began)
        ids = chosen.ids
        norms = view.norms[ids] if view.norms is not None else np.ones(len(ids))
        x = view.features[ids] if view.features is not None else None
        state = observe(selector, state, chosen, Answers(ids, norms, losses[ids], np.full(len(ids), 50), x))
    return took[_LEARNING:]


def findings(repeats: int) -> Iterator[Finding]:
    view = population()
    for name in SELECTORS:
        took = seconds(SELECTORS.build(name), view, repeats)
        what = f"N = {CLIENTS}, k = {WIDTH}, m = {COHORT}: ms"
        yield Finding(QUESTION, what, name, Spread.of(took).best * 1000, LIMIT_MS, seconds={name: took})
