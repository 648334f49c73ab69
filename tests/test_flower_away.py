"""Nodes that are away or don't answer, and servers that start anew between rounds: still the simulator's run."""

from __future__ import annotations

import numpy as np
import pytest

from flower_runs import CLIENTS, SEED, app, run, simulated, strategy
from hcsfed.flower import LocalGrid
from hcsfed.flower.local_grid import Fault
from hcsfed.flower.post import Post
from hcsfed.memory import stale
from hcsfed.rng import stream

THERE = np.array(
    [
        [1, 1, 0, 1, 1, 0],  # 2 and 5 have said their names, and are heard of no more until they come
        [1, 1, 0, 1, 1, 0],
        [1, 0, 1, 1, 1, 0],
        [0, 1, 1, 1, 0, 1],
        [1, 1, 1, 0, 0, 1],
        [1, 1, 1, 1, 1, 1],
        [1, 1, 0, 1, 1, 1],
    ],
    bool,
)
RUNS = {
    "random": {"estimator": "mifa"},
    "importance": {"server": "adam"},
    "hcsfed": {"estimator": "regression"},
    "hcsfed-stale": {"selector.refresh": "stale", "estimator": "clusterfedvarp", "estimator.clusters": 3},
    "pivotal": {"features": "sketch", "estimator": "fedvarp"},
    "frontier": {},
    "frontier-in-files": {"row_memory": 0, "server": "momentum"},
    "oort": {"algorithm": "scaffold"},
}


LOST = 0.3


class Table(LocalGrid):
    """In each round the nodes that a table says, once all of them have said their names."""

    def __init__(self, there: np.ndarray, faults: list[Fault] | None = None) -> None:
        super().__init__(app(), CLIENTS, faults=faults or [])
        self.there, self.round, self.met = there, 0, False

    def get_node_ids(self):
        for node, here in zip(self.nodes, self.there[self.round] if self.met else np.ones(CLIENTS, bool), strict=True):
            node.here = bool(here)
        self.round += self.met
        self.met = True
        return super().get_node_ids()


def compared(asked, found: np.ndarray, expected: np.ndarray, history: list[dict]) -> None:
    assert [record["ids"] for record in asked.history] == [record["ids"] for record in history]
    for record, wanted in zip(asked.history, history, strict=True):
        np.testing.assert_allclose(record["weights"], wanted["weights"])
        for figure in ("upload_bytes", "local_steps", "train_loss"):  # models go down more often on real machines
            assert record[figure] == pytest.approx(wanted[figure]), (record["round"], figure)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def chosen(name: str) -> str:
    return name.removesuffix("-stale").removesuffix("-in-files")


@pytest.mark.parametrize("again", [1, 3])
@pytest.mark.parametrize("name", RUNS)
def test_nodes_that_are_away_and_a_server_that_starts_anew_every_so_many_rounds(name, again, tmp_path):
    np.savetxt(tmp_path / "there.csv", THERE, fmt="%d", delimiter=",")
    trace = {"availability": "trace", "availability.file": str(tmp_path / "there.csv")}
    expected, history = simulated(chosen(name), len(THERE), **RUNS[name], **trace)
    grid = Table(THERE)
    for rounds in range(again, len(THERE) + again, again):
        asked = strategy(chosen(name), given={"out": tmp_path / "run"}, **RUNS[name])
        if rounds == again:
            asked._meet(Post(grid, 5.0))
        found = run(asked, min(rounds, len(THERE)), grid)
    compared(asked, found, expected, history)


@pytest.mark.parametrize("name", RUNS)
def test_answers_that_do_not_come_are_asked_beyond_and_corrected_for(name):
    """Chances are learned, more are asked than are to answer, weights are divided: all as in the simulator."""
    rounds, cohort = 8, 3
    lost = {"reach.lost": LOST, "reach.over_select": 0.0, "cohort": cohort}
    expected, history = simulated(chosen(name), rounds, **RUNS[name], **lost)
    asked = strategy(chosen(name), given={"cohort": cohort}, **RUNS[name])
    phase = "full" if stale(asked.kit) else "features"
    silent = [
        Fault(int(k), "silent", phase, t + 1)
        for t in range(rounds)
        for k in np.flatnonzero(stream(SEED, "lost answers", t).random(CLIENTS) < LOST)
    ]
    grid = Table(np.ones((rounds, CLIENTS), bool), silent)
    compared(asked, run(asked, rounds, grid), expected, history)
    assert sum(len(record["missing"]) for record in asked.history) > 5
