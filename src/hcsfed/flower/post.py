"""Messages out, replies in: each reply is put to the client it was asked of, whatever it says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from hcsfed.flower.arrays import short

REFUSED = 0  # the code of errors that are made on our side of the wire; Flower's "unknown"


@dataclass(frozen=True, eq=False)
class Post:
    """A grid, and how long it may take to answer.

    Parameters
    ----------
    deadline
        Seconds until a reply counts as missing; messages die with it.
    group
        What the messages belong to, for Flower's own log.
    """

    grid: Grid
    deadline: float
    group: str = ""

    def letters(
        self, contents: Mapping[int, RecordDict], nodes: Mapping[int, int], kind: str = MessageType.TRAIN
    ) -> dict[int, Message]:
        """A message for each client, by its number."""
        return {
            k: Message(content, nodes[k], kind, ttl=self.deadline, group_id=self.group)
            for k, content in sorted(contents.items())
        }

    def ask(
        self, contents: Mapping[int, RecordDict], nodes: Mapping[int, int], kind: str = MessageType.TRAIN
    ) -> tuple[dict[int, RecordDict], dict[int, str]]:
        """What the clients answered, and why the others did not."""
        sent = self.letters(contents, nodes, kind)
        if not sent:
            return {}, {}
        return opened(sent, self.grid.send_and_receive(list(sent.values()), timeout=self.deadline))


def opened(sent: Mapping[int, Message], replies: Iterable[Message]) -> tuple[dict[int, RecordDict], dict[int, str]]:
    """Contents by client, in the order of their numbers, and why others are missing.

    The first reply to a message counts; a second one, or one to a message of another round, is left aside.
    """
    asked = {message.metadata.message_id: k for k, message in sent.items() if message.metadata.message_id}
    found: dict[int, RecordDict] = {}
    missing: dict[int, str] = {}
    for reply in replies:
        k = asked.get(reply.metadata.reply_to_message_id)
        if k is None or k in found or k in missing:
            continue
        if reply.has_error():
            said = _last_line(reply.error.reason)
            missing[k] = said if reply.error.code == REFUSED else f"error {reply.error.code}: {said}"
        elif reply.metadata.src_node_id != sent[k].metadata.dst_node_id:
            missing[k] = "its answer came from another node"
        elif not reply.has_content():
            missing[k] = "its answer is empty"
        else:
            found[k] = reply.content
    for k in sent:
        if k not in found and k not in missing:
            missing[k] = "no answer in time"
    return dict(sorted(found.items())), dict(sorted(missing.items()))


def _last_line(reason: str | None) -> str:
    """Of a traceback, what was raised."""
    lines = [line for line in (reason or "").splitlines() if line.strip()]
    return short(lines[-1] if lines else "no reason given", 200)
