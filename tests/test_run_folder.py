"""A run's folder survives what happens to folders."""

from __future__ import annotations

import errno
import json

import numpy as np
import pytest

import hcsfed.record.folder as folder_module
from hcsfed.errors import RunFolderError
from hcsfed.record import Run, RunFolder, read_run

SETTINGS = {"seed": 0, "rounds": 5, "local": {"lr": 0.1}}


def entry(number: int, accuracy: float | None = None) -> dict:
    return {
        "round": number,
        "loss": None,
        "accuracy": accuracy,
        "upload_bytes": 10,
        "download_bytes": 20,
        "local_steps": 3,
        "seconds": {"train": 0.5},
    }


def written(path, rounds: int = 3):
    with RunFolder(path, SETTINGS, {"dimension": 2}, resume=False) as folder:
        for number in range(1, rounds + 1):
            folder.save(entry(number), {"parameters": np.full(2, number, np.float32)})
    return path


def test_what_is_written_is_read_back(tmp_path):
    run = read_run(written(tmp_path / "a"))
    assert run.settings == SETTINGS
    assert run.about == {"dimension": 2}
    assert [record["round"] for record in run.history] == [1, 2, 3]


def test_a_run_can_be_read_while_its_last_line_is_being_written(tmp_path):
    path = written(tmp_path / "a")
    with (path / "rounds.jsonl").open("a") as file:
        file.write('{"round": 4, "lo')
    assert len(read_run(path).history) == 3


@pytest.mark.parametrize("tail", ["", '{"round": 4, "lo', json.dumps(entry(4)) + "\n"])
def test_a_folder_is_set_back_to_its_checkpoint(tmp_path, tail):
    path = written(tmp_path / "a")
    with (path / "rounds.jsonl").open("a") as file:
        file.write(tail)
    with RunFolder(path, SETTINGS, {}, resume=True) as folder:
        done, arrays = folder.checkpoint
        assert done == 3
        assert arrays["parameters"].tolist() == [3, 3]
        assert len(folder.history) == 3
        folder.save(entry(4), arrays)
    assert [record["round"] for record in read_run(path).history] == [1, 2, 3, 4]


def test_more_rounds_may_be_asked_for_and_nothing_else(tmp_path):
    path = written(tmp_path / "a")
    with RunFolder(path, {**SETTINGS, "rounds": 9}, {}, resume=True):
        pass
    assert read_run(path).settings["rounds"] == 9
    assert read_run(path).about == {"dimension": 2}
    with pytest.raises(RunFolderError, match=r"other settings: local\.lr is .* there, 0\.2 here"):
        RunFolder(path, {**SETTINGS, "local": {"lr": 0.2}}, {}, resume=True)


def test_a_run_older_than_a_setting_had_its_default(tmp_path):
    path = written(tmp_path / "a")
    with RunFolder(path, {**SETTINGS, "privacy": {"noise": 0.0, "clip": 1.0}}, {}, resume=True) as folder:
        assert len(folder.history) == 3
    with pytest.raises(RunFolderError, match=r"privacy\.noise is 0\.0 there, 2\.0 here"):
        RunFolder(path, {**SETTINGS, "privacy": {"noise": 2.0}}, {}, resume=True)


def test_nothing_is_overwritten(tmp_path):
    path = written(tmp_path / "a")
    before = (path / "rounds.jsonl").read_bytes()
    with pytest.raises(RunFolderError, match="--resume"):
        RunFolder(path, SETTINGS, {}, resume=False)
    assert (path / "rounds.jsonl").read_bytes() == before
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFolderError, match="holds other files"):
        RunFolder(tmp_path / "b", SETTINGS, {}, resume=False)
    (tmp_path / "c").write_text("a file")
    with pytest.raises(RunFolderError, match="is a file"):
        RunFolder(tmp_path / "c", SETTINGS, {}, resume=False)


@pytest.mark.parametrize("leftovers", [["lock"], ["lock", "settings.json.part"]])
def test_a_run_that_was_stopped_while_it_began_may_begin_again(tmp_path, leftovers):
    for name in leftovers:
        (tmp_path / name).touch()
    with RunFolder(tmp_path, SETTINGS, {}, resume=True) as folder:
        folder.save(entry(1), {"parameters": np.ones(2)})
    assert len(read_run(tmp_path).history) == 1


def test_fewer_rounds_than_there_are_is_refused_and_nothing_changed(tmp_path):
    path = written(tmp_path / "a")
    with pytest.raises(RunFolderError, match="holds 3 rounds already; rounds must be an int ≥ 3, got 2"):
        RunFolder(path, {**SETTINGS, "rounds": 2}, {}, resume=True)
    assert read_run(path).settings == SETTINGS
    assert len(read_run(path).history) == 3


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"dimension": 2}, {"dimension": 3}, "another model"),
        ({"federation": {"rows": 9}}, {"federation": {"rows": 8}}, "another federation"),
    ],
)
def test_own_data_and_models_are_told_apart_though_settings_are_the_same(tmp_path, before, after, told):
    with RunFolder(tmp_path, SETTINGS, before, resume=False):
        pass
    with pytest.raises(RunFolderError, match=told):
        RunFolder(tmp_path, SETTINGS, after, resume=True)


def test_arrays_come_back_in_their_shape_and_type(tmp_path):
    arrays = {
        "whole": np.arange(6).reshape(2, 3).T,
        "one": np.array(3.5),
        "none": np.zeros((0, 4), np.float32),
        "flags": np.array([True, False]),
    }
    with RunFolder(tmp_path, SETTINGS, {}, resume=False) as folder:
        folder.save(entry(1), arrays)
    with RunFolder(tmp_path, SETTINGS, {}, resume=True) as folder:
        for name, array in arrays.items():
            back = folder.checkpoint[1][name]
            assert (back.shape, back.dtype, back.tolist()) == (array.shape, array.dtype, array.tolist())


def test_two_writers_are_refused(tmp_path):
    path = written(tmp_path / "a")
    with RunFolder(path, SETTINGS, {}, resume=True), pytest.raises(RunFolderError, match="in use"):
        RunFolder(path, SETTINGS, {}, resume=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", b"{"),
        ("settings.json", b"[]"),
        ("checkpoint.safetensors", b"nonsense"),
        ("checkpoint.safetensors", b""),
        ("rounds.jsonl", b"{]\n{}\n{}\n"),
        ("rounds.jsonl", b""),
    ],
)
def test_a_broken_folder_gives_one_line(tmp_path, name, content):
    path = written(tmp_path / "a")
    (path / name).write_bytes(content)
    with pytest.raises(RunFolderError) as caught:
        RunFolder(path, SETTINGS, {}, resume=True)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_full_disk_gives_one_line_and_keeps_the_last_round(tmp_path, monkeypatch):
    path = tmp_path / "a"

    def full(file, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    with RunFolder(path, SETTINGS, {}, resume=False) as folder:
        folder.save(entry(1), {"parameters": np.ones(2)})
        with monkeypatch.context() as patch:
            patch.setattr(folder_module, "_replace", full)
            with pytest.raises(RunFolderError, match=r"No space left.*--resume"):
                folder.save(entry(2), {"parameters": np.ones(2)})
    with RunFolder(path, SETTINGS, {}, resume=True) as folder:
        assert folder.checkpoint[0] == 1
        assert len(folder.history) == 1


def test_a_place_that_holds_no_run_is_named(tmp_path):
    with pytest.raises(RunFolderError, match="no run in"):
        read_run(tmp_path)


def test_figures_to_a_target_count_the_first_round_that_reaches_it():
    history = [entry(1, 0.5), entry(2, None), entry(3, 0.9), entry(4, 0.7)]
    run = Run({"target": 0.8}, {}, history)
    assert run.rounds_to(0.8) == 3
    assert run.upload_bytes_to(0.8) == 30
    assert run.local_steps_to(0.95) is None
    assert run.final_accuracy == 0.7
    assert run.as_json()["rounds_to_target"] == 3
    assert (run.upload_bytes, run.download_bytes, run.local_steps, run.seconds) == (40, 80, 12, 2.0)
