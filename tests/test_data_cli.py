"""``hcsfed data``: list, fetch, show."""

import json

import pytest
from typer.testing import CliRunner

from hcsfed.cli.data import app
from hcsfed.data import DATASETS
from hcsfed.errors import HcsfedError


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_every_set_and_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HCSFED_DATA", str(tmp_path))
    monkeypatch.setattr("hcsfed.data.files.cache", lambda: tmp_path)
    output = call("list")
    assert all(name in output for name in DATASETS)
    assert "built in" in output
    assert "170.1 MB" in output
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare/input.txt").write_text("here")
    assert "1.1 MB" not in call("list")


def test_fetch_says_where_a_set_is(monkeypatch, tmp_path):
    assert call("fetch", "digits") == "digits: built in\n"
    with pytest.raises(HcsfedError, match="did you mean 'mnist'"):
        call("fetch", "mnits")


def test_show_prints_client_by_class():
    output = call("show", "--clients", "10", "--set", "partition.samples_per_client=20", "--rows", "3")
    assert (
        "digits, partition shard samples_per_client=20: 10 clients, 200 rows (20 to 20 each), 360 test rows" in output
    )
    lines = [line.split() for line in output.splitlines()]
    assert ["0", "20", "0.1", "20", *"·········"] in lines
    assert ["2", "20", "0.1", "·", "·", "20", *"·······"] in lines
    assert "7 more clients; --rows 10 lists all" in output
    heat = [line.split("│")[1] for line in output.splitlines() if "│" in line]
    assert heat == [" " * c + "█" + " " * (9 - c) for c in range(10)]


def test_clients_have_a_dotted_name_too():
    assert json.loads(call("show", "--set", "partition.clients=10", "--json"))["clients"] == 10


def test_show_draws_more_clients_than_fit_a_line():
    output = call(
        "show", "--data", "synthetic", "--clients", "500", "--set", "data.samples_per_client=5", "--rows", "0"
    )
    heat = [line.split("│")[1] for line in output.splitlines() if "│" in line]
    assert len(heat) == 10
    assert {len(line) for line in heat} == {100}  # five clients to a place


def test_show_without_classes_still_lists_sizes():
    assert "100 clients, 2,000 rows" in call("show", "--data", "quadratic")


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
@pytest.mark.parametrize("data", ["digits", "quadratic"])
def test_show_writes_a_picture(tmp_path, suffix, magic, data):
    pytest.importorskip("matplotlib")
    out = tmp_path / f"split.{suffix}"
    call("show", "--data", data, "--rows", "0", "--out", str(out))
    assert out.read_bytes().startswith(magic)


def test_show_as_json():
    shown = json.loads(call("show", "--clients", "10", "--json"))
    assert shown["sizes"] == [139] * 10
    assert shown["class_counts"][3] == [0, 0, 0, 139, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "digit"], "did you mean 'digits'"),
        (["--partition", "shards"], "did you mean 'shard'"),
        (["--set", "partition.alpha=3"], "unknown option of partition 'shard': 'alpha'"),
        (["--set", "local.lr=3"], "unknown setting of data show: 'local.lr'"),
        (["--set", "partition.name=iid"], "is what --partition is for"),
        (["--set", "alpha"], "key=value"),
        (["--rows", "-1"], "rows of data show must be an int >= 0, got -1"),
        (["--out", "split.doc"], "out of data show must be a file ending in .png"),
        (["--out", "no/such/split.png"], "cannot write no/such/split.png: No such file"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    if "no/such/split.png" in arguments:
        pytest.importorskip("matplotlib")
    with pytest.raises(HcsfedError, match=message) as caught:
        call("show", *arguments)
    assert "\n" not in str(caught.value)
