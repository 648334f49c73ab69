"""A SuperLink's answers, taken in piece by piece: none larger than allowed, none waited for beyond the deadline.

Flower's own grid takes in whatever a node has sent, waits for up to two hours for an upload that broke off, and where
one answer does not fit together it raises and the others are lost with it. Here the same requests are made one object
at a time, so that each answer is found good, refused or late by itself.

Private points of Flower that this rests on, besides its protocol: the grid's client and its HTTP client, and the three
functions imported from ``flwr.supercore.inflatable``.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from logging import WARNING, getLogger
from typing import Any, cast

import httpx
from flwr.app import Error, Message, RecordDict
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import get_object_head_values_from_object_content, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from hcsfed.flower.arrays import RefusedError, short
from hcsfed.flower.post import REFUSED

log = getLogger("flwr")
CHUNK = 5 * 2**20  # bytes in which Flower sends arrays
SMALL = 2**20  # and that anything else may have
PIECES = 24  # messages, records and arrays of an honest answer, with room to spare
RESPONSE = 64 * 2**20
PAUSE = 1.0


class Careful:
    """What :class:`hcsfed.flower.metered.Metered` sends through, where the other side is a SuperLink.

    Parameters
    ----------
    limit
        Bytes that one answer may have.
    """

    def __init__(self, grid: Any, limit: int) -> None:
        self.grid, self.limit = grid, limit
        self.client = grid._runtime_client
        self.client._client.event_hooks = {"response": [self._measured]}

    def send_and_receive(self, messages: list[Message], timeout: float) -> list[Message]:
        """The answers that came in time; of those refused, an error that says why."""
        end = time.monotonic() + timeout
        self.grid.push_messages(messages)
        asked = {message.metadata.message_id: message for message in messages}
        replies: list[Message] = []
        arriving: list[_Arriving] = []
        waiting = set(asked)
        while True:
            for one in self._arrivals(waiting):
                if (ask := asked.get(one.asked)) is not None and one.asked in waiting:
                    waiting.discard(one.asked)
                    arriving.append(one)
                    one.reply_to = ask
            for one in arriving:
                if time.monotonic() < end and self._taken(one, end):
                    replies.append(one.reply())
            arriving = [one for one in arriving if not one.over]
            left = end - time.monotonic()
            if left <= 0 or not (waiting or arriving):
                return replies
            time.sleep(min(PAUSE, left))

    def _arrivals(self, waiting: set[str]) -> list[_Arriving]:
        if not waiting:
            return []
        try:
            found = self.client.PullMessages(PullAppMessagesRequest(message_ids=sorted(waiting)))
        except RefusedError as error:  # whose fault it is can't be told
            log.log(WARNING, "answers of a round are lost: %s", error)
            return []
        return [
            _Arriving(proto, list(dict.fromkeys(branch.object_id for branch in iterate_object_tree(tree))), self.limit)
            for proto, tree in zip(found.messages_list, found.message_object_trees, strict=True)
        ]

    def _taken(self, one: _Arriving, end: float) -> bool:
        """Whether the answer is whole, or refused; not, while it is still on its way."""
        try:
            one.few_enough()
            while one.left and time.monotonic() < end:
                request = PullObjectRequest(node=self.grid.node, run_id=self.grid.run.run_id, object_id=one.left[-1])
                found = self.client.PullObject(request)
                if found.object_found and not found.object_available:
                    return False
                if not found.object_found:
                    raise RefusedError("its upload broke off")
                one.take(found.object_content)
            if one.left:
                return False
            one.build()
        except RefusedError as error:
            one.refused = str(error)
        self.client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=self.grid.node, run_id=self.grid.run.run_id, message_object_id=one.id)
        )
        return True

    def _measured(self, response: httpx.Response) -> None:
        """Before a body is read: refuse one that is too long."""
        length = int(response.headers.get("content-length", 0))
        most = CHUNK + SMALL if response.request.url.path.endswith("/pull-object") else RESPONSE
        if length > most:
            response.close()
            raise RefusedError(f"a part of it has {length} bytes, which is more than {most}")


@dataclass(eq=False)
class _Arriving:
    """An answer that is being taken in."""

    proto: Any
    left: list[str]
    limit: int
    contents: dict[str, bytes] = field(default_factory=dict)
    size: int = 0
    references: int = 0
    reply_to: Message | None = None
    message: Message | None = None
    refused: str = ""

    @property
    def id(self) -> str:
        return str(self.proto.metadata.message_id)

    @property
    def asked(self) -> str:
        return str(self.proto.metadata.reply_to_message_id)

    @property
    def over(self) -> bool:
        return self.message is not None or bool(self.refused)

    def few_enough(self) -> None:
        """Every object is a request of its own."""
        pieces = len(self.left) + len(self.contents)
        if pieces > (most := PIECES + self.limit // CHUNK):
            raise RefusedError(f"it has {pieces} parts, more than {most}")

    def take(self, content: bytes) -> None:
        """One more object of it; no small one may unfold into a large one."""
        self.size += len(content)
        if self.size > self.limit:
            raise RefusedError(f"it is larger than {self.limit} bytes")
        try:
            kind = get_object_head_values_from_object_content(content)[0]
            if kind == "Array":
                self.references += len(json.loads(content.partition(b"\x00")[2])["arraychunk_ids"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RefusedError(f"it can't be read: {short(error)}") from error
        if kind != "ArrayChunk" and len(content) > SMALL:
            raise RefusedError(f"a {short(kind, 20)} in it has {len(content)} bytes")
        if self.references > (most := PIECES + self.limit // CHUNK):
            raise RefusedError(f"its arrays unfold to {self.references} chunks, more than {most}")
        self.contents[self.left.pop()] = content

    def build(self) -> None:
        """Put the message together from its objects."""
        try:
            message = cast(Message, inflate_object_from_contents(self.id, self.contents))
            said, known = message.metadata, self.proto.metadata
            if message.has_content() and not isinstance(message.content, RecordDict):
                raise TypeError("no records")
        except Exception as error:  # whatever somebody may have sent
            raise RefusedError(f"it can't be read: {type(error).__name__}: {short(error)}") from error
        if said.reply_to_message_id != known.reply_to_message_id or said.src_node_id != known.src_node_id:
            raise RefusedError("it says that it came from somebody else")
        message.metadata.__dict__["_message_id"] = self.id
        self.message = message

    def reply(self) -> Message:
        """The answer, or an error in its place."""
        if self.message is not None:
            return self.message
        assert self.reply_to is not None
        return Message(Error(REFUSED, f"refused: {self.refused}"), reply_to=self.reply_to)
