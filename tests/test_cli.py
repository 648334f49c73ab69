"""The command line as a user meets it: exit codes, one line for what can be mended, one object under --json."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch

from hcsfed.cli.main import main

QUICK = ["--clients", "10", "--cohort", "3", "--steps", "2", "--rounds", "3", "--lr", "0.1"]


@pytest.fixture
def hcsfed(monkeypatch, tmp_path, capsys):
    """Call the command in this process; returns (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hcsfed", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_a_run_prints_a_summary_and_leaves_a_folder(hcsfed, tmp_path):
    code, out, err = hcsfed("run", *QUICK, "--target", "0.99")
    assert code == 0
    assert "not reached" in out
    assert err == "", "quiet when standard error is no terminal"
    (folder,) = (tmp_path / "runs").iterdir()
    assert sorted(p.name for p in folder.iterdir()) == [
        "checkpoint.safetensors",
        "lock",
        "rounds.jsonl",
        "settings.json",
    ]


def test_json_is_one_object_with_the_promised_keys(hcsfed):
    code, out, _ = hcsfed("run", *QUICK, "--target", "0.01", "--json")
    told = json.loads(out)
    assert code == 0
    assert set(told) == {
        "settings",
        "rounds",
        "rounds_to_target",
        "final_accuracy",
        "final_loss",
        "upload_bytes",
        "download_bytes",
        "local_steps",
        "server_bytes",
        "disk_bytes",
        "to_target",
        "seconds",
        "history",
    }
    assert told["rounds"] == len(told["history"]) == 3
    assert told["rounds_to_target"] == 1
    assert told["local_steps"] == 3 * 3 * 2
    assert told["to_target"] == {
        figure: told[figure] // 3 for figure in ("upload_bytes", "download_bytes", "local_steps")
    }
    assert told["settings"]["local"]["lr"] == 0.1


def test_file_flags_and_assignments_mean_the_same(hcsfed, tmp_path):
    (tmp_path / "a.toml").write_text(
        "rounds = 3\ncohort = 3\n"
        '[partition]\nname = "dirichlet"\nalpha = 0.5\nclients = 10\n'
        "[local]\nsteps = 2\nlr = 0.1\n"
    )
    runs = [
        hcsfed("run", "--config", "a.toml", "--json"),
        hcsfed("run", *QUICK, "--partition", "dirichlet", "--set", "partition.alpha=0.5", "--json"),
        hcsfed("run", "--config", "a.toml", "--lr", "9", "--set", "local.lr=0.1", "--json"),
    ]
    settings, accuracies = zip(
        *((t["settings"], t["final_accuracy"]) for t in (json.loads(r[1]) for r in runs)), strict=True
    )
    assert settings[0] == settings[1] == settings[2]
    assert len(set(accuracies)) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run --selector ranom", "did you mean 'random'"),
        ("run --data mnits", "did you mean 'mnist'"),
        ("run --partition dirichle", "did you mean 'dirichlet'"),
        ("run --model no.such:thing", "no.such"),
        ("run --model logistik", "did you mean 'logistic'"),
        ("run --cohort 0", "cohort"),
        ("run --cohort 1.5", "cohort"),
        ("run --cohort nan", "cohort"),
        ("run --cohort 101 --clients 100", "[1, 100]"),
        ("run --lr -1", "local.lr"),
        ("run --lr fast", "local.lr"),
        ("run --clients 0", "clients"),
        ("run --clients 5000", "clients"),
        ("run --set partition.alpa=1 --partition dirichlet", "did you mean 'alpha'"),
        ("run --set alpha", "key=value"),
        ("run --config none.toml", "none.toml"),
        ("run --config wrong.toml", "did you mean 'rounds'"),
        *([] if torch.cuda.is_available() else [("run --device cuda", "cuda")]),
        ("run --backend fast", "loop, batched"),
        ("run --track wandb", "mlflow"),
        ("run --resume", "--out"),
        ("run --algorithm fedprox --set algorithm.mu=much", "mu of algorithm 'fedprox'"),
        ("run --no-such-flag", "--no-such-flag"),
        ("compare --selectors random,ranom", "did you mean 'random'"),
        ("compare --selectors random --seeds 0", "seeds"),
        ("compare", "--selectors"),
        ("report no-such-run -o a.html", "no-such-run"),
        ("data show --data nope", "nope"),
        ("no-such-command", "no-such-command"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(hcsfed, tmp_path, words, told):
    (tmp_path / "wrong.toml").write_text("ronds = 3\n")
    code, out, err = hcsfed(*words.split())
    assert code == 2, err
    assert told in err
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "runs").exists(), "nothing was begun"


def test_a_warning_is_one_line_too(hcsfed, tmp_path, monkeypatch):
    (tmp_path / "branching.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, classes):\n"
        "        super().__init__()\n"
        "        self.out = nn.Linear(64, classes)\n"
        "    def forward(self, x):\n"
        "        return self.out(x.flatten(1)) if float(x.mean()) > 0 else self.out(-x.flatten(1))\n"
    )
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # given back afterwards
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = hcsfed("run", *QUICK, "--model", "branching:Net")
    assert code == 0
    assert err.startswith("hcsfed: clients are trained one after another: Net can't be trained for many at once")
    assert err.count("\n") == 1


def test_a_folder_with_other_settings_is_left_alone(hcsfed, tmp_path):
    assert hcsfed("run", *QUICK, "--out", "a")[0] == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()}
    code, _, err = hcsfed("run", *QUICK, "--seed", "5", "--out", "a", "--resume")
    assert code == 2
    assert "seed is 0 there, 5 here" in err
    code, _, err = hcsfed("run", *QUICK, "--out", "a")
    assert code == 2
    assert "--resume" in err
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()} == before


def test_divergence_is_one_line_and_exit_code_1(hcsfed):
    code, _, err = hcsfed("run", *QUICK[:-2], "--lr", "1e30", "--model", "mlp")
    assert code == 1
    assert "local.lr" in err
    assert err.count("\n") == 1


def test_compare_runs_all_writes_the_report_and_continues(hcsfed, tmp_path):
    words = ["compare", "--selectors", "random,full", "--seeds", "2", *QUICK, "--target", "0.2", "--out", "c", "--json"]
    code, out, err = hcsfed(*words)
    assert code == 0, err
    runs = json.loads(out)
    assert [(r["settings"]["selector"]["name"], r["settings"]["seed"]) for r in runs] == [
        ("random", 0),
        ("random", 1),
        ("full", 0),
        ("full", 1),
    ]
    assert (tmp_path / "c" / "report.html").exists()
    stamps = {p: p.stat().st_mtime_ns for p in tmp_path.glob("c/*/checkpoint.safetensors")}
    code, out, _ = hcsfed(*words[:-1])
    assert code == 0
    assert "random" in out
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("c/*/checkpoint.safetensors")} == stamps, (
        "nothing is run twice"
    )


def test_ctrl_c_ends_after_saving_with_exit_code_130(tmp_path):
    words = [sys.executable, "-m", "hcsfed", "run", *QUICK, "--rounds", "100000", "--out", str(tmp_path / "a")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ})
    rounds = tmp_path / "a" / "rounds.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (rounds.exists() and rounds.stat().st_size):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.count("\n") == 1
    assert "saved" in err
    lines = rounds.read_text().splitlines()
    assert json.loads(lines[-1])["round"] == len(lines)


def test_ctrl_c_in_compare_saves_what_runs_and_begins_nothing_more(tmp_path):
    words = ["compare", "--selectors", "random,full", "--seeds", "2", *QUICK, "--rounds", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hcsfed", *words, "--jobs", "1", "--out", str(tmp_path / "c")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    rounds = tmp_path / "c" / "random-s0" / "rounds.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (rounds.exists() and rounds.stat().st_size):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the children as well
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "hcsfed: interrupted; what was finished is saved\n"
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["random-s0"]
    lines = rounds.read_text().splitlines()
    assert json.loads(lines[-1])["round"] == len(lines)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_compare_killed_leaves_no_process_behind(tmp_path):
    words = ["compare", "--selectors", "random", "--seeds", "2", *QUICK, "--rounds", "100000", "--jobs", "2"]
    command = [sys.executable, "-m", "hcsfed", *words, "--out", str(tmp_path / "c")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)

    def left():
        stats = map(stat_of, Path("/proc").glob("[0-9]*"))
        return [stat for stat in stats if stat[3:4] == [str(process.pid)] and stat[0] != "Z"]

    def stat_of(folder):
        try:  # state, parent, group, session, …: after a name that may hold anything
            return [*(folder / "stat").read_text().rpartition(")")[2].split(), folder.name]
        except OSError:
            return []

    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not list(tmp_path.glob("c/*/rounds.jsonl")):
        time.sleep(0.05)
    assert len(left()) > 2
    process.kill()
    process.wait()
    while time.monotonic() < deadline and left():
        time.sleep(0.05)
    behind = left()
    for stat in behind:
        os.kill(int(stat[-1]), signal.SIGKILL)
    assert not behind
