"""A real SuperLink with SuperNode processes, and Flower's simulation engine: both give the simulator's numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import psutil
import pytest

from hcsfed.cli.main import main
from hcsfed.errors import FederationError
from hcsfed.flower.demo import app, check
from hcsfed.flower.demo.certificates import node_key
from hcsfed.flower.demo.federation import engine, loopback
from hcsfed.flower.demo.processes import wait
from hcsfed.flower.demo.story import Demo, last
from hcsfed.record import read_run
from long import long
from test_project import base_install, command

PROGRAMS = Path(sys.executable).parent
MARKED = "HCSFED_TEST"


@pytest.fixture
def mark(monkeypatch):
    """Whatever a test starts bears a mark in its environment."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARKED, value)
    return value


def marked(mark: str) -> list[psutil.Process]:
    """All other processes that bear it, by a look of our own at the system's table."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARKED) == mark and process.status() != "zombie":
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def spoken_to(mark: str) -> set[str]:
    """Addresses at which these processes listen, and those that they are connected to."""
    found = set()
    for process in marked(mark):
        try:
            ends = [c.laddr if c.status == psutil.CONN_LISTEN else c.raddr for c in process.net_connections("inet")]
        except psutil.Error:
            continue
        found |= {end.ip.removeprefix("::ffff:") for end in ends if end}  # IPv4 as IPv6 writes it
    return found


def test_six_nodes_with_tls_and_keys_of_which_one_dies(mark, tmp_path):
    """The command as users give it. That its rounds are those of one process and of the simulator, it checks itself;
    that it would notice, the tests below check.
    """
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        command = [sys.executable, "-m", "hcsfed", "federation", "demo", "--kill", "1", "--json"]
        demo = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, "TMPDIR": str(tmp_path)})
    addresses: set[str] = set()
    while demo.poll() is None:
        addresses |= spoken_to(mark)
        time.sleep(3)
    assert demo.returncode == 0, (tmp_path / "err").read_text()
    told = json.loads((tmp_path / "out").read_text())
    assert told["completed"]
    assert told["killed"] == ["node-5"]
    assert [len(record["ids"]) > 0 for record in told["history"]] == [True] * 3
    assert told["undisturbed"] >= 1
    assert told["process"] <= check.TOLERANCE
    assert told["simulator"] <= check.TOLERANCE
    gone = told["history"][-1]
    assert gone["away"] == ["node-5"] or "node-5" in gone["missing"]
    assert addresses == {"127.0.0.1"}
    assert marked(mark) == []
    assert not list(tmp_path.glob("hcsfed-federation-*"))


@long
def test_a_server_that_is_killed_and_started_again_goes_on(mark, tmp_path):
    """SIGKILL for the SuperLink and all that it has started, the strategy's process among them. A node whose key it was
    not told of gets no message, neither before nor after.
    """
    demo = Demo(nodes=3, rounds=3, refresh="stale")
    plan, models = demo.plan(tmp_path), {}

    def look() -> bool:
        done, model = last(tmp_path / "run")
        if model is not None:
            models[done] = model
        return done == demo.rounds

    with loopback(tmp_path, demo.nodes, PROGRAMS, database=tmp_path / "state.db") as federation:
        stranger = federation.join(demo.nodes, node_key(tmp_path / "strange", "key"))
        federation.flwr.run(app.write(tmp_path, plan))
        wait("the first round", 600, lambda: look() or bool(models), need=[federation.superlink])
        server = psutil.Process(federation.superlink.pid)
        for process in [server, *server.children(recursive=True)]:
            process.kill()
        wait("the server to end", 60, lambda: not federation.superlink.running)
        assert not look(), "it was killed too late"
        federation.serve()
        federation.flwr.wait(federation.flwr.run(tmp_path / "app"), 900, look)
        wait("the unknown node to be turned away", 120, lambda: not stranger.running)
        nodes = federation.nodes.values()
        assert ["Receiving:" in node.log.read_text() for node in (*nodes, stranger)] == [True] * demo.nodes + [False]
    verdict = check.judged(plan, read_run(tmp_path / "run").history, models)
    assert verdict.complaint == ""
    assert verdict.undisturbed == demo.rounds
    assert verdict.simulator <= check.TOLERANCE
    assert marked(mark) == []


def test_flowers_simulation_engine_gives_the_simulators_model(mark, tmp_path):
    pytest.importorskip("ray")
    demo = Demo(secure=False, refresh="stale", rounds=3)
    plan = demo.plan(tmp_path)
    models, addresses = {}, set()

    def look() -> bool:
        done, model = last(tmp_path / "run")
        if model is not None and done not in models:
            models[done] = model
            addresses.update(spoken_to(mark))
        return done == demo.rounds

    with engine(tmp_path, PROGRAMS) as flwr:
        flwr.wait(flwr.run(app.write(tmp_path, plan), virtual=demo.nodes), 900, look)
    verdict = check.judged(plan, read_run(tmp_path / "run").history, models)
    assert verdict.complaint == ""
    assert verdict.undisturbed == 3
    assert verdict.simulator <= check.TOLERANCE
    assert addresses == {"127.0.0.1"}
    assert marked(mark) == []


class TestTheCheck:
    """A run that is not what it should be is found out."""

    @pytest.fixture
    def plan(self, tmp_path):
        return Demo(rounds=2, secure=False).plan(tmp_path)

    @pytest.fixture
    def done(self, plan):
        history, model = check.simulated(plan, 2)
        history = [
            {**record, "missing": {}, "away": [], "names": [f"node-{k}" for k in record["ids"]]} for record in history
        ]
        return history, {2: model}

    def test_what_is_right_passes(self, plan, done):
        verdict = check.judged(plan, *done)
        assert verdict.complaint == ""
        assert (verdict.undisturbed, verdict.simulator) == (2, 0)

    def test_another_cohort(self, plan, done):
        history, models = done
        history[1]["ids"] = history[1]["ids"][:-1]
        assert "round 2 heard clients" in check.judged(plan, history, models).complaint

    def test_other_weights(self, plan, done):
        history, models = done
        total = sum(history[1]["weights"])
        history[1]["weights"] = [weight / total for weight in history[1]["weights"]]  # as Flower's own average has it
        assert "round 2 has weights" in check.judged(plan, history, models).complaint

    def test_another_model(self, plan, done):
        history, models = done
        assert "the model is off by 0.1" in check.judged(plan, history, {2: models[2] + 0.1}).complaint

    def test_a_round_too_few(self, plan, done):
        history, models = done
        assert check.judged(plan, history[:1], models).complaint == "1 of 2 rounds were done"

    def test_a_round_in_which_nobody_answered(self, plan, done):
        history, models = done
        history[1]["ids"] = []
        assert check.judged(plan, history, models).complaint == "nobody answered in round 2"

    def test_absences_are_repeated(self, plan):
        """The same nodes missing in the same phases give the same weights, and the simulator is asked only before."""
        from flower_runs import Fault

        chosen = app.strategy({**plan, "strategy": {**plan["strategy"], "out": None}})
        quiet = check.Repeat(plan, [{"round": r, "missing": {}, "away": []} for r in (1, 2)], chosen)
        quiet.faults = [Fault(2, "dies", "features", 2)]
        model = check.vector(app.train(quiet, plan, chosen))
        first = check.simulated(plan, 1)[1]
        verdict = check.judged(plan, chosen.history, {1: first, 2: model})
        assert verdict.complaint == ""
        assert (verdict.undisturbed, verdict.process) == (1, 0)
        chosen.history[1]["missing"] = {}
        assert "round 2" in check.judged(plan, chosen.history, {1: first, 2: model}).complaint


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--nodes", "1"], "nodes of federation demo must be an int in [2, 50], got 1"),
        (["--rounds", "0"], "rounds of federation demo must be"),
        (["--refresh", "sometimes"], "refresh of federation demo must be fresh or stale, got 'sometimes'"),
        (["--kill", "6"], "kill of federation demo must be an int in [0, 5]"),
        (["--kill", "-1"], "kill of federation demo must be an int in [0, 5]"),
        (["--kill-hard", "--rounds", "1"], "rounds of federation demo must be 2 or more"),
    ],
)
def test_flags_that_can_not_be(flags, why, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hcsfed", "federation", "demo", *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.err.startswith(f"hcsfed: {why}")
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_without_flower_one_line_says_what_to_install():
    done = base_install(command("federation", "demo"))
    assert done.returncode == 2
    assert done.stderr == "hcsfed: this command needs flwr; install it with: pip install 'hcsfed[flower]'\n"


def test_a_server_that_can_not_start_is_named_in_a_line_and_leaves_nothing(mark, tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    broken = programs / "flower-superlink"
    broken.write_text("#!/bin/sh\necho address already in use\nexit 3\n")
    broken.chmod(0o755)
    why = r"superlink ended with exit code 3 .*address already in use"
    with pytest.raises(FederationError, match=why), loopback(tmp_path / "f", 2, programs):
        raise AssertionError("it did start")
    assert marked(mark) == []


def test_told_to_end_in_mid_start_it_leaves_nothing(mark, tmp_path):
    command = [sys.executable, "-m", "hcsfed", "federation", "demo"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    deadline = time.monotonic() + 300
    while not any("flower-superlink" in " ".join(p.cmdline()) for p in marked(mark)):
        assert demo.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
    demo.send_signal(2)
    _, said = demo.communicate(timeout=120)
    assert demo.returncode == 130
    assert said.splitlines()[-1] == "hcsfed: interrupted; all processes have ended"
    assert marked(mark) == []
    assert not list(tmp_path.iterdir())


def test_models_are_read_while_a_run_goes_on(tmp_path):
    assert last(tmp_path) == (0, None)
    plan = Demo(rounds=2, secure=False).plan(tmp_path)
    chosen = app.strategy(plan)
    model = app.train(
        check.Repeat(plan, [{"round": r, "missing": {}, "away": []} for r in (1, 2)], chosen), plan, chosen
    )
    done, found = last(tmp_path / "run")
    assert done == 2
    np.testing.assert_array_equal(found, check.vector(model))
