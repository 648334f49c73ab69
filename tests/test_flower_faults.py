"""Nodes that die, stall, stutter or come late, at chosen moments: the round goes on, and its weights are right."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Message, RecordDict

from flower_runs import CLIENTS, app, federation, run, simulated, strategy
from hcsfed.errors import FederationError, SettingError
from hcsfed.flower import LocalGrid, Strategy, hcsfed_mod
from hcsfed.flower.local_grid import Fault
from hcsfed.select import SELECTORS
from test_flower import START, toy


@pytest.fixture
def said(caplog, monkeypatch):
    """The lines that name who was missing."""
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    caplog.set_level(logging.WARNING, logger="flwr")

    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if "missing" in record.getMessage()]

    return lines


def after(way: str, phase: str, node: int):
    """A run of three rounds in whose second one node goes wrong: its history and its model."""
    asked = strategy("hcsfed", given={"cohort": 3})
    model = run(asked, 3, faults=[Fault(node, way, phase, 2)])
    return asked.history, model


def picked_in_round_2() -> tuple[list[int], list[float]]:
    """Whom that run picks in its second round as long as all is well, and with what weights."""
    asked = strategy("hcsfed", given={"cohort": 3})
    run(asked, 2)
    return asked.history[1]["ids"], asked.history[1]["weights"]


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("silent", "no answer in time"),
        ("late", "no answer in time"),
        ("raises", "error 2: RuntimeError: disk full"),
        ("dies", "error 5: node is offline"),
    ],
)
class TestOneNode:
    def test_in_phase_1_it_is_not_picked_and_the_others_stand_for_themselves(self, way, why, said):
        node = picked_in_round_2()[0][0]
        history, model = after(way, "features", node)
        record = history[1]
        assert record["missing"] == {str(node): f"features: {why}"}
        assert node not in record["ids"]
        assert len(record["ids"]) == 3
        assert said() == [f"round 2: missing: {node} (features: {why})"]
        assert np.isfinite(model).all()

    def test_in_phase_2_the_others_weights_stay_as_they_were(self, way, why, said):
        ids, weights = picked_in_round_2()
        history, model = after(way, "upload", ids[1])
        record = history[1]
        assert record["missing"] == {str(ids[1]): f"upload: {why}"}
        assert record["ids"] == [ids[0], ids[2]]
        assert record["weights"] == pytest.approx([weights[0], weights[2]])  # nobody takes its place unasked
        assert said() == [f"round 2: missing: {ids[1]} (upload: {why})"]
        assert np.isfinite(model).all()


def test_who_died_is_not_asked_again_until_it_is_back():
    grid = LocalGrid(app(), CLIENTS, faults=[Fault(4, "dies", "features", 2)])
    asked = strategy("hcsfed")
    back = asked.configure_train

    def rejoin(server_round, *rest):
        if server_round == 4:
            grid.join(4)  # restarted: another id, an empty memory
        return back(server_round, *rest)

    asked.configure_train = rejoin
    run(asked, 4, grid)
    phases = {(phase, r) for node, phase, r in grid.log if node == 4}
    assert {("features", 1), ("features", 2), ("features", 4)} <= phases
    assert not any(r == 3 for _, r in phases)
    assert [record["away"] for record in asked.history] == [[], [], ["4"], []]
    assert [record["reachable"] for record in asked.history] == [6, 6, 5, 6]
    assert ("hello", 1) in phases
    assert len(asked.roster) == CLIENTS  # the same client under the same number


def test_who_died_between_rounds_leaves_exactly_the_run_without_it():
    class Gone(LocalGrid):
        def get_node_ids(self):
            if any(phase == "upload" for _, phase, _ in self.log):
                self.leave(0)
            return super().get_node_ids()

    asked = strategy("hcsfed", given={"cohort": CLIENTS})
    run(asked, 2, Gone(app(), CLIENTS))
    record = asked.history[1]
    sizes = np.array(federation().sizes[1:], float)
    assert record["away"] == ["0"]
    assert record["ids"] == [1, 2, 3, 4, 5]
    assert record["missing"] == {}
    np.testing.assert_allclose(record["weights"], sizes / sizes.sum())


def test_twice_counts_once():
    expected = run(strategy("hcsfed"), 3)
    for phase in ("features", "upload"):
        faults = [Fault(node, "twice", phase) for node in range(CLIENTS)]
        np.testing.assert_array_equal(run(strategy("hcsfed"), 3, faults=faults), expected)


def test_a_late_answer_does_not_count_for_the_round_in_which_it_comes():
    node = picked_in_round_2()[0][0]
    silent, without = after("silent", "features", node)
    late, with_it = after("late", "features", node)
    assert [record["ids"] for record in late] == [record["ids"] for record in silent]
    np.testing.assert_array_equal(with_it, without)


def test_a_restarted_node_has_no_update_to_upload(said):
    node = picked_in_round_2()[0][0]
    history, _ = after("forgets", "upload", node)
    assert history[1]["missing"] == {
        str(node): "upload: error 2: NotDoneError: no update is kept here; was the node restarted?"
    }
    assert len(said()) == 1


def test_an_update_of_another_round_is_not_uploaded():
    asked = strategy("hcsfed")
    grid = LocalGrid(app(), CLIENTS)
    run(asked, 1, grid)
    left = next(k for k in range(CLIENTS) if k not in asked.history[0]["ids"])  # still keeps round 1's update
    order = asked._desk(asked.standing.parameters, asked._packing).order("upload", 1, left, None)
    (reply,) = grid.send_and_receive([Message(RecordDict({"hcsfed": order.record()}), grid.nodes[left].id, "train")])
    assert reply.has_error()
    assert "of another round than 2" in reply.error.reason


@pytest.mark.parametrize("name", sorted(set(SELECTORS) - {"test-accuracy"}))
def test_any_selector_survives_any_fault(name):
    """Every node goes wrong in its own way, round after round."""
    ways = ("silent", "late", "raises", "twice", "forgets", "dies")
    faults = [Fault(k, way, round=1 + (k + shift) % 5) for shift in (0, 2) for k, way in enumerate(ways[:5])]
    asked = strategy(name)
    model = run(asked, 5, LocalGrid(app(), CLIENTS, faults=[*faults, Fault(5, "dies", round=3)]))
    assert np.isfinite(model).all()
    assert len(asked.history) == 5
    for record in asked.history:
        assert not set(record["names"]) & set(record["missing"])
        assert np.isfinite(record["weights"]).all()


def test_a_round_in_which_nobody_answers_changes_nothing(said):
    asked = strategy("hcsfed")
    once = run(strategy("hcsfed"), 1)
    faults = [Fault(k, "silent", "features", 2) for k in range(CLIENTS)]
    model = run(asked, 2, faults=faults)
    np.testing.assert_array_equal(model, once)
    assert asked.history[1]["ids"] == []
    assert len(said()) == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", ["hcsfed", "importance", "power-of-choice", "frontier", "random"])
def test_a_round_for_which_nobody_is_there_changes_nothing(name):
    class Gone(LocalGrid):
        def get_node_ids(self):
            for node in self.nodes:
                node.here = len(asked.history) != 1
            return super().get_node_ids()

    asked, once = strategy(name), run(strategy(name), 1)
    np.testing.assert_array_equal(run(asked, 2, Gone(app(), CLIENTS)), once)
    assert [record["reachable"] for record in asked.history] == [CLIENTS, 0]
    run(asked, 3, Gone(app(), CLIENTS))
    assert asked.history[2]["reachable"] == CLIENTS


def test_a_server_that_everybody_has_left_waits_for_one_but_not_for_ever(monkeypatch):
    """Or it would be through with all its rounds before the nodes are back."""
    slept = []

    class Gone(LocalGrid):
        def get_node_ids(self):
            for k, node in enumerate(self.nodes):
                node.here = len(asked.history) == 0 or (len(asked.history) == 1 and len(slept) > 3 and k < 2)
            return super().get_node_ids()

    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr("hcsfed.flower.strategy.time", clock)
    asked = strategy("random", given={"wait": 8.0})
    run(asked, 3, Gone(app(), CLIENTS))
    assert [record["reachable"] for record in asked.history] == [CLIENTS, 2, 0]
    assert slept == [1.0] * 4 + [1.0] * 8


def test_no_exchange_is_without_a_deadline():
    grid = LocalGrid(app(), CLIENTS, faults=[Fault(1, "silent")])
    run(strategy("hcsfed", given={"deadline": 2.5}), 3, grid)
    assert set(grid.timeouts) == {2.5}


def test_where_there_is_nobody_the_run_ends_with_a_line():
    grid = LocalGrid(app(), CLIENTS)
    for k in range(CLIENTS):
        grid.leave(k)
    with pytest.raises(FederationError, match="no client answered within 0 seconds"):
        run(strategy("hcsfed"), 1, grid)


def flaky(chance: float, node: int, rounds: int, phase: str) -> list[Fault]:
    """A node that is silent in a fixed share of the rounds."""
    draw = np.random.default_rng(1).random(rounds)
    return [Fault(node, "silent", phase, r + 1) for r in range(rounds) if draw[r] >= chance]


@pytest.mark.parametrize("phase", ["features", "full"])
def test_over_many_rounds_a_client_that_answers_rarely_counts_for_what_it_is(phase):
    """Before the pick or after it: its total weight over the rounds is that of the others, because it counts for more
    when it does come. Left alone, it would count for half.
    """
    rounds = 120
    selector = {"features": "hcsfed", "full": "random"}[phase]
    totals = {}
    for rates in (True, False):
        given = {"cohort": 3, "wait": 0.0, "features": "raw"} | ({} if rates else {"rates": None})
        asked = Strategy(selector, **given)
        grid = LocalGrid(toy([hcsfed_mod()]), CLIENTS, faults=flaky(0.5, 2, rounds, phase))
        asked.start(grid, START, num_rounds=rounds, timeout=5)
        sums = np.zeros(CLIENTS)
        for record in asked.history:
            sums[record["ids"]] += record["weights"]
        totals[rates] = sums[2] / np.delete(sums, 2).mean()
    assert totals[False] < 0.7
    assert 0.8 < totals[True] < 1.25


def test_more_are_asked_where_few_answer():
    asked = strategy("random", given={"cohort": 2})
    faults = [Fault(k, "silent", "full", r) for r in range(1, 31) for k in range(CLIENTS) if (r + k) % 2]
    run(asked, 30, faults=faults)
    asked_in = [len(record["ids"]) + len(record["missing"]) for record in asked.history]
    assert asked_in[0] == 2
    assert np.mean(asked_in[15:]) > 3
    assert 1.7 < np.mean([len(record["ids"]) for record in asked.history[15:]]) < 2.8


def test_what_is_simulated_elsewhere_is_refused_here():
    for name, value in (("attack", "nan"), ("availability", "independent"), ("reach.lost", 0.5), ("algorithm", "lag")):
        with pytest.raises(SettingError, match="simulat"):
            strategy("random", **{name: value})


def test_without_a_fault_the_weights_are_the_simulators():
    asked = strategy("hcsfed", given={"cohort": 3})
    run(asked, 3)
    _, history = simulated("hcsfed", 3, cohort=3)
    for ours, theirs in zip(asked.history, history, strict=True):
        np.testing.assert_allclose(ours["weights"], theirs["weights"])
