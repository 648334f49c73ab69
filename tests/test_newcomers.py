"""Clients that come when a run is under way: what the server remembers makes room for them, and stays true."""

from __future__ import annotations

import numpy as np
import pytest

from flower_runs import CLIENTS, app, federation, run, strategy
from hcsfed.flower import LocalGrid, Strategy, hcsfed_mod
from hcsfed.flower.roster import Roster
from hcsfed.select import SELECTORS
from test_flower import START, toy


class Late(LocalGrid):
    """Nodes 2 and 5 come in rounds 3 and 4; node 0 is away in round 4."""

    def __init__(self, *given):
        super().__init__(*given)
        self.leave(2)
        self.leave(5)
        self.asked = 0

    def get_node_ids(self):
        self.asked += 1
        if self.asked == 3:
            self.join(2)
        if self.asked == 4:
            self.join(5)
            self.leave(0)
        if self.asked == 5:
            self.join(0)
        return super().get_node_ids()


@pytest.mark.parametrize("name", sorted(set(SELECTORS) - {"test-accuracy"}))
def test_every_selector_takes_newcomers_in(name):
    asked = strategy(name)
    assert np.isfinite(run(asked, 6, Late(app(), CLIENTS))).all()
    assert asked.roster.names == ["0", "1", "3", "4", "2", "5"]
    assert [record["reachable"] for record in asked.history] == [4, 4, 5, 5, 6, 6]
    assert not any(record["missing"] for record in asked.history)


def test_newcomers_are_picked_and_weighed_by_their_size():
    asked = strategy("full", given={"cohort": CLIENTS})
    run(asked, 5, Late(app(), CLIENTS))
    shares = federation().sizes[[0, 1, 3, 4, 2, 5]] / federation().sizes.sum()
    np.testing.assert_allclose(asked.history[-1]["weights"], shares)


@pytest.mark.parametrize("row_memory", [64, 0])
@pytest.mark.parametrize("estimator", ["fedvarp", "mifa", "clusterfedvarp", "regression"])
def test_the_mean_of_all_guesses_is_that_of_the_clients_there_are(estimator, row_memory):
    asked = strategy("hcsfed", estimator=estimator, row_memory=row_memory)
    run(asked, 6, Late(app(), CLIENTS))
    state, setup = asked.standing.estimator, asked._desk(asked.standing.parameters, asked._packing).setup
    rows = setup.rows(state, "kept", asked.kit.estimator.name).read(np.arange(len(state["kept"])))
    owner = state["labels"] if "labels" in state else np.arange(CLIENTS)
    assert len(owner) == CLIENTS
    wanted = setup.weights @ rows[owner].astype(np.float64)
    assert np.abs(wanted).max() > 1e-3
    np.testing.assert_allclose(state["mean"], wanted, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"row_memory": 0}, {"algorithm.state": "cluster", "algorithm.clusters": 2}])
def test_scaffolds_sum_is_that_of_the_clients_there_are(options):
    asked = strategy("hcsfed", algorithm="scaffold", **options)
    run(asked, 6, Late(app(), CLIENTS))
    state, setup = asked.standing.algorithm, asked._desk(asked.standing.parameters, asked._packing).setup
    own = asked.kit.algorithm._own(setup, state, np.arange(CLIENTS))
    wanted = setup.weights @ own.astype(np.float64)
    assert np.abs(wanted).max() > 1e-3
    np.testing.assert_allclose(state["all"], wanted, atol=1e-6)


def test_weights_that_change_when_sizes_become_known_are_followed():
    """An app without `examples` says how many rows it has only when it has trained."""
    asked = Strategy("hcsfed", cohort=2, wait=0.0, features="raw", options={"estimator": "fedvarp"})
    grid = LocalGrid([toy([hcsfed_mod()], rows=10 + 10 * k) for k in range(CLIENTS)], CLIENTS)
    asked.start(grid, START, num_rounds=4, timeout=5)
    np.testing.assert_allclose(asked.weights, np.arange(1, 7) / 21)
    kept, mean = (asked.standing.estimator[name] for name in ("kept", "mean"))
    np.testing.assert_allclose(mean, asked.weights @ kept.astype(np.float64), atol=1e-5)


def test_a_newcomer_that_sends_no_note_is_not_picked_and_breaks_nothing():
    from hcsfed.flower.local_grid import Fault

    for name in ("pivotal", "frontier", "hcsfed"):
        grid = Late(app(), CLIENTS)
        grid.faults = [Fault(2, "silent", phase) for phase in ("features", "opening", "upload")]
        asked = strategy(name)
        assert np.isfinite(run(asked, 6, grid)).all()
        assert all("2" not in record["names"] for record in asked.history)


def test_who_does_not_say_how_many_examples_it_holds_counts_as_the_median():
    roster = Roster(["a", "b", "c", "d"], [10, 0, 30, 20])
    np.testing.assert_allclose(roster.weights(1.0), np.array([10, 20, 30, 20]) / 80)
    np.testing.assert_allclose(Roster(["a", "b"], [0, 0]).weights(1.0), [0.5, 0.5])
