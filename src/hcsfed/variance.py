"""How far each selector's estimate is from full participation, round by round on the same path.

The path is that of full participation, so that all selectors are asked about the same updates, each many times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from hcsfed.aggregate import WeightedSum
from hcsfed.assemble import Parts, assemble, build_feature
from hcsfed.hearing import hear
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, Selector
from hcsfed.settings import Choice, Settings
from hcsfed.theory import Error, measured
from hcsfed.types import State


@dataclass(frozen=True, eq=False)
class Moment:
    """A round of the path: everyone's updates, and the parameters and last aggregate that they come from."""

    round: int
    parameters: torch.Tensor
    aggregate: torch.Tensor | None
    updates: np.ndarray


def path(parts: Parts, at: Sequence[int]) -> Iterator[Moment]:
    """Full participation up to the last of the wanted rounds (counted from 0), stopping at each of them."""
    parameters, aggregate = parts.trainer.initial(), None
    everyone = np.arange(parts.federation.clients)
    for t in range(max(at) + 1):
        total = WeightedSum(parts.trainer.dimension, parts.trainer.device)
        kept = []
        for chunk in parts.trainer.train(parameters, everyone, t):
            total.add(chunk.vectors, parts.federation.weights[chunk.ids])
            if t in at:
                kept.append(chunk.vectors.cpu().numpy())
        if t in at:
            yield Moment(t, parameters, aggregate, np.concatenate(kept))
        aggregate = total.value()
        parameters = parts.algorithm.step(parameters, aggregate)


def error_of(parts: Parts, selector: Selector, moment: Moment, draws: int) -> Error:
    """The selector's error at a moment, with everything that it asks for heard fresh."""
    feature = build_feature(parts.settings, selector)
    asked = replace(parts, selector=selector, feature=feature)
    memory: State = {} if moment.aggregate is None else {"aggregate": moment.aggregate.cpu().numpy()}
    view = hear(asked, memory, moment.parameters, moment.round).view
    rng = stream(parts.settings.seed, f"variance of {selector.name}", moment.round)
    return measured(selector, view, moment.updates, parts.size, draws, rng)


def errors(
    settings: Settings, selectors: Sequence[Selector | str], at: Sequence[int], draws: int
) -> Iterator[tuple[int, str, Error]]:
    """(round, selector, error) for all selectors at all the rounds."""
    named = [(s, SELECTORS.build(s)) if isinstance(s, str) else (s.name, s) for s in selectors]
    parts = assemble(replace(settings, selector=Choice("full")))
    for moment in path(parts, at):
        for name, selector in named:
            yield moment.round, name, error_of(parts, selector, moment, draws)
