"""A federation inside one process, for tests: nodes are calls of a client app, and may fail in chosen ways.

Two private points of Flower are used, both below: the identity of the running task, without which no message can be
made, and the id of a message, which Flower's own grids write into it in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import CRITICAL, getLogger
from typing import Any, Literal

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from hcsfed.flower.order import Order

Way = Literal["silent", "late", "raises", "dies", "twice", "forgets", "forges"]


@dataclass(frozen=True)
class Fault:
    """What goes wrong at a node, once or whenever it applies.

    Parameters
    ----------
    node
        The node's number in the grid.
    way
        ``silent``: the answer never comes. ``late``: it comes with those of the next exchange. ``raises``: the app
        fails. ``dies``: the node is gone before it answers. ``twice``: the answer comes twice. ``forgets``: the node
        was restarted before it got the message. ``forges``: the answer is another, see ``forge``.
    phase, round
        Of the order that it happens to, rounds counted from 1; None: any.
    forge
        Content → content.
    """

    node: int
    way: Way
    phase: str | None = None
    round: int | None = None
    forge: Callable[[RecordDict], RecordDict] | None = None

    def applies(self, node: int, order: Order | None) -> bool:
        return (
            self.node == node
            and (self.phase is None or (order is not None and order.phase == self.phase))
            and (self.round is None or (order is not None and order.round == self.round - 1))
        )


@dataclass
class Node:
    """A node: its id, its config and its memory."""

    id: int
    config: dict[str, Any]
    state: RecordDict = field(default_factory=RecordDict)
    here: bool = True
    public_key: bytes = b""

    @property
    def node_id(self) -> int:
        """As in Flower's descriptions of nodes."""
        return self.id


class LocalGrid(Grid):
    """A Flower grid whose nodes live in this process. No time passes: what would be late is not there.

    Parameters
    ----------
    app
        The client app, or one for each node.
    nodes
        Node configs, or how many nodes, which are then ``partition-id`` 0, 1, ….
    faults
        What goes wrong.
    first_id
        Node ids count from here; in Flower they are random.
    run_config
        What the nodes see as the app's configuration.
    """

    def __init__(
        self,
        app: ClientApp | Sequence[ClientApp],
        nodes: int | Sequence[Mapping[str, Any]],
        *,
        faults: Iterable[Fault] = (),
        first_id: int = 1000,
        run_config: Mapping[str, Any] | None = None,
    ) -> None:
        configs = (
            [{"partition-id": k, "num-partitions": nodes} for k in range(nodes)] if isinstance(nodes, int) else nodes
        )
        self.nodes = [Node(first_id + i, dict(config)) for i, config in enumerate(configs)]
        self.apps = [app] * len(self.nodes) if isinstance(app, ClientApp) else list(app)
        self.faults = list(faults)
        self.run_config = dict(run_config or {})
        self.timeouts: list[float | None] = []
        self.log: list[tuple[int, str, int]] = []
        self._late: list[Message] = []
        self._ids = itertools.count(1)
        if TaskIdentity._run_id is None:
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def leave(self, node: int) -> None:
        """A node goes."""
        self.nodes[node].here = False

    def join(self, node: int, *, new_id: bool = True) -> None:
        """A node comes back, as one that was started anew: with another id, and an empty memory."""
        back = self.nodes[node]
        back.here, back.state = True, RecordDict()
        if new_id:
            back.id += 10_000

    def get_node_ids(self) -> list[int]:
        return [node.id for node in self.nodes if node.here]

    def get_nodes(self) -> list[Any]:
        return [node for node in self.nodes if node.here]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        self.timeouts.append(timeout)
        sent, replies = list(messages), self._late
        self._late = []
        for message in sent:
            message.metadata.__dict__["_message_id"] = f"message-{next(self._ids)}"
        for message in reversed(sent):  # nothing may depend on the order in which answers come
            replies = replies + self._deliver(message)
        return replies

    def _deliver(self, message: Message) -> list[Message]:
        index = {node.id: i for i, node in enumerate(self.nodes) if node.here}
        if message.metadata.dst_node_id not in index:
            return [_failed(message, 3, "unknown node")]
        i = index[message.metadata.dst_node_id]
        node, order = self.nodes[i], Order.of(message.content)
        if order is not None:
            self.log.append((i, order.phase, order.round + 1))
        ways = {fault.way: fault for fault in self.faults if fault.applies(i, order)}
        if "dies" in ways:
            self.leave(i)
            return [_failed(message, 5, "node is offline")]
        if "forgets" in ways:
            node.state = RecordDict()
        if "raises" in ways:
            return [_failed(message, 2, "Traceback …\nRuntimeError: disk full", node.id)]
        context = Context(1, node.id, node.config, node.state, self.run_config)
        try:
            reply = self.apps[i](message, context)
        except Exception as error:
            return [_failed(message, 2, f"{type(error).__name__}: {error}", node.id)]
        if (forgery := ways.get("forges")) is not None and forgery.forge is not None:
            reply = Message(forgery.forge(reply.content), reply_to=message)
        if "late" in ways:
            self._late.append(reply)
        if "late" in ways or "silent" in ways:
            return []
        return [reply, reply] if "twice" in ways else [reply]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        raise NotImplementedError("a LocalGrid sends and receives at once")

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        raise NotImplementedError("a LocalGrid sends and receives at once")

    def set_run(self, run: Any) -> None:
        """There is one run."""

    @property
    def run(self) -> Any:
        return None

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)


@contextmanager
def hushed() -> Iterator[None]:
    """Without a word of the server in the log, for a run of which nobody needs to be told."""
    log = getLogger("flwr")
    before = log.level
    log.setLevel(CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _failed(message: Message, code: int, reason: str, node: int = 1) -> Message:
    """An error, as Flower sends it: of the SuperLink itself where the node can't speak."""
    reply = Message(Error(code, reason), reply_to=message)
    reply.metadata.__dict__["_src_node_id"] = node
    return reply
