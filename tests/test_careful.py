"""Answers from a SuperLink are taken in piece by piece: Flower's own grid, and a server that says what we want."""

from __future__ import annotations

import json

import httpx
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import (
    PullAppMessagesRequest,
    PullAppMessagesResponse,
    PushAppMessagesRequest,
    PushAppMessagesResponse,
)
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from hcsfed.flower import careful
from hcsfed.flower.careful import CHUNK, PIECES, Careful
from hcsfed.flower.local_grid import LocalGrid
from hcsfed.flower.metered import Metered
from hcsfed.flower.post import opened

LIMIT = 8 * 2**20
UPLOADING = None  # an object that is announced, and not there yet


class Link:
    """A SuperLink whose nodes answer as they are told: ``store`` is what they have uploaded."""

    def __init__(self) -> None:
        self.replies: dict[str, Message] = {}
        self.asked: list[str] = []
        self.store: dict[str, bytes | None] = {}
        self.confirmed: list[str] = []
        self.pulled = 0
        self.before_pull = lambda: None

    def answer(self, sent: Message, content: RecordDict) -> str:
        """Node ``dst`` answers; gives the id of its message."""
        reply = Message(content, reply_to=sent)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        self.store |= {key: each.deflate() for key, each in get_all_nested_objects(reply).items()}
        self.replies[sent.metadata.message_id] = reply
        return reply.object_id

    def __call__(self, request: httpx.Request) -> httpx.Response:
        call = request.url.path.rpartition("/")[2]
        return getattr(self, call.replace("-", "_"))(request.content)

    def push_messages(self, body):
        asked = PushAppMessagesRequest.FromString(body)
        self.asked = [message.metadata.message_id for message in asked.messages_list]
        return proto(PushAppMessagesResponse(message_ids=self.asked, session_id="s"))

    def pull_messages(self, body):
        self.before_pull()
        ready = [
            self.replies.pop(key) for key in PullAppMessagesRequest.FromString(body).message_ids if key in self.replies
        ]
        trees = [get_object_tree(reply) for reply in ready]
        bare = [message_to_proto(remove_content_from_message(reply)) for reply in ready]
        return proto(PullAppMessagesResponse(messages_list=bare, message_object_trees=trees))

    def pull_object(self, body):
        self.pulled += 1
        key = PullObjectRequest.FromString(body).object_id
        if key not in self.store:
            return proto(PullObjectResponse(object_found=False, object_available=False))
        content = self.store[key]
        if isinstance(content, httpx.Response):
            return content
        return proto(
            PullObjectResponse(object_found=True, object_available=bool(content), object_content=content or b"")
        )

    def confirm_message_received(self, body):
        self.confirmed.append(body)
        return proto(ConfirmMessageReceivedResponse())


def proto(message) -> httpx.Response:
    return httpx.Response(200, content=message.SerializeToString())


class Clock:
    """Time passes while somebody sleeps, and at no other moment, however busy the machine is."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def link(monkeypatch):
    monkeypatch.setattr(careful, "time", Clock())
    monkeypatch.setattr(careful, "PAUSE", 0.02)
    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)
    return Link()


@pytest.fixture
def grid(link):
    grid = HttpGrid("127.0.0.1:9", insecure=True, token="t")
    grid.set_run(Run.create_empty(1))
    grid._runtime_client._client._transport = httpx.MockTransport(link)
    return grid


def ask(grid, link, contents, timeout=2.0):
    """Three nodes are asked; gives what each has answered, or why not, and how long that took."""
    sent = {k: Message(RecordDict(), 100 + k, "train", group_id="1") for k in range(len(contents))}
    begin = careful.time.monotonic()

    def when_asked():
        for k, make in enumerate(contents):
            if make is not None and sent[k].metadata.message_id in link.asked:
                make(sent[k])
        link.before_pull = lambda: None

    link.before_pull = when_asked
    replies = Careful(grid, LIMIT).send_and_receive(list(sent.values()), timeout)
    return *opened(sent, replies), careful.time.monotonic() - begin


def numbers(count: int, seed: int = 0) -> RecordDict:
    update = np.random.default_rng(seed).normal(size=count).astype(np.float32)
    return RecordDict({"a": ArrayRecord({"update": Array(update)}), "m": MetricRecord({"steps": seed})})


def test_honest_answers_come_as_they_were_sent(grid, link):
    found, missing, seconds = ask(grid, link, [lambda m, k=k: link.answer(m, numbers(1000, k)) for k in range(3)])
    assert missing == {}
    assert seconds == 0
    for k, content in found.items():
        np.testing.assert_array_equal(content["a"]["update"].numpy(), numbers(1000, k)["a"]["update"].numpy())
    assert len(link.confirmed) == 3


def test_large_ones_of_many_chunks_too(grid, link):
    found, missing, _ = ask(grid, link, [lambda m: link.answer(m, numbers(1_900_000))])
    assert missing == {}
    assert found[0]["a"]["update"].numpy().size == 1_900_000


def among_honest(link, dishonest):
    """Nodes 0 and 2 answer honestly; gives what to ask with."""
    return [lambda m: link.answer(m, numbers(10)), dishonest, lambda m: link.answer(m, numbers(10, 2))]


def key_of(link, kind: str) -> str:
    """The last uploaded object of a kind."""
    return [key for key, content in link.store.items() if content and content.startswith(kind.encode() + b" ")][-1]


def tampered(link, kind, change):
    def answer(message):
        link.answer(message, numbers(500, 7))
        key = key_of(link, kind)
        link.store[key] = change(link.store[key])

    return answer


def test_an_upload_that_stays_half_done_holds_nobody_up(grid, link):
    """Flower's own grid would wait for it for minutes, whatever the deadline, and take in nobody's answer meanwhile."""
    found, missing, seconds = ask(
        grid, link, among_honest(link, tampered(link, "ArrayChunk", lambda _: UPLOADING)), 1.0
    )
    assert list(found) == [0, 2]
    assert missing == {1: "no answer in time"}
    assert seconds == pytest.approx(1.0)


def test_an_upload_that_is_slow_counts(grid, link):
    whole = {}

    def slow(message):
        link.answer(message, numbers(500, 7))
        key = key_of(link, "ArrayChunk")
        whole[key], link.store[key] = link.store[key], UPLOADING

    pull = link.pull_object

    def later(body):
        if link.pulled > 12:
            link.store |= whole
        return pull(body)

    link.pull_object = later
    found, missing, _ = ask(grid, link, among_honest(link, slow))
    assert (list(found), missing) == ([0, 1, 2], {})


def unfolding(content: bytes) -> bytes:
    """The same chunk a million times: five megabytes become five million."""
    head, _, body = content.partition(b"\x00")
    table = json.loads(body) | {"arraychunk_ids": [0] * 100_000}
    body = json.dumps(table).encode()
    return head.rpartition(b" ")[0] + b" %d" % len(body) + b"\x00" + body


class Unread(httpx.SyncByteStream):
    """A body that nobody may read."""

    def __iter__(self):
        raise AssertionError("the body was read")


def huge(_: bytes) -> httpx.Response:
    return httpx.Response(200, headers={"content-length": str(4 * 10**9)}, stream=Unread())


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("ArrayChunk", huge, "a part of it has 4000000000 bytes"),
        ("Array", unfolding, "unfold to 100000 chunks"),
        ("MetricRecord", lambda c: c + b" " * 2**21, "a MetricRecord in it has"),
        ("MetricRecord", lambda c: c.replace(b"MetricRecord", b"Pickled"), "can't be read: KeyError"),
        ("Array", lambda c: c.partition(b"\x00")[0] + b"\x00{", "can't be read"),
        ("Array", lambda c: b"\xff\xfe nonsense", "can't be read"),
        ("RecordDict", lambda c: c.partition(b"\x00")[0] + b"\x00[]", "can't be read"),
        ("Message", lambda c: c[:-3], "can't be read"),
        ("ArrayRecord", lambda c: b"", "no answer in time"),
    ],
)
def test_what_is_too_large_or_makes_no_sense_is_refused_and_harms_nobody_else(grid, link, kind, change, why):
    found, missing, _ = ask(grid, link, among_honest(link, tampered(link, kind, change)), 1.0)
    assert list(found) == [0, 2]
    assert why in missing[1]
    assert missing[1].isprintable()
    assert ("refused: " in missing[1]) == (why != "no answer in time")
    assert len(link.confirmed) == 2 + ("refused: " in missing[1])


def test_no_answer_is_larger_than_allowed(grid, link):
    """A thousand million floats would come in eight hundred chunks; the third is one too many."""
    found, missing, _ = ask(grid, link, among_honest(link, lambda m: link.answer(m, numbers(6_000_000, 7))))
    assert list(found) == [0, 2]
    assert f"larger than {LIMIT} bytes" in missing[1]
    assert link.pulled < 2 * 8 + 8


def test_nor_of_more_parts(grid, link):
    many = RecordDict({str(k): MetricRecord({"x": k}) for k in range(PIECES + LIMIT // CHUNK + 1)})
    found, missing, _ = ask(grid, link, among_honest(link, lambda m: link.answer(m, many)))
    assert list(found) == [0, 2]
    assert "parts, more than" in missing[1]


def test_a_broken_upload_is_refused(grid, link):
    def broken(message):
        link.answer(message, numbers(500, 7))
        del link.store[key_of(link, "ArrayChunk")]

    _, missing, _ = ask(grid, link, among_honest(link, broken))
    assert missing == {1: "refused: its upload broke off"}


def test_what_a_message_says_of_itself_must_be_what_the_superlink_says(grid, link):
    """Otherwise a node could answer in another's name."""

    def as_another(message):
        link.answer(message, numbers(10, 5))
        reply = link.replies[message.metadata.message_id]
        key = reply.object_id
        forged = Message(numbers(10, 5), reply_to=message)
        forged.metadata.__dict__["_src_node_id"] = 102
        link.store[key] = forged.deflate()

    _, missing, _ = ask(grid, link, among_honest(link, as_another))
    assert missing == {1: "refused: it says that it came from somebody else"}


def test_nobody_answers_at_all(grid, link):
    found, missing, seconds = ask(grid, link, [None, None], 0.3)
    assert found == {}
    assert set(missing.values()) == {"no answer in time"}
    assert seconds == pytest.approx(0.3)


def test_it_stands_between_the_strategy_and_every_superlink(grid):
    """The fence around Flower's private points: with another release, this says what to look at."""
    assert Metered(grid, LIMIT).careful is not None
    assert Metered(LocalGrid([], 0), LIMIT).careful is None
    assert HttpGrid.pull_messages
    assert grid.node.node_id == 1
