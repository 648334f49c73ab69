"""Nodes that mean harm: whatever one of them sends is refused with a line, and what it gains is bounded."""

from __future__ import annotations

import io
import json
import logging
import pickle

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from hypothesis import given, settings
from hypothesis import strategies as some

from flower_runs import CLIENTS, app, run, strategy
from hcsfed.flower import LocalGrid, Strategy, hcsfed_mod
from hcsfed.flower.arrays import RefusedError, read
from hcsfed.flower.demo.certificates import node_key
from hcsfed.flower.keys import read_keys
from hcsfed.flower.local_grid import Fault
from hcsfed.flower.order import ANSWER, EXTRAS, ORDER
from hcsfed.flower.roster import Roster
from test_flower import START, toy

NODE = 3


def numpy_bytes(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def changed(content: RecordDict, name: str, make) -> RecordDict:
    """The same answer with another array of that name."""
    arrays = {key: make(array) if key == name else array for key, array in content[EXTRAS].items()}
    return RecordDict({**content, EXTRAS: ArrayRecord(arrays)})


def said(content: RecordDict, **numbers) -> RecordDict:
    """The same answer with other numbers."""
    return RecordDict({**content, ANSWER: MetricRecord({**content[ANSWER], **numbers})})


def poisoned(value: float, at: int = 0):
    def make(array: Array) -> Array:
        numbers = array.numpy().copy()
        numbers.reshape(-1)[at] = value
        return Array(numbers)

    return make


def shaped(*shape: int):
    return lambda array: Array(np.zeros(shape, np.float32))


def pickled(array: Array) -> Array:
    class Trap:
        def __reduce__(self):
            return (exec, ("raise SystemExit('unpickled')",))

    data = numpy_bytes(np.zeros(0, np.float32))[:6] + b"\x01\x00" + pickle.dumps(Trap())
    return Array("float32", tuple(array.shape), "numpy.ndarray", data.ljust(len(array.data), b"\x00"))


def objects(array: Array) -> Array:
    """NumPy's own way of saying that a pickle follows."""
    head = json.dumps({"descr": "|O", "fortran_order": False, "shape": list(array.shape)}).replace("false", "False")
    head = head.replace("[", "(").replace("]", ",)").ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()
    return Array("float32", tuple(array.shape), "numpy.ndarray", data.ljust(len(array.data), b"\x00"))


def lying(array: Array) -> Array:
    """A thousand million numbers outside, few inside."""
    return Array("float32", (10**9,), "numpy.ndarray", array.data)


def lying_inside(array: Array) -> Array:
    data = array.data.replace(b"(%d,)" % array.shape[0], b"(9999999999,)")
    return Array("float32", tuple(array.shape), "numpy.ndarray", data)


FORGERIES = {
    "NaN in the note": ("features", lambda c: changed(c, "feature", poisoned(np.nan)), "feature holds nan"),
    "infinity in the note": ("features", lambda c: changed(c, "feature", poisoned(np.inf, -1)), "feature holds inf"),
    "NaN in the update": ("upload", lambda c: changed(c, "update", poisoned(np.nan, 7)), "update holds nan"),
    "a huge update": ("upload", lambda c: changed(c, "update", poisoned(3e38)), "update holds 3e"),
    "a short note": ("features", lambda c: changed(c, "feature", shaped(2)), "feature must be float32"),
    "a long note": ("features", lambda c: changed(c, "feature", shaped(10**6)), "got float32[1000000]"),
    "a note of 10⁹ floats": ("features", lambda c: changed(c, "feature", lying), "got float32[1000000000]"),
    "10¹⁰ floats inside": ("features", lambda c: changed(c, "feature", lying_inside), "feature"),
    "another shape": ("upload", lambda c: changed(c, "update", shaped(5, 130)), "update must be float32"),
    "float64": (
        "upload",
        lambda c: changed(c, "update", lambda a: Array(a.numpy().astype(np.float64))),
        "got float64",
    ),
    "a pickle": ("features", lambda c: changed(c, "feature", pickled), "feature"),
    "objects": ("upload", lambda c: changed(c, "update", objects), "update says"),
    "no note": ("features", lambda c: RecordDict({ANSWER: c[ANSWER]}), "no feature came"),
    "nothing": ("features", lambda c: RecordDict(), "holds no answer to hcsfed"),
    "a norm of 10³⁰⁰": ("features", lambda c: said(c, norm=1e300), "its norm must be a finite number"),
    "an infinite norm": ("features", lambda c: said(c, norm=float("inf")), "its norm must be a finite number"),
    "a negative norm": ("features", lambda c: said(c, norm=-1.0), "its norm is negative"),
    "a list as norm": ("features", lambda c: said(c, norm=[1.0, 2.0]), "its norm must be a finite number"),
    "10¹⁸ examples": ("features", lambda c: said(c, examples=10**18), "examples must be an int"),
    "half a step": ("features", lambda c: said(c, steps=0.5), "steps must be an int"),
    "a loss that is none": ("features", lambda c: said(c, loss=float("nan")), "its loss must be a finite number"),
    "an array for numbers": ("features", lambda c: RecordDict({**c, ANSWER: ArrayRecord()}), "holds no answer"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_it_is_refused_with_a_line_and_the_others_go_on(name):
    phase, forge, why = FORGERIES[name]
    asked = strategy("hcsfed", given={"cohort": CLIENTS})
    model = run(asked, 2, faults=[Fault(NODE, "forges", phase, forge=forge)])
    assert np.isfinite(model).all()
    for record in asked.history:
        reason = record["missing"][str(NODE)]
        assert reason.startswith(f"{phase}: refused: ")
        assert why in reason
        assert reason.isprintable()
        assert len(reason) < 250
        assert record["ids"] == [k for k in range(CLIENTS) if k != NODE]


def test_refusing_takes_no_memory():
    """What an array says of itself is looked at before its numbers are."""
    import tracemalloc

    arrays = {"feature": Array("float32", (10**9,), "numpy.ndarray", b"\x93NUMPY\x01\x00" + b" " * 200)}
    tracemalloc.start()
    with pytest.raises(RefusedError, match="must be float32"):
        read(arrays, "feature", (64,))
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=400), some.integers(0, 60))
def test_any_bytes_are_read_or_refused(noise, keep):
    """Bytes alone, and bytes behind the beginning of an honest array."""
    honest = numpy_bytes(np.arange(8, dtype=np.float32))
    for data in (noise, honest[:keep] + noise, (honest[:keep] + noise).ljust(len(honest), b" ")):
        found = tried({"x": Array("float32", (8,), "numpy.ndarray", data)})
        assert found.isprintable() if isinstance(found, str) else found.shape == (8,)


def tried(arrays) -> np.ndarray | str:
    try:
        return read(arrays, "x", (8,))
    except RefusedError as error:
        return str(error)


def hello(**table) -> RecordDict:
    return RecordDict({ANSWER: MetricRecord({"examples": 10, "steps": 0}), ORDER: ConfigRecord(table)})


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (lambda c: hello(name="1"), "'1' is claimed by 2 nodes at once"),
        (lambda c: hello(name=""), "it gave no name"),
        (lambda c: hello(name="x" * 300), "its name must be a printable text"),
        (lambda c: hello(name="a\nround 1: missing: nobody"), "its name must be a printable text"),
        (lambda c: hello(name=7), "its name must be a printable text"),
    ],
)
def test_names_at_the_door(forge, why, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    asked = strategy("random")
    run(asked, 1, faults=[Fault(NODE, "forges", "hello", forge=forge)])
    lines = [r.getMessage() for r in caplog.records if f"node {1000 + NODE} is left out" in r.getMessage()]
    assert len(lines) == 1
    assert why in lines[0]
    assert str(NODE) not in asked.roster.names


def test_who_is_there_keeps_its_name():
    """A node that comes later and says that it is somebody who is there is not spoken to about anything."""
    grid = LocalGrid(app(), [{"partition-id": k} for k in (*range(CLIENTS), 1)])
    grid.leave(CLIENTS)
    asked = strategy("random", given={"cohort": CLIENTS})
    begin = asked.configure_train

    def intrude(server_round, *rest):
        if server_round == 2:
            grid.join(CLIENTS)
        return begin(server_round, *rest)

    asked.configure_train = intrude
    run(asked, 3, grid)
    assert {phase for node, phase, _ in grid.log if node == CLIENTS} == {"hello"}
    assert [len(record["ids"]) for record in asked.history] == [CLIENTS] * 3


class TestKeys:
    """Where the server was given everyone's public key, a name can't be taken even while its owner is away."""

    @pytest.fixture
    def keys(self, tmp_path):
        for k in range(CLIENTS):
            node_key(tmp_path, str(k))
        return tmp_path

    def grid(self, keys) -> LocalGrid:
        names = {name: key for key, name in read_keys(keys).items()}
        grid = LocalGrid(app(), CLIENTS)
        for k, node in enumerate(grid.nodes):
            node.public_key = names[str(k)]
        return grid

    def test_everybody_is_who_the_key_says(self, keys):
        expected = run(strategy("hcsfed"), 2)
        np.testing.assert_array_equal(run(strategy("hcsfed", given={"keys": keys}), 2, self.grid(keys)), expected)

    def test_another_name_is_refused(self, keys):
        grid = self.grid(keys)
        grid.leave(1)
        grid.faults = [Fault(NODE, "forges", "hello", forge=lambda c: hello(name="1"))]
        asked = strategy("random", given={"keys": keys})
        run(asked, 1, grid)
        assert asked.roster.names == ["0", "2", "4", "5"]

    def test_without_one_of_the_keys_no_message_is_sent(self, keys):
        grid = self.grid(keys)
        grid.nodes[NODE].public_key = b"another"
        run(strategy("random", given={"keys": keys}), 2, grid)
        assert not [phase for node, phase, _ in grid.log if node == NODE]

    def test_keys_that_can_not_be_read_are_named(self, tmp_path):
        with pytest.raises(ValueError, match=r"no public keys \(NAME\.pub\)"):
            strategy("random", given={"keys": tmp_path})
        (tmp_path / "x.pub").write_text("nonsense")
        with pytest.raises(ValueError, match=r"cannot read the public key .*x\.pub"):
            strategy("random", given={"keys": tmp_path})


def test_claimed_examples_weigh_no_more_than_max_share():
    for share in (0.5, 0.3):
        asked = strategy("full", given={"cohort": CLIENTS, "max_share": share})
        lie = Fault(NODE, "forges", "hello", forge=lambda c: said(c, examples=2**52))
        run(asked, 1, faults=[lie])
        assert asked.history[0]["weights"][NODE] == pytest.approx(share)
        assert sum(asked.history[0]["weights"]) == pytest.approx(1)


@pytest.mark.parametrize("selector", ["importance", "hcsfed"])
def test_a_claimed_norm_buys_no_more_than_max_share(selector):
    """Asked for one client a round, the liar is picked in about that share of the rounds, and no more."""
    share, rounds = 0.3, 60
    lie = Fault(NODE, "forges", "features", forge=lambda c: said(c, norm=1e17))
    options = {"selector.max_share": share} | ({"selector.clusters": 1} if selector == "hcsfed" else {})
    asked = strategy(selector, given={"cohort": 1}, **options)
    run(asked, rounds, faults=[lie])
    picked = sum(record["ids"] == [NODE] for record in asked.history)
    assert picked / rounds < share + 3 * np.sqrt(share * (1 - share) / rounds)
    assert picked > 3  # it did gain something, or the test would show nothing


def test_a_guard_cuts_what_is_too_long():
    """max_share bounds how often it counts; how far one update goes is for a guard to bound."""
    honest = run(strategy("full", given={"cohort": CLIENTS}), 1)
    push = Fault(NODE, "forges", "full", forge=lambda c: changed(c, "update", lambda a: Array(a.numpy() * 1e6)))
    moved = {}
    for guard in ("none", "median"):
        model = run(strategy("full", given={"cohort": CLIENTS}, guard=guard), 1, faults=[push])
        moved[guard] = np.abs(model - honest).max()
    assert moved["none"] > 100
    assert moved["median"] < 0.1


def test_class_counts_of_another_length_are_refused():
    rows = [np.ones(10, np.int64), np.ones(10, np.int64), np.ones(7, np.int64)]
    roster = Roster()
    refused = roster.enter({i: (str(i), 5, row) for i, row in enumerate(rows)})
    assert list(refused) == [2]
    assert "7 classes where others count 10" in refused[2]
    assert list(roster.enter({9: ("9", 5, np.ones(11, np.int64))})) == [9]


def test_a_node_can_not_answer_for_another():
    """An answer counts for the client that was asked, and only if it came from there."""

    class Crossed(LocalGrid):
        def send_and_receive(self, messages, *, timeout=None):
            replies = super().send_and_receive(messages, timeout=timeout)
            for reply in replies:
                if reply.metadata.src_node_id == self.nodes[NODE].id:
                    reply.metadata.__dict__["_src_node_id"] = self.nodes[1].id
            return replies

    asked = Strategy("full", cohort=CLIENTS, wait=0.0)
    asked.start(Crossed(toy([hcsfed_mod()]), CLIENTS), START, num_rounds=1, timeout=5)
    assert str(NODE) not in asked.roster.names


def test_lines_of_the_log_are_single_whatever_a_node_says():
    shouting = ClientApp(mods=[hcsfed_mod()])

    @shouting.train()
    def train(message, context):
        raise RuntimeError("bad\x1b[2J\rround 9: missing: nobody")

    apps = [toy([hcsfed_mod()])] * (CLIENTS - 1) + [shouting]
    asked = Strategy("full", cohort=CLIENTS, wait=0.0)
    asked.start(LocalGrid(apps, CLIENTS), START, num_rounds=1, timeout=5)
    (line,) = asked.history[0]["missing"].values()
    assert line.endswith("nobody")
    assert line.isprintable()
