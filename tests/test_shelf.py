"""Rows on disk: the same numbers as in memory, whole after a kill at any moment, no larger than what was touched."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
import torch

import hcsfed
from hcsfed.aggregate import Difference, Scaffold, Setup
from hcsfed.errors import RunFolderError, SettingError
from hcsfed.record import folder
from hcsfed.settings import LocalTraining, Settings, merge
from hcsfed.shelf import Shelves
from hcsfed.simulate import simulate

N, D = 11, 5
QUICK = {"cohort": 4, "steps": 2, "lr": 0.05}
KEEPERS = {
    "scaffold": {"algorithm.name": "scaffold"},
    "fedvarp": {"estimator.name": "fedvarp"},
    "mifa": {"estimator.name": "mifa"},
    "regression": {"estimator.name": "regression"},
    "both": {"algorithm.name": "scaffold", "estimator.name": "fedvarp"},
}


@pytest.fixture(scope="module")
def digits():
    return hcsfed.load("digits", clients=12)


@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_are_zero_at_first_and_then_what_was_written(on_disk):
    shelves = Shelves(0 if on_disk else 1 << 20)
    kept = shelves.start(N, D)
    assert kept.ndim == (1 if on_disk else 2)
    shelf = shelves.rows("x", kept, D)
    expected = np.zeros((N, D), np.float32)
    draw = np.random.default_rng(0)
    for _ in range(50):
        ids = draw.choice(N, 4, replace=False)
        rows = draw.normal(size=(4, D)).astype(np.float32)
        expected[ids] = rows
        shelf.write(ids, rows)
        if draw.random() < 0.5:
            shelves.settle()
        assert (shelf.read(np.arange(N)) == expected).all()
    parts = np.concatenate([rows for _, rows in shelf.blocks(np.arange(N))])
    assert (parts == expected).all()


def test_what_a_checkpoint_points_at_is_there_whenever_the_process_dies(tmp_path):
    """After every single row written, another process takes up the last checkpoint."""
    draw = np.random.default_rng(1)
    shelves = Shelves(0, tmp_path)
    kept = shelves.start(N, D)
    shelf = shelves.rows("x", kept, D)
    saved, then = kept.copy(), np.zeros((N, D), np.float32)
    for _ in range(30):
        now = then.copy()
        for client in draw.choice(N, 4, replace=False):
            row = draw.normal(size=(1, D)).astype(np.float32)
            shelf.write(np.array([client]), row)
            now[client] = row
            other = Shelves(0, tmp_path).rows("x", saved.copy(), D)
            assert (other.read(np.arange(N)) == then).all()
        saved, then = kept.copy(), now
        shelves.settle()


def test_a_file_holds_what_was_touched_and_a_round_more(tmp_path):
    shelves = Shelves(0, tmp_path)
    kept = shelves.start(1000, D)
    shelf = shelves.rows("x", kept, D)
    for _ in range(20):
        shelf.write(np.arange(7), np.ones((7, D)))
        shelves.settle()
    assert (tmp_path / "x.rows").stat().st_size == shelves.on_disk["x"] == 2 * 7 * 4 * D


@pytest.mark.parametrize("keeper", KEEPERS)
def test_disk_and_memory_tell_the_same_story(digits, keeper):
    memory, disk = (
        simulate(digits, rounds=5, options={**KEEPERS[keeper], "row_memory": mib}, **QUICK) for mib in (64, 0)
    )
    assert [r["loss"] for r in disk.history] == [r["loss"] for r in memory.history]


@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_run_with_rows_on_disk_is_taken_up_to_the_same_numbers(digits, keeper, tmp_path):
    given = {**QUICK, "options": {**KEEPERS[keeper], "row_memory": 0}}
    whole = simulate(digits, rounds=6, **given)
    for rounds in (1, 3, 6):
        resumed = simulate(digits, rounds=rounds, out=tmp_path / "run", resume=True, **given)
    assert [r["loss"] for r in resumed.history] == [r["loss"] for r in whole.history]


def test_the_checkpoint_does_not_copy_them(digits, tmp_path):
    given = {**QUICK, "rounds": 2, "algorithm": "scaffold"}
    row = 4 * simulate(digits, out=tmp_path / "memory", **given).about["dimension"]
    simulate(digits, out=tmp_path / "disk", options={"row_memory": 0}, **given)
    sizes = [(tmp_path / name / folder.CHECKPOINT).stat().st_size for name in ("memory", "disk")]
    assert sizes[0] - sizes[1] == pytest.approx(12 * row, rel=0.01)
    assert (tmp_path / "disk" / "scaffold-own.rows").stat().st_size <= 2 * 4 * row


@pytest.mark.parametrize("cut", [0, 100])
def test_a_file_that_is_gone_or_cut_off_is_told(digits, tmp_path, cut):
    given = {**QUICK, "out": tmp_path / "run", "options": {"estimator.name": "fedvarp", "row_memory": 0}}
    simulate(digits, rounds=2, **given)
    os.truncate(tmp_path / "run" / "difference-kept.rows", cut)
    with pytest.raises(RunFolderError, match="missing or cut off; start again") as caught:
        simulate(digits, rounds=3, resume=True, **given)
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_told_and_costs_the_round_under_way(digits, tmp_path, monkeypatch):
    given = {**QUICK, "options": {"estimator.name": "fedvarp", "row_memory": 0}}
    whole = simulate(digits, rounds=4, **given)
    simulate(digits, rounds=2, out=tmp_path / "run", **given)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(RunFolderError, match="No space left on device; free some space and run again"):
            simulate(digits, rounds=4, out=tmp_path / "run", resume=True, **given)
    resumed = simulate(digits, rounds=4, out=tmp_path / "run", resume=True, **given)
    assert [r["loss"] for r in resumed.history] == [r["loss"] for r in whole.history]


def test_no_run_holds_the_rows_that_it_never_touched():
    """N·d numbers would be 3.6 GB; what is there before the first round is a place for each client."""
    n = 1_000_000
    ones = np.ones(n, np.int64)
    setup = Setup(None, None, 900, torch.device("cpu"), np.full(n, 1 / n), ones, ones, LocalTraining())
    for keeper in (Scaffold(), Difference()):
        assert sum(array.nbytes for array in keeper.start(setup).values()) < 9_000_000


def test_bad_options_are_told():
    with pytest.raises(SettingError, match="row_memory of run must be an int ≥ 0, got -1"):
        merge(Settings(), {"row_memory": -1})


@pytest.mark.parametrize("row_memory", [0, 64])
def test_a_round_says_what_the_server_keeps(digits, row_memory, tmp_path):
    """The model; a row for each client that SCAFFOLD has met, their mean, and how it changes, both in doubles."""
    given = {"algorithm": "scaffold", "rounds": 6, "cohort": 3, "steps": 1, "options": {"row_memory": row_memory}}
    run = simulate(digits, **given)
    d, n = run.about["dimension"], digits.clients
    met = [len(set().union(*(r["ids"] for r in run.history[: t + 1]))) for t in range(6)]
    assert met[0] < met[-1]
    disk = [0] * 6 if row_memory else [4 * d * k for k in met]
    rows = 4 * d * n if row_memory else 8 * n
    assert [r["disk_bytes"] for r in run.history] == disk
    assert [r["server_bytes"] for r in run.history] == [4 * d + rows + 2 * 8 * d] * 6
    simulate(digits, out=tmp_path, **{**given, "rounds": 3})
    taken_up = simulate(digits, out=tmp_path, resume=True, **given)
    assert [r["disk_bytes"] for r in taken_up.history] == disk


def test_a_plain_round_keeps_the_model_and_nothing_else(digits):
    run = simulate(digits, selector="random", rounds=2, cohort=3, steps=1)
    assert [(r["server_bytes"], r["disk_bytes"]) for r in run.history] == [(4 * run.about["dimension"], 0)] * 2
