"""How far each selector's estimate is from full participation, round by round on the same path.

The path is that of full participation, so that all selectors are asked about the same updates, each many times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch

from hcsfed.aggregate import WeightedSum
from hcsfed.asking import everyone
from hcsfed.assemble import Parts, assemble
from hcsfed.choices import build_feature
from hcsfed.errors import SettingError, bad
from hcsfed.features import Feature
from hcsfed.hearing import hear
from hcsfed.rng import stream
from hcsfed.select import Selector, pick, start
from hcsfed.select.hybrid import seen
from hcsfed.select.kmeans import kmeans
from hcsfed.settings import Choice, Privacy, Settings
from hcsfed.theory import Error, Link, chain, inner_products, measured_by, population
from hcsfed.types import Floats, Selection, State, View
from hcsfed.variants import Variant, variant


@dataclass(frozen=True, eq=False)
class Moment:
    """A round of the path: everyone's updates, and the parameters and last aggregate that they come from."""

    round: int
    parameters: torch.Tensor
    aggregate: torch.Tensor | None
    updates: np.ndarray

    @cached_property
    def inner(self) -> Floats:
        """U·Uᵀ."""
        return inner_products(self.updates)


@dataclass(frozen=True)
class Row:
    """One measurement: who, when, how far off."""

    seed: int
    round: int
    selector: str
    error: Error


@dataclass(frozen=True, eq=False)
class Look:
    """All updates of a round, what a selector knows of them, and whom it picks."""

    selector: str
    updates: np.ndarray
    view: View
    selection: Selection


def path(parts: Parts, at: Sequence[int]) -> Iterator[Moment]:
    """Full participation up to the last of the wanted rounds (counted from 0), stopping at each of them."""
    parameters, aggregate = parts.trainer.initial(), None
    if parts.algorithm.start(parts.setup):
        raise bad("algorithm", "variance", "one that remembers nothing of its clients", parts.algorithm.name)
    memory = parts.server.start(parts.trainer.dimension)
    ids = np.arange(parts.federation.clients)
    for t in range(max(at) + 1):
        total = WeightedSum(parts.trainer.dimension, parts.trainer.device)
        kept = []
        for chunk in parts.algorithm.train(parts.setup, {}, parameters, ids, t):
            total.add(chunk.vectors, parts.federation.weights[chunk.ids])
            if t in at:
                kept.append(chunk.vectors.cpu().numpy().copy())
        if t in at:
            yield Moment(t, parameters, aggregate, np.concatenate(kept))
        aggregate = total.value()
        parameters, memory = parts.server.step(parameters, aggregate, memory)


def view_at(parts: Parts, selector: Selector, feature: Feature | None, moment: Moment) -> View:
    """What the selector sees at a moment, all that it asks for heard fresh (also where a run would know it stale)."""
    memory: State = {} if moment.aggregate is None else {"aggregate": moment.aggregate.cpu().numpy()}
    asked = replace(parts, selector=selector, feature=feature)
    train = partial(parts.algorithm.train, parts.setup, {}, moment.parameters, round=moment.round)
    return hear(asked, memory, moment.parameters, moment.round, train, everyone(asked)).view


def errors(settings: Settings, selectors: Sequence[Variant | str], at: Sequence[int], draws: int) -> Iterator[Row]:
    """Measure all selectors (as :mod:`hcsfed.variants` reads them) at all the rounds, counted from 0."""
    if not at or min(at) < 0:
        raise bad("at", "variance", "rounds counted from 0", list(at))
    if draws < 2:
        raise bad("draws", "variance", "an int ≥ 2", draws)
    read = [variant(s) if isinstance(s, str) else s for s in selectors]
    asked = [(one.label, one.build(settings), _on_one_path(one, settings)) for one in read]
    parts = _everyone(settings)
    for moment in path(parts, at):
        views: dict[str, View] = {}
        for label, selector, its_settings in asked:
            feature = build_feature(its_settings, selector)
            heard = repr((sorted(selector.claims.needs), selector.claims.trains, feature))
            if heard not in views:
                views[heard] = view_at(parts, selector, feature, moment)
            rng = stream(settings.seed, f"variance of {selector.name}", moment.round)
            error = measured_by(selector, views[heard], moment.inner, parts.size, draws, rng)
            yield Row(settings.seed, moment.round, label, error)


def theorem(settings: Settings, features: str, clusters: int, at: Sequence[int]) -> Iterator[tuple[int, list[Link]]]:
    """Theorem 1's chain at each round, in units of ‖full‖², with clusters found on these features."""
    selector = variant(f"cluster:features={features}:clusters={clusters}").build(settings)
    parts = _everyone(settings)
    feature = build_feature(settings, selector)
    for moment in path(parts, at):
        x, _ = seen(view_at(parts, selector, feature, moment), "Theorem 1")
        weights, rng = parts.federation.weights, stream(settings.seed, "clusters", moment.round)
        labels = kmeans(population(x, weights), min(clusters, parts.size), rng).labels
        y = population(moment.updates, weights)
        unit = float((y.mean(axis=0) ** 2).sum())
        yield moment.round, [link.over(unit) for link in chain(y, labels, parts.size)]


def looks(settings: Settings, selectors: Sequence[Variant | str], round: int) -> Iterator[Look]:
    """What each selector sees at a round, and one pick that it makes of it."""
    read = [variant(s) if isinstance(s, str) else s for s in selectors]
    asked = [(one.label, one.build(settings), _on_one_path(one, settings)) for one in read]
    for label, selector, _ in asked:
        if "features" not in selector.claims.needs:
            raise bad("selectors", "picture", "selectors that compare clients by features", label)
    parts = _everyone(settings)
    for moment in path(parts, [round]):
        for label, selector, its_settings in asked:
            view = view_at(parts, selector, build_feature(its_settings, selector), moment)
            view = replace(view, state=start(selector, view.clients))
            chosen = pick(selector, view, parts.size, stream(settings.seed, "picture", round))
            yield Look(label, moment.updates, view, chosen)


def _everyone(settings: Settings) -> Parts:
    """Who walks the path; there everyone answers, so that no features are sent, and none is noisy."""
    return assemble(replace(settings, selector=Choice("full"), privacy=Privacy()))


def _on_one_path(one: Variant, settings: Settings) -> Settings:
    """The variant's settings; refused where they would change what clients learn and not only who is picked."""
    its = one.over(settings)
    if replace(its, selector=settings.selector, features=settings.features, privacy=settings.privacy) != settings:
        changed = ", ".join(name for name in one.others if not name.startswith(("features.", "privacy.")))
        raise SettingError(f"variance asks all selectors about the same updates, so {one.label} can't set {changed}")
    return its
