"""Runs on a Ray cluster of two nodes, on loopback: none is lost, none is done twice, whatever dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import hcsfed
from hcsfed import on_ray
from hcsfed.cli.main import main
from hcsfed.errors import FolderInUseError, HcsfedError, SettingError
from hcsfed.grid import cells, crew, run_all
from hcsfed.paper.plan import plan
from hcsfed.paper.preset import experiments
from hcsfed.record import read_run
from hcsfed.settings import Settings, merge
from hcsfed.task import Task

ROUNDS, SEEDS, SELECTORS = 60, 2, ("random", "full")
TRAINING = {"model": "slow_model:net", "clients": 20, "cohort": 5, "steps": 3, "lr": 0.05, "rounds": ROUNDS}
FLAGS = [word for name, value in TRAINING.items() for word in (f"--{name}", str(value))]


@pytest.fixture(scope="module")
def slowly(tmp_path_factory):
    """While this file is there, a round takes half a second at least: time to break in, however busy the machine."""
    return tmp_path_factory.mktemp("slowly") / "slowly"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, slowly):
    """Two nodes of one core each; no file outside its own folder tells of it."""
    pytest.importorskip("ray")
    from ray._private import utils
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
        patch.setenv("SLOWLY", str(slowly))
        patch.setattr(utils, "write_ray_address", lambda *_: None)
        patch.setattr("ray._common.utils.reset_ray_address", lambda *_: None)
        own = tempfile.mkdtemp(prefix="hcsfed-ray-")  # pytest's own folders are too long for sockets
        node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 * 2**20}
        two = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False, "temp_dir": own})
        two.add_node(**node)
        yield two
        two.shutdown()
        shutil.rmtree(own, ignore_errors=True)


def compare(out: Path, address: str, *words: str) -> subprocess.Popen[str]:
    command = ["compare", "--selectors", ",".join(SELECTORS), "--seeds", str(SEEDS), *FLAGS, *words, "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "hcsfed", *command, "--out", str(out), "--on", f"ray:{address}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def lines(out: Path) -> dict[str, list[str]]:
    """What stands in each run's folder, line by line."""
    return {path.parent.name: path.read_text().splitlines() for path in out.glob("*/rounds.jsonl")}


def numbers(history) -> list[dict]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


def wait_for(condition, process, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def listening(session: int) -> list[str]:
    """Addresses at which this session's processes listen, as the kernel writes them."""
    inodes = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == session:
                inodes |= {os.readlink(file) for file in (process / "fd").iterdir()}
        except OSError:
            continue
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path("/proc/net", name).read_text().splitlines()[1:]]
    return [row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


def test_ctrl_c_then_a_node_killed_in_mid_run(cluster, slowly, tmp_path):
    """One story on one cluster, since a cluster takes seconds to start."""
    out = tmp_path / "c"
    slowly.touch()

    # Ctrl-C ends what is under way after its round, and begins nothing more.
    process = compare(out, cluster.address, "--jobs", "1")
    wait_for(lambda: len(lines(out).get("random-s0", [])) > 3, process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, "hcsfed: interrupted; what was finished is saved\n")
    (begun,) = lines(out)
    interrupted = lines(out)
    assert 3 < len(interrupted[begun]) < ROUNDS

    # A Ray of another version is told from the cluster's in one line.
    main = "import ray, sys; ray.__version__ = '0.0.1'; from hcsfed.cli.main import main; main()"
    words = ["compare", "--selectors", "random", "--on", f"ray:{cluster.address}", "--out", str(tmp_path / "v")]
    other = subprocess.run([sys.executable, "-c", main, *words], capture_output=True, text=True, timeout=600)
    assert (other.returncode, other.stderr.count("\n")) == (2, 1), other.stderr
    assert "0.0.1" in other.stderr

    # The same command goes on; a run is under way on each node when one of them dies.
    process = compare(out, cluster.address)
    wait_for(lambda: sum(5 < len(rounds) < ROUNDS - 5 for rounds in lines(out).values()) == 2, process)
    (other,) = cluster.worker_nodes
    cluster.remove_node(other, allow_graceful=False)
    killed = lines(out)
    slowly.unlink()
    printed, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (0, "")
    assert len(json.loads(printed)) == len(SELECTORS) * SEEDS

    whole = lines(out)
    for then in (interrupted, killed):
        for name, rounds in then.items():
            done = [line for line in rounds if line.endswith("}")][:-1]  # the last may be ahead of the checkpoint
            assert whole[name][: len(done)] == done, "a round done twice would have taken another time"
    for selector in SELECTORS:
        for seed in range(SEEDS):
            alone = hcsfed.simulate("digits", selector=selector, seed=seed, **TRAINING)
            assert numbers(read_run(out / f"{selector}-s{seed}").history) == numbers(alone.history)


def test_the_papers_experiments_run_there_too(cluster, tmp_path):
    out = tmp_path / "paper"
    words = ["paper", "clusters", "--quick", "--device", "cpu", "--on", f"ray:{cluster.address}", "--out", str(out)]
    done = subprocess.run([sys.executable, "-m", "hcsfed", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    cells = plan(experiments("clusters", quick=True), [0], device="cpu").cells
    assert len(cells) == 6
    assert all(len(read_run(out / cell.name).history) == cell.settings.rounds for cell in cells)
    Task(cells[0].settings.nested(), str(tmp_path / "alone")).do(lambda record: None)
    assert numbers(read_run(out / cells[0].name).history) == numbers(read_run(tmp_path / "alone").history)
    again = subprocess.run([sys.executable, "-m", "hcsfed", *words], capture_output=True, text=True, timeout=600)
    assert " 0 of them to do" in again.stderr


def test_a_ray_of_its_own_stays_on_loopback_and_leaves_nothing(tmp_path):
    pytest.importorskip("ray")
    process = compare(tmp_path / "c", "local", "--jobs", "1")
    wait_for(lambda: lines(tmp_path / "c"), process)
    addresses = listening(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=300)
    assert addresses
    assert {a[-8:] for a in addresses} == {"0100007F"}
    assert process.returncode == 130


@pytest.fixture
def small(tmp_path):
    given = {"partition.clients": 5, "cohort": 2, "rounds": 2, "local.steps": 1}
    return Task(merge(Settings(), given).nested(), str(tmp_path / "c" / "run"))


def place(tmp_path: Path) -> tuple[str, str]:
    """A folder's mark, as the sender leaves it, and where the command was given."""
    (tmp_path / "c").mkdir(exist_ok=True)
    mark = tmp_path / "c" / "mark"
    mark.touch()
    return str(mark), os.getcwd()


def test_a_folder_that_a_dead_node_s_worker_still_holds_is_waited_for(small, tmp_path, monkeypatch):
    mark, here = place(tmp_path)
    script = """
import fcntl, sys, time
lock = open(sys.argv[1], "w"); fcntl.flock(lock, fcntl.LOCK_EX); print("held", flush=True); time.sleep(600)
"""
    Path(small.folder).mkdir(parents=True)
    holder = subprocess.Popen([sys.executable, "-c", script, f"{small.folder}/lock"], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(FolderInUseError):
            on_ray.do(small.settings, small.folder, False, mark, here)  # somebody else's, not a dead worker's
        monkeypatch.setattr(on_ray, "PATIENCE", 0.5)
        with pytest.raises(FolderInUseError):
            on_ray.do(small.settings, small.folder, True, mark, here)
        monkeypatch.setattr(on_ray, "PATIENCE", 60.0)
        threading.Timer(0.5, holder.kill).start()
        assert on_ray.do(small.settings, small.folder, True, mark, here) is None
    finally:
        holder.kill()
        holder.wait()
    assert len(read_run(small.folder).history) == 2


def test_a_run_that_kills_every_worker_is_given_up_but_not_one_that_goes_on(small):
    first = on_ray._Try(small)
    second = first.next(RuntimeError("gone"))
    assert second.again
    third = second.next(RuntimeError("gone"))
    with pytest.raises(HcsfedError, match=r"died 3 times after round 0 \(gone\)"):
        third.next(RuntimeError("gone"))
    small.do(lambda record: None)
    assert third.next(RuntimeError("gone")).in_vain == 1


def test_a_node_that_does_not_see_the_folder_says_so(small, tmp_path):
    complaint = on_ray.do(small.settings, small.folder, False, str(tmp_path / "elsewhere" / "mark"), "/")
    assert "does not see the folder" in complaint
    assert "elsewhere" in complaint
    assert not Path(small.folder).exists()


def test_a_node_with_other_versions_says_so(small, tmp_path):
    class Here:  # in place of Ray: remote functions run where they are called
        @staticmethod
        def remote(**_):
            return lambda function: type("Remote", (), {"remote": staticmethod(function)})

    for versions, said in (({"numpy": "0.1"}, "this machine 0.1"), ({"no-such-package": "1"}, "no-such-package none")):
        complaint = on_ray._sender(Here, versions, str(tmp_path / "mark"))(on_ray._Try(small))
        assert said in complaint
    assert not Path(small.folder).exists()


@pytest.mark.parametrize("on", ["rays", "ray:", "processes:2", "", "slurm"])
def test_places_that_are_none(on):
    with pytest.raises(SettingError, match="must be processes, ray or ray:ADDRESS"):
        crew(on)


def test_addresses_that_do_not_answer(tmp_path):
    pytest.importorskip("ray")
    grid = cells(Settings(), ["random"], [0])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(HcsfedError, match=f"no answer from Ray at 127.0.0.1:{port}"):
        run_all(grid, tmp_path / "c", on=f"ray:127.0.0.1:{port}")
    with pytest.raises(HcsfedError, match="host:port"):
        run_all(grid, tmp_path / "c", on="ray:nowhere")
    assert not (tmp_path / "c").exists()


def test_a_ray_that_does_not_come_up_is_told_in_one_line(monkeypatch, tmp_path):
    ray = pytest.importorskip("ray")

    def init(**_):
        raise Exception("The node timed out\nduring startup.")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(HcsfedError, match=r"^no connection to Ray: The node timed out during startup\.$"):
        run_all(cells(Settings(), ["random"], [0]), tmp_path / "c", on="ray")


def test_without_ray_one_line_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ["hcsfed", "compare", "--selectors", "random", "--on", "ray", "--out", str(tmp_path / "c")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "hcsfed: this command needs ray; install it with: pip install 'hcsfed[ray]'\n"
    assert not (tmp_path / "c").exists()
