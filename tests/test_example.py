"""The example app: in one process, and by ``flwr run`` in Flower's simulation engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from hcsfed.flower import LocalGrid
from hcsfed.flower.demo.federation import engine
from hcsfed.record import read_run
from long import long

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "flower-mnist"
CONFIG = {"data": "digits", "seed": 0, "local-steps": 20, "batch-size": 50, "lr": 0.1, "refresh": "stale"}


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from flower_mnist import client_app, server_app

    return client_app, server_app


def test_in_one_process(parts, tmp_path):
    client, server = parts
    config = {
        **CONFIG,
        "selector": "hcsfed",
        "clients": 6,
        "cohort": 3,
        "deadline": 5,
        "num-server-rounds": 8,
        "keys": "",
    }
    context = Context(1, 1, {}, RecordDict(), {**config, "out": str(tmp_path / "run")})
    server.main(LocalGrid(client.app, 6, run_config=CONFIG), context)
    history = read_run(tmp_path / "run").history
    assert [record["round"] for record in history] == list(range(1, 9))
    assert not any(record["missing"] for record in history)
    assert history[-1]["accuracy"] > 0.7
    assert all(len(record["ids"]) == 3 for record in history)


def test_its_clients_answer_flowers_own_strategies_too(parts):
    """The mod lets their messages pass."""
    from flwr.app import ArrayRecord, ConfigRecord, Message

    client, server = parts
    federation = server.task.shares("digits", 6, 0)
    content = RecordDict(
        {
            "arrays": ArrayRecord(server.task.build(federation).state_dict()),
            "config": ConfigRecord({"server-round": 1}),
        }
    )
    grid = LocalGrid(client.app, [{"partition-id": 2, "num-partitions": 6}], run_config=CONFIG)
    (reply,) = grid.send_and_receive([Message(content, grid.nodes[0].id, "train")], timeout=1)
    assert reply.content["metrics"]["num-examples"] == federation.sizes[2]


@long
def test_by_flwr_run(tmp_path):
    pytest.importorskip("ray")
    config = {"data": "digits", "num-server-rounds": 2, "out": str(tmp_path / "run"), "deadline": 300}
    with engine(tmp_path, Path(sys.executable).parent) as flwr:
        run = flwr.run(EXAMPLE, virtual=6, config=config)
        flwr.wait(run, 900, lambda: done(tmp_path) == 2)
    history = read_run(tmp_path / "run").history
    assert [len(record["ids"]) for record in history] == [3, 3]
    assert history[1]["loss"] < history[0]["loss"]


def done(place: Path) -> int:
    return len(read_run(place / "run").history) if (place / "run" / "settings.json").exists() else 0
