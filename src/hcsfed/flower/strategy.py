"""The server's side: a Flower strategy whose cohorts are picked, and whose answers are weighted, by hcsfed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, is_dataclass, replace
from logging import INFO, WARNING, getLogger
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.serverapp.strategy import Strategy as FlowerStrategy

from hcsfed.errors import FederationError, bad
from hcsfed.flower.arrays import Packing, RefusedError
from hcsfed.flower.desk import Desk, Kit
from hcsfed.flower.keys import named, read_keys
from hcsfed.flower.metered import Metered
from hcsfed.flower.order import ORDER, Order, read_hello
from hcsfed.flower.post import Post
from hcsfed.flower.responses import Responses
from hcsfed.flower.roster import Roster
from hcsfed.flower.turn import Turn
from hcsfed.record import RoundRecord, RunFolder, entry
from hcsfed.select import ResponseRates, Selector
from hcsfed.settings import Settings, merge
from hcsfed.shelf import MIB, Shelves
from hcsfed.standing import Standing, adapt
from hcsfed.types import Floats

log = getLogger("flwr")
SHORT = {name: f"local.{name}" for name in ("lr", "steps", "epochs", "batch")}
ANSWER, ROOM = 12, 4 * MIB
"""Bytes that an answer may have: three float32 vectors of the model's size, and whatever else is sent."""
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class Strategy(FlowerStrategy):
    """Any selector, feature, estimator, algorithm and server step of hcsfed, on Flower.

    Clients need :func:`~hcsfed.flower.hcsfed_mod` or :func:`~hcsfed.flower.client_app`. Weights are the selection's
    own. Clients are known by stable names, so the same seed and the same answers give the same cohorts, whatever node
    ids Flower hands out. The round goes on after its deadline with those who answered, their weights corrected by how
    likely each answers.

    Parameters
    ----------
    selector
        A name, or a selector.
    cohort, seed
        As in :class:`~hcsfed.settings.Settings`.
    clients, wait
        Before the first round of this process, wait for so many clients, and before any other for one, but no longer
        than so many seconds.
    deadline
        Seconds until an answer counts as missing; None: the ``timeout`` of :meth:`start`.
    max_share
        No client's ω is above this share, whatever number of examples it claims (with few clients: above an even
        share).
    keys
        A folder of public keys ``NAME.pub``: a node is who its key says, and without one of these keys it is nobody.
        None: a node is who it says, as long as nobody else who is connected has that name.
    rates
        How each client's chance of answering is learned, by which weights are divided; None: weights are never
        corrected, and nobody is asked beyond the cohort.
    out
        A folder for the run's history and the server's state after each round; a run found there is taken up.
    options
        Dotted settings such as ``{"algorithm.mu": 0.1, "local.momentum": 0.9}``.
    **settings
        Settings by their names, and the short forms ``lr``, ``steps``, ``epochs`` and ``batch``.
    """

    def __init__(
        self,
        selector: str | Selector = "hcsfed",
        *,
        cohort: int | float = 0.1,
        seed: int = 0,
        clients: int = 2,
        wait: float = 60.0,
        deadline: float | None = None,
        max_share: float = 0.5,
        keys: str | Path | None = None,
        rates: ResponseRates | None = ResponseRates(),
        out: str | Path | None = None,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        if not isinstance(selector, str) and (isinstance(selector, type) or not isinstance(selector, Selector)):
            raise bad("selector", "Strategy", "a name or a selector", selector)
        if not 0 < max_share <= 1:
            raise bad("max_share", "Strategy", "a number in (0, 1]", max_share)
        if isinstance(clients, bool) or not isinstance(clients, int) or clients < 1:
            raise bad("clients", "Strategy", "an int >= 1", clients)
        if not 0 <= wait < math.inf:
            raise bad("wait", "Strategy", "a number >= 0", wait)
        if deadline is not None and not 0 < deadline < math.inf:
            raise bad("deadline", "Strategy", "None or a number > 0", deadline)
        given = {SHORT.get(name, name): value for name, value in settings.items()}
        given |= {"cohort": cohort, "seed": seed, "data": "own", "model": "own"}
        given["selector"] = selector if isinstance(selector, str) else {**_options(selector), "name": selector.name}
        self.kit = Kit.of(merge(Settings(), given, options or {}), None if isinstance(selector, str) else selector)
        self.clients, self.wait, self.deadline, self.max_share = clients, wait, deadline, max_share
        self.responses = Responses(rates)
        self.keys = None if keys is None else read_keys(Path(keys))
        self.out = None if out is None else Path(out)
        self.shelves = Shelves(self.kit.settings.row_memory * MIB, self.out)
        self.roster = Roster()
        self.standing: Standing | None = None
        self.weights: Floats = np.zeros(0)
        self.history: list[RoundRecord] = []
        self._turn: Turn | None = None
        self._timeout = 3600.0
        self._packing: Packing | None = None
        self._waited = False

    def summary(self) -> None:
        """Log the settings."""
        kit = self.kit
        log.log(INFO, "\t├──> selector %s, algorithm %s", kit.selector, kit.algorithm)
        log.log(INFO, "\t└──> estimator %s, server %s, feature %s", kit.estimator, kit.server, kit.feature)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run to round ``num_rounds``, from where the folder ``out`` stands.

        ``evaluate_fn`` is called before the first round and after each; its ``loss`` and ``accuracy`` go into the
        history. ``evaluate_config`` is not used: nobody but the server evaluates.
        """
        log.log(INFO, "Starting %s strategy:", type(self).__name__)
        self.summary()
        self._timeout = timeout
        arrays, result = initial_arrays, Result()
        metered = Metered(grid, ANSWER * Packing.of(arrays).dimension + ROOM)
        config = train_config if train_config is not None else ConfigRecord()
        with ExitStack() as stack:
            folder = self._open(stack, initial_arrays, num_rounds)
            if self.standing is not None:
                arrays = Packing.of(arrays).fill(self.standing.parameters, arrays)
            elif evaluate_fn and (metrics := evaluate_fn(0, arrays)) is not None:
                result.evaluate_metrics_serverapp[0] = metrics
            for t in range(len(self.history), num_rounds):
                log.log(INFO, "[ROUND %s/%s]", t + 1, num_rounds)
                metered.reset()
                messages = list(self.configure_train(t + 1, arrays, config, metered))
                replies = metered.send_and_receive(messages, timeout=self._limit) if messages else []
                trained, metrics = self.aggregate_train(t + 1, replies)
                arrays = arrays if trained is None else trained
                if metrics is not None:
                    result.train_metrics_clientapp[t + 1] = metrics
                if evaluate_fn and (metrics := evaluate_fn(t + 1, arrays)) is not None:
                    result.evaluate_metrics_serverapp[t + 1] = metrics
                    self._evaluated(metrics)
                self._weighed(metered)
                if folder:
                    folder.save(self.history[-1], self.arrays())
                self.shelves.settle()
        result.arrays = arrays
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Hear what the selector needs, pick, and give the messages to the picked."""
        self._packing = packing = Packing.of(arrays)
        post = Post(grid, self._limit, str(server_round))
        self._meet(post)
        parameters = packing.flatten(arrays)
        desk = self._desk(parameters, packing)
        if self.standing is None:
            self.standing = Standing.first(desk)
        elif not np.array_equal(self.weights, desk.setup.weights):
            self.standing = adapt(desk, self.standing, self.weights)
        self.weights = desk.setup.weights
        self.standing = replace(self.standing, parameters=parameters)
        self._turn = Turn(desk, self.roster, self.standing, post, arrays, config)
        return self._turn.begin()

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model after the round: the server's step by the weighted answers of those who answered."""
        turn, packing = self._turn, self._packing
        assert turn is not None
        assert packing is not None
        self.standing, selection, answers = turn.end(replies)
        self._turn = None
        names = self.roster.names
        record = entry(server_round - 1, selection, answers, turn.cost, None, None, turn.watch)
        record |= self.standing.kept(self.shelves)
        record["names"] = [names[k] for k in selection.ids]
        record["reachable"] = len(self.roster.nodes)
        record["missing"] = {names[k]: why for k, why in sorted(turn.missing.items())}
        record["away"] = [name for k, name in enumerate(names) if k not in self.roster.nodes]
        self.history.append(record)
        if silent := [f"{name} ({why})" for name, why in record["missing"].items()]:
            log.log(WARNING, "round %d: missing: %s", server_round, "; ".join(silent))
        if not len(selection):
            log.log(WARNING, "round %d: nobody answered; the model stays as it is", server_round)
            return None, None
        metrics = MetricRecord({"clients": len(selection), "train_loss": float(record["train_loss"] or 0.0)})
        return packing.fill(self.standing.parameters, turn.arrays), metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nobody: give :meth:`start` an ``evaluate_fn``."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nothing, see :meth:`configure_evaluate`."""
        return None

    def arrays(self) -> dict[str, np.ndarray]:
        """All that the next round depends on."""
        assert self.standing is not None
        return {
            **self.standing.arrays(),
            **self.roster.arrays(),
            **self.responses.arrays(),
            "weights": self.weights,
        }

    # Inside

    @property
    def _limit(self) -> float:
        return self._timeout if self.deadline is None else self.deadline

    def _open(self, stack: ExitStack, arrays: ArrayRecord, rounds: int) -> RunFolder | None:
        if self.out is None:
            return None
        settings = replace(self.kit.settings, rounds=rounds).nested()
        about = {"dimension": Packing.of(arrays).dimension}
        folder = stack.enter_context(RunFolder(self.out, settings, about, resume=True))
        if folder.checkpoint:
            done, kept = folder.checkpoint
            self.standing = Standing.of(done, kept, None)
            self.roster, self.weights = Roster.of(kept), kept["weights"]
            self.responses.take_up(kept)
            self.history = list(folder.history)
            log.log(INFO, "taken up after round %d", done)
        return folder

    def _meet(self, post: Post) -> None:
        """Find out who stands behind nodes that are not known yet."""
        begin, tried = time.monotonic(), set()  # type: float, set[int]
        enough = 1 if self._waited else self.clients
        while True:
            nodes = set(post.grid.get_node_ids())
            self.roster.connected(nodes)
            new = sorted(nodes - set(self.roster.nodes.values()) - tried)
            tried |= set(new)
            if new:
                self._introduce(post, new)
            left = begin + self.wait - time.monotonic()
            if len(self.roster.nodes) >= enough or left <= 0:
                break
            time.sleep(min(left, 1.0))
        self._waited = True
        if not len(self.roster):
            raise FederationError(f"no client answered within {self.wait:g} seconds")

    def _introduce(self, post: Post, new: list[int]) -> None:
        """Let nodes say their names; who has none of the keys is not spoken to."""
        owners = None if self.keys is None else named(post.grid.get_nodes(), self.keys)
        if owners is not None:
            for node in sorted(set(new) - set(owners)):
                log.log(WARNING, "node %d is left out: its key is none of those given", node)
            new = [node for node in new if node in owners]
        labels = "labels" in self.kit.selector.claims.needs or self.kit.feature_name == "labels"
        order = Order("hello", seed=self.kit.settings.seed, labels=labels).record()
        contents, missing = post.ask({node: RecordDict({ORDER: order}) for node in new}, {node: node for node in new})
        came: dict[int, tuple[str, int, Any]] = {}
        for node, content in contents.items():
            try:
                answer = read_hello(content, labels)
                if owners is not None and answer.name != owners[node]:
                    raise RefusedError(f"it says that it is {answer.name!r}, but its key is that of {owners[node]!r}")
                came[node] = answer.name, answer.examples, answer.labels
            except RefusedError as error:
                missing[node] = f"refused: {error}"
        missing |= {node: f"refused: {why}" for node, why in self.roster.enter(came).items()}
        for node, why in sorted(missing.items()):
            log.log(WARNING, "node %d is left out: %s", node, why)

    def _desk(self, parameters: Any, packing: Packing) -> Desk:
        self.responses.grow(len(self.roster))
        return Desk(
            self.kit, self.roster, parameters, packing.output_bias, self.responses, self.max_share, self.shelves
        )

    def _evaluated(self, metrics: MetricRecord) -> None:
        for figure in ("loss", "accuracy"):
            value = metrics.get(figure)
            if isinstance(value, int | float) and np.isfinite(value):
                self.history[-1][figure] = float(value)

    def _weighed(self, metered: Metered) -> None:
        names = {node: self.roster.names[k] for k, node in self.roster.nodes.items()}
        self.history[-1]["wire"] = {
            "up": sum(metered.up.values()),
            "down": sum(metered.down.values()),
            "nodes": {
                names[node]: [metered.down[node], metered.up[node]] for node in sorted(metered.down) if node in names
            },
        }


def _options(selector: Selector) -> dict[str, Any]:
    return asdict(selector) if is_dataclass(selector) and not isinstance(selector, type) else {}
