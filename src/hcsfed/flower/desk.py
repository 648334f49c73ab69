"""What the server works with in a round: the simulator's own parts, for the clients that there are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hcsfed.aggregate import ALGORITHMS, SERVERS, Algorithm, Estimator, Server, Setup
from hcsfed.choices import build_estimator, build_feature, feature_choice
from hcsfed.errors import SettingError, bad
from hcsfed.features import Context, Feature
from hcsfed.flower.order import Order, Phase
from hcsfed.flower.responses import Responses
from hcsfed.flower.roster import Roster
from hcsfed.guard import GUARDS, Guard
from hcsfed.select import SELECTORS, Selector, to_ask
from hcsfed.settings import LocalTraining, Settings, cohort_size, steps_of
from hcsfed.shelf import Shelves
from hcsfed.types import Ints
from hcsfed.updates import Updates

SIMULATED = ("attack", "availability", "speed", "reach")


@dataclass(frozen=True)
class Kit:
    """What the settings name, before anybody has been met."""

    settings: Settings
    selector: Selector
    algorithm: Algorithm
    estimator: Estimator
    server: Server
    feature: Feature | None
    feature_name: str
    work: LocalTraining
    guard: Guard

    @classmethod
    def of(cls, settings: Settings, selector: Selector | None) -> Kit:
        if selector is None:
            selector = SELECTORS.build(settings.selector.name, **settings.selector.options)
        if "accuracies" in selector.claims.needs:
            raise SettingError(
                f"selector {selector.name!r} tries every client's model on rows of the server, which needs every "
                "client's update; it runs in the simulator only"
            )
        if settings.privacy.noise:
            remedy = "give noise to hcsfed_mod or client_app"
            raise bad(
                "privacy.noise", "a Flower strategy", "0: noise is the clients' own", settings.privacy.noise, remedy
            )
        if settings.algorithm.name == "lag":
            raise SettingError(
                "algorithm 'lag', whose clients remember what they sent last, runs in the simulator only"
            )
        for name in SIMULATED:
            if getattr(settings, name) != getattr(Settings(), name):
                raise SettingError(f"{name} is simulated; on Flower clients are what they are")
        algorithm = ALGORITHMS.build(settings.algorithm.name, **settings.algorithm.options)
        estimator = build_estimator(settings, selector)
        return cls(
            settings,
            selector,
            algorithm,
            estimator,
            SERVERS.build(settings.server.name, **settings.server.options),
            build_feature(settings, selector, estimator, algorithm),
            feature_choice(settings, selector, estimator, algorithm) or "",
            algorithm.local(settings.local),
            GUARDS.build(settings.guard.name, **settings.guard.options),
        )


@dataclass(eq=False)
class Desk:
    """The server's share of a run, as :class:`hcsfed.standing.Server` has it.

    Parameters
    ----------
    start
        The parameters of round 0.
    shelves
        Where rows of d numbers per client are kept.
    responses
        Who was asked and who came, so far.
    """

    kit: Kit
    roster: Roster
    start: NDArray[np.float32]
    output_bias: slice | None
    responses: Responses
    max_share: float
    shelves: Shelves
    gradient_of: NDArray[np.float32] | None = None
    setup: Setup = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        sizes = np.array(self.roster.sizes, np.int64)
        self.setup = Setup(
            _nobody_trains_here,
            self._gradients,
            len(self.start),
            None,
            self.roster.weights(self.max_share),
            sizes,
            steps_of(self.kit.work, np.maximum(sizes, 1)),
            self.kit.work,
            self.shelves,
        )
        self.width = self._width()

    @property
    def settings(self) -> Settings:
        return self.kit.settings

    @property
    def selector(self) -> Selector:
        return self.kit.selector

    @property
    def algorithm(self) -> Algorithm:
        return self.kit.algorithm

    @property
    def estimator(self) -> Estimator:
        return self.kit.estimator

    @property
    def server(self) -> Server:
        return self.kit.server

    @property
    def feature(self) -> Feature | None:
        return self.kit.feature

    @property
    def size(self) -> int:
        """How many are asked: so many that about a cohort answers."""
        clients, cohort = len(self.roster), self.settings.cohort
        wanted = cohort_size(cohort if isinstance(cohort, float) else min(cohort, clients), clients)
        here = self.roster.present()
        return to_ask(wanted, self.responses.chances("answer")[here], clients) if here.any() else wanted

    @property
    def gradients(self) -> bool:
        """Whether clients send their gradient over all rows as well."""
        return bool(getattr(self.algorithm, "gradients", False))

    @property
    def shares_aggregate(self) -> bool:
        """Whether clients need the last aggregate for their feature."""
        return bool(getattr(self.feature, "shared", False))

    @property
    def hints(self) -> dict[str, Any]:
        """What an app of its own may read from its config, by Flower's names."""
        work = self.kit.work
        return {"proximal-mu": work.mu} if work.mu else {}

    def initial(self) -> NDArray[np.float32]:
        return self.start

    def order(self, phase: Phase, t: int, k: int, state: Mapping[str, Any] | None) -> Order:
        """What client k is asked for; ``state`` is the algorithm's memory where it trains."""
        factor = 1.0
        if state is not None:
            factors = self.algorithm.factors(self.setup, self.setup.steps[[k]], t)
            factor = 1.0 if factors is None else float(factors[0])
        return Order(
            phase,
            t,
            self.settings.seed,
            k,
            self.kit.feature_name,
            dict(self.settings.features.options),
            getattr(self.selector, "opening", 0),
            int(self.setup.steps[k]),
            factor,
            self.gradients,
            False,
            self.algorithm.name,
            self.kit.work,
        )

    def _width(self) -> int:
        """How many numbers a feature has: found by encoding nothing."""
        if self.feature is None:
            return 0
        labels = self.roster.labels[0][None] if self.roster.labels else None
        nothing = np.zeros((1, len(self.start)), np.float32)
        known = Context(seed=self.settings.seed, output_bias=self.output_bias, labels=labels)
        return int(self.feature.encode(nothing, known).shape[1])

    def _gradients(self, parameters: Any, ids: Ints) -> Iterator[Updates]:
        """What came beside the update that is being learned from."""
        assert self.gradient_of is not None
        yield Updates(ids, self.gradient_of[None], np.zeros(1), np.zeros(1, np.int64))


def _nobody_trains_here(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("clients train on their own machines")
