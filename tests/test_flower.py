"""A federation of Flower nodes gives the simulator's numbers; existing apps join with one line."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from flower_runs import CLIENTS, SEED, app, federation, run, simulated, strategy, vector
from hcsfed.errors import HcsfedError, SettingError
from hcsfed.flower import LocalGrid, Strategy, hcsfed_mod, initial_arrays
from hcsfed.select import SELECTORS
from test_project import BLOCK, base_install

RUNS = {
    "random": {},
    "full": {},
    "importance": {"server": "adam"},
    "hcsfed": {},  # everyone trains, the picked upload
    "hcsfed-stale": {"selector.refresh": "stale"},
    "hcsfed-published": {},
    "pivotal": {"features": "sketch"},
    "frontier": {},  # an opening of a few steps, and guesses of every update
    "power-of-choice": {},  # losses
    "data-variability": {},  # how much gradients scatter
    "hics": {},  # the bias of the last layer
    "oort": {},
    "clustered-updates": {},
    "random/scaffold": {"algorithm": "scaffold"},
    "random/scaffold-1": {"algorithm": "scaffold", "algorithm.option": 1},
    "hcsfed/scaffold": {"algorithm": "scaffold"},
    "hcsfed/fednova": {"algorithm": "fednova", "local.epochs": 2},
    "random/fedprox": {"algorithm": "fedprox", "algorithm.mu": 0.5, "server": "momentum"},
    "random/mifa": {"estimator": "mifa"},
    "hcsfed/clusterfedvarp": {"estimator": "clusterfedvarp", "estimator.clusters": 3},
    "hcsfed/labels": {"features": "labels"},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_federation_gives_the_simulators_cohorts_and_model(name):
    selector = name.split("/")[0].removesuffix("-stale")
    expected, history = simulated(selector, 3, **RUNS[name])
    asked = strategy(selector, **RUNS[name])
    found = run(asked, 3)
    assert [record["ids"] for record in asked.history] == [record["ids"] for record in history]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    for figure in ("upload_bytes", "local_steps", "train_loss"):
        assert [record[figure] for record in asked.history] == pytest.approx([record[figure] for record in history])


@pytest.mark.parametrize("name", RUNS)
def test_what_crosses_the_wire_is_what_the_ledger_counts_and_a_little_for_each_message(name):
    asked, grid = strategy(name.split("/")[0].removesuffix("-stale"), **RUNS[name]), LocalGrid(app(), CLIENTS)
    found = run(asked, 3, grid)
    for t, record in enumerate(asked.history, 1):
        phases = [phase for _, phase, r in grid.log if r == t]
        counted = {way: record[f"{way}load_bytes"] for way in ("up", "down")}
        if RUNS[name].get("algorithm") == "scaffold" and "algorithm.option" not in RUNS[name]:
            # As published, clients send their variates too; here the server works them out from the updates.
            counted["up"] -= 4 * len(found) * sum(phase in ("full", "upload") for phase in phases)
        for way, most in (("up", 1_800), ("down", 3_600)):
            added = (record["wire"][way] - counted[way]) / len(phases)
            assert 300 < added < most, (t, way)
        assert sum(down for down, _ in record["wire"]["nodes"].values()) == record["wire"]["down"]


def test_every_selector_runs_or_says_why_not():
    for name in SELECTORS:
        if "accuracies" in SELECTORS.build(name).claims.needs:
            with pytest.raises(SettingError, match="simulator only"):
                strategy(name)
        else:
            assert np.isfinite(run(strategy(name), 2)).all(), name


def test_the_picked_do_not_train_again_and_keep_nothing():
    grid = LocalGrid(app(), CLIENTS)
    asked = strategy("hcsfed")
    run(asked, 2, grid)
    for t, record in enumerate(asked.history, 1):
        phases = [(node, phase) for node, phase, r in grid.log if r == t and phase != "hello"]
        assert sorted(phases) == sorted(
            [(k, "features") for k in range(CLIENTS)] + [(k, "upload") for k in record["ids"]]
        )
    picked = set(asked.history[-1]["ids"])
    for k, node in enumerate(grid.nodes):
        assert bool(len(node.state)) == (k not in picked)  # what was not asked for is replaced in the next round


def test_stale_features_come_with_the_answers_after_one_message_from_everyone():
    grid = LocalGrid(app(), CLIENTS)
    asked = strategy("hcsfed", **{"selector.refresh": "stale"})
    run(asked, 3, grid)
    assert [phase for _, phase, r in grid.log if r == 1].count("features") == CLIENTS
    later = [phase for _, phase, r in grid.log if r > 1]
    assert later == ["full"] * sum(len(record["ids"]) for record in asked.history[1:])


def test_node_ids_and_their_order_mean_nothing():
    configs = [{"partition-id": k} for k in range(CLIENTS)]
    expected = run(strategy("hcsfed"), 2)
    again = run(strategy("hcsfed"), 2, LocalGrid(app(), configs[::-1], first_id=77))
    np.testing.assert_array_equal(expected, again)


def toy(mods: list, rows: int = 10) -> ClientApp:
    """An app as somebody else wrote it: halfway to the client's number, and says how many rows it has."""
    ours = ClientApp(mods=mods)

    @ours.train()
    def train(message, context):
        number = float(context.node_config["partition-id"])
        arrays = message.content["arrays"]
        moved = ArrayRecord(
            {n: Array(a.numpy() + (number - a.numpy()) / 2) if n != "steps" else a for n, a in arrays.items()}
        )
        metrics = MetricRecord({"num-examples": rows, "train_loss": number})
        return Message(RecordDict({"arrays": moved, "metrics": metrics}), reply_to=message)

    return ours


START = ArrayRecord({"w": Array(np.zeros((2, 3), np.float32)), "steps": Array(np.array(7)), "b": Array(np.zeros(2))})


@pytest.mark.parametrize("selector", ["random", "hcsfed", "pivotal", "frontier"])
def test_an_app_of_ones_own_needs_one_line(selector):
    asked = Strategy(selector, cohort=3, wait=0.0, features="raw")
    result = asked.start(LocalGrid(toy([hcsfed_mod()]), CLIENTS), START, num_rounds=8, timeout=5)
    assert not any(record["missing"] for record in asked.history)
    np.testing.assert_allclose(result.arrays["w"].numpy(), 2.5, atol=1.5)  # the mean of the clients' numbers
    assert result.arrays["steps"].numpy() == 7
    assert result.arrays["b"].numpy().dtype == np.float64


def test_everyone_together_is_flowers_own_average():
    result = Strategy("full", cohort=CLIENTS, wait=0.0).start(
        LocalGrid(toy([hcsfed_mod()]), CLIENTS), START, num_rounds=1, timeout=5
    )
    np.testing.assert_allclose(result.arrays["w"].numpy(), 1.25)


def test_an_app_that_does_not_follow_the_algorithm_says_so():
    asked = Strategy("random", cohort=2, wait=0.0, algorithm="scaffold")
    asked.start(LocalGrid(toy([hcsfed_mod()]), CLIENTS), START, num_rounds=1, timeout=5)
    reasons = asked.history[0]["missing"].values()
    assert len(reasons) == 2
    assert all("does not follow 'scaffold'" in reason for reason in reasons)


def test_a_mod_lets_other_strategies_messages_pass():
    grid = LocalGrid(toy([hcsfed_mod()]), 2)
    content = RecordDict({"arrays": START, "config": ConfigRecord({"lr": 0.1})})
    (reply,) = grid.send_and_receive([Message(content, grid.nodes[1].id, "train")], timeout=1)
    assert reply.content["metrics"]["num-examples"] == 10


def test_a_client_sends_only_features_that_it_allows():
    asked = Strategy("hcsfed", cohort=2, wait=0.0, features="raw")
    asked.start(LocalGrid(toy([hcsfed_mod(features=("sketch",))]), CLIENTS), START, num_rounds=1, timeout=5)
    assert all("feature 'raw'" in reason for reason in asked.history[0]["missing"].values())
    assert len(asked.history[0]["missing"]) == CLIENTS


def test_noise_on_features_is_not_the_servers_to_draw():
    noisy, notes = toy([hcsfed_mod(noise=(1.0, 1.0))]), []
    for _ in range(2):
        asked = Strategy("hcsfed", cohort=2, wait=0.0, features="raw", options={"selector.refresh": "stale"})
        asked.start(LocalGrid(noisy, CLIENTS), START, num_rounds=1, timeout=5)
        notes.append(asked.standing.heard["features"])
    assert np.isfinite(notes[0]).all()
    assert not np.allclose(notes[0], notes[1])
    with pytest.raises(SettingError, match=r"privacy\.noise of a Flower strategy must be 0: noise is the clients' own"):
        Strategy("hcsfed", options={"privacy.noise": 1.0})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"selector": "nobody"}, "nobody"),
        ({"selector": SELECTORS}, "selector of Strategy must be a name or a selector"),
        ({"clients": 0}, "clients of Strategy must be an int >= 1, got 0"),
        ({"wait": -1}, "wait of Strategy must be a number >= 0, got -1"),
        ({"deadline": 0}, "deadline of Strategy must be None or a number > 0, got 0"),
        ({"max_share": 1.5}, r"max_share of Strategy must be a number in \(0, 1\], got 1.5"),
        ({"cohort": 0}, "cohort"),
        ({"lrr": 0.1}, "lrr"),
    ],
)
def test_parameters_that_can_not_be_are_named(given, why):
    with pytest.raises(HcsfedError, match=why) as refused:
        Strategy(**given)
    assert "\n" not in str(refused.value)


def test_the_server_needs_no_torch():
    code = """
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from hcsfed.flower import LocalGrid, Strategy, hcsfed_mod
app = ClientApp(mods=[hcsfed_mod()])
@app.train()
def train(message, context):
    w = message.content["arrays"]["w"].numpy()
    moved = ArrayRecord({"w": Array(w + np.float32(context.node_config["partition-id"]))})
    return Message(RecordDict({"arrays": moved, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)
start = ArrayRecord({"w": Array(np.zeros(8, np.float32))})
for selector, server in (("frontier", "yogi"), ("hcsfed", "momentum")):
    done = Strategy(selector, cohort=2, wait=0.0, server=server).start(LocalGrid(app, 5), start, 2, 5)
    print(len(done.arrays["w"].numpy()))
"""
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(absent={"torch"}) + code], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["8", "8"], done.stderr


def test_names_of_the_package_without_flower():
    assert "hcsfed_mod" in base_install("import hcsfed.flower; print(hcsfed.flower.__all__)").stdout


def test_the_model_of_round_0_is_the_simulators():
    from hcsfed.assemble import assemble
    from hcsfed.settings import Settings, merge

    parts = assemble(merge(Settings(), {"seed": SEED}), federation=federation())
    np.testing.assert_array_equal(vector(initial_arrays(federation(), seed=SEED)), parts.initial().numpy())
