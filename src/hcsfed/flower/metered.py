"""A grid that weighs what goes through it: the bytes that Flower itself puts on the wire, by node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import Grid

if TYPE_CHECKING:
    from hcsfed.flower.careful import Careful


class Metered(Grid):
    """Another grid, with a count of bytes to (``down``) and from (``up``) each node.

    Flower sends a message as a small description and the objects below it (records, arrays, chunks of arrays), each in
    its own serialised form; their sizes are summed. HTTP, TLS and polling come on top.

    Parameters
    ----------
    limit
        Bytes that one answer may have, where it comes through a SuperLink.
    """

    def __init__(self, grid: Grid, limit: int) -> None:
        self.inner = grid
        self.careful = careful(grid, limit)
        self.down: Counter[int] = Counter()
        self.up: Counter[int] = Counter()

    def reset(self) -> None:
        """Begin to count anew."""
        self.down.clear()
        self.up.clear()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        sent, memo = list(messages), {}  # type: list[Message], dict[int, int]
        for message in sent:
            self.down[message.metadata.dst_node_id] += weight(message, memo)
        replies = self._exchange(sent, timeout) if sent else []
        nodes = {message.metadata.message_id: message.metadata.dst_node_id for message in sent}
        for reply in replies:
            node = nodes.get(reply.metadata.reply_to_message_id)
            if node is not None and reply.has_content():
                self.up[node] += weight(reply, {})
        return replies

    def _exchange(self, sent: list[Message], timeout: float | None) -> list[Message]:
        if self.careful is None:
            return list(self.inner.send_and_receive(sent, timeout=timeout))
        return self.careful.send_and_receive(sent, math.inf if timeout is None else timeout)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self.inner.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self.inner.pull_messages(message_ids)

    def get_node_ids(self) -> Iterable[int]:
        return self.inner.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        return self.inner.get_nodes()

    def set_run(self, run: Any) -> None:
        self.inner.set_run(run)

    @property
    def run(self) -> Any:
        return self.inner.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return self.inner.create_message(content, message_type, dst_node_id, group_id, ttl)


def careful(grid: Grid, limit: int) -> Careful | None:
    """How answers are taken in where they come over HTTP; others come as Flower hands them over."""
    if not hasattr(grid, "_runtime_client"):
        return None
    from hcsfed.flower.careful import Careful

    return Careful(grid, limit)


def weight(item: Any, memo: dict[int, int]) -> int:
    """Bytes of a message and all below it; arrays that many messages share are weighed once."""
    shared = isinstance(item, ArrayRecord)
    if shared and id(item) in memo:
        return memo[id(item)]
    total = len(item.deflate()) + sum(weight(child, memo) for child in (item.children or {}).values())
    if shared:
        memo[id(item)] = total
    return total
