"""Settings → the things that they name, each checked before anything is computed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from hcsfed.aggregate import ALGORITHMS, SERVERS, Algorithm, Estimator, Server, Setup
from hcsfed.attack import ATTACKS, Adversaries
from hcsfed.choices import build_estimator, build_feature
from hcsfed.clients import Layout, Trainer, build_module, make_trainer, steps_of
from hcsfed.data import load
from hcsfed.errors import bad
from hcsfed.features import Feature, Noisy
from hcsfed.guard import GUARDS, Guard
from hcsfed.reach import AVAILABILITIES, SPEEDS, Availability, People, Speed
from hcsfed.select import SELECTORS, Selector
from hcsfed.settings import LocalTraining, Settings, cohort_size
from hcsfed.shelf import MIB, Shelves
from hcsfed.types import Federation, Ints
from hcsfed.updates import Updates


@dataclass(frozen=True)
class Parts:
    """All that the round loop works with."""

    settings: Settings
    federation: Federation
    trainer: Trainer
    selector: Selector
    algorithm: Algorithm
    estimator: Estimator
    server: Server
    adversaries: Adversaries
    guard: Guard
    setup: Setup
    size: int
    feature: Feature | None
    output_bias: slice | None
    people: People
    availability: Availability
    speed: Speed

    def initial(self) -> torch.Tensor:
        """The parameters of round 0."""
        return self.trainer.initial()


def assemble(
    settings: Settings,
    *,
    federation: Federation | None = None,
    model: torch.nn.Module | Callable[..., torch.nn.Module] | None = None,
    selector: Selector | None = None,
) -> Parts:
    """Build what the settings name; things given directly take the place of what is named."""
    if selector is None:
        selector = SELECTORS.build(settings.selector.name, **settings.selector.options)
    algorithm = ALGORITHMS.build(settings.algorithm.name, **settings.algorithm.options)
    estimator = build_estimator(settings, selector)
    server = SERVERS.build(settings.server.name, **settings.server.options)
    attack = ATTACKS.build(settings.attack.name, **settings.attack.options)
    guard = GUARDS.build(settings.guard.name, **settings.guard.options)
    work = algorithm.local(settings.local)
    availability, speed = build_reach(settings)
    if federation is None:
        federation = build_federation(settings)
    size = cohort_size(settings.cohort, federation.clients)
    module = build_module(
        federation, model if model is not None else settings.model.name, settings.seed, **settings.model.options
    )
    train_as = partial(
        make_trainer,
        federation,
        module,
        seed=settings.seed,
        backend=settings.backend,
        device=settings.device,
        dtype=settings.dtype,
    )
    trainer = train_as(work)
    adversaries = Adversaries(
        attack, attack.who(federation.clients, settings.seed), lambda ids: trainer.train(trainer.initial(), ids, 0)
    )
    setup = Setup(
        trainer.train,
        whole_gradients(federation, work, train_as),
        trainer.dimension,
        trainer.device,
        federation.weights,
        federation.sizes,
        steps_of(work, federation.sizes),
        work,
        Shelves(settings.row_memory * MIB),
    )
    return Parts(
        settings,
        federation,
        trainer,
        selector,
        algorithm,
        estimator,
        server,
        adversaries,
        guard,
        setup,
        size,
        build_feature(settings, selector, estimator, algorithm),
        output_bias(module),
        known(People(settings.seed, federation), availability, speed),
        availability,
        speed,
    )


def whole_gradients(
    federation: Federation, work: LocalTraining, train_as: Callable[[LocalTraining], Trainer]
) -> Callable[[torch.Tensor, Ints], Iterator[Updates]]:
    """Clients' gradients over all their rows: one step of rate 1 with everything in one minibatch, turned round."""

    @cache
    def trainer() -> Trainer:  # built when it is first asked for, which for most algorithms is never
        one = LocalTraining(steps=1, batch=int(federation.sizes.max()), lr=1.0, weight_decay=work.weight_decay)
        return train_as(one)

    def gradients(parameters: torch.Tensor, ids: Ints) -> Iterator[Updates]:
        for chunk in trainer().train(parameters, ids, 0):
            yield replace(chunk, vectors=-chunk.vectors)

    return gradients


def output_bias(module: torch.nn.Module) -> slice | None:
    """Where in an update the bias of the last layer stands, if it has one."""
    last = Layout.of(module).parameters[-1:]
    return slice(last[0].start, last[0].stop) if last and len(last[0].shape) == 1 else None


def build_reach(settings: Settings) -> tuple[Availability, Speed]:
    """Who is within reach, and how fast; a server that would wait for ever is refused."""
    availability = AVAILABILITIES.build(settings.availability.name, **settings.availability.options)
    speed = SPEEDS.build(settings.speed.name, **settings.speed.options)
    told = settings.reach
    if told.deadline and not speed.timed:
        raise bad("reach.deadline", "run", "0 where speed is untimed", told.deadline, "try speed=lognormal")
    if told.lost and speed.timed and not told.deadline:
        remedy = "without one the server would wait for ever"
        raise bad("reach.deadline", "run", "> 0 where answers are lost and time is counted", told.deadline, remedy)
    return availability, speed


def known(people: People, availability: Availability, speed: Speed) -> People:
    """The same people, once it is sure that both models can speak of them."""
    availability.chances(people, 0)
    speed.seconds(people, np.ones(people.clients, np.int64), 0)
    return people


def build_federation(settings: Settings) -> Federation:
    """The clients that data and partition make."""
    options = dict(settings.partition.options)
    clients = options.pop("clients", None)
    name = None if settings.partition.name == "default" else settings.partition.name
    return load(
        settings.data.name,
        partition=name,
        clients=clients,
        seed=settings.seed,
        data_options=dict(settings.data.options),
        partition_options=options,
    )


def describe(parts: Parts) -> dict[str, Any]:
    """The header of a run: what it ran on and with."""
    federation = parts.federation
    few = federation.clients <= 1000
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: version(name) for name in ("hcsfed", "torch", "numpy")}
        | {"python": platform.python_version()},
        "dimension": parts.trainer.dimension,
        "engine": parts.trainer.engine,
        "device": str(parts.trainer.device),
        "cohort_size": parts.size,
        "partition": federation.about.get("partition"),
        "epsilon_of_a_message": spent_once(parts),
        "federation": {
            "name": federation.name,
            "task": federation.task,
            "clients": federation.clients,
            "classes": federation.classes,
            "rows": int(federation.offsets[-1]),
            "test_rows": len(federation.test_x),
            "sizes": _summary(federation.sizes, few),
            "class_counts": federation.class_counts.tolist() if few else None,
        },
    }


def spent_once(parts: Parts) -> float | None:
    """ε of one noisy feature."""
    return parts.feature.spent(1, parts.settings.privacy.delta) if isinstance(parts.feature, Noisy) else None


def _summary(sizes: np.ndarray, few: bool) -> list[int]:
    """All sizes of a few clients; the quantiles 0, 0.1, …, 1 of many."""
    return [int(s) for s in (sizes if few else np.quantile(sizes, np.linspace(0, 1, 11)))]
