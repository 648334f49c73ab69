"""The peers: where their scripts are, and an environment for each, made on first use."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import hcsfed
from hcsfed.cli.bench.worker import Worker
from hcsfed.errors import HcsfedError


@dataclass(frozen=True)
class Peer:
    """One way of running a peer. Two ways of the same peer share its environment."""

    label: str
    folder: str
    env: dict[str, str] = field(default_factory=dict)


PEERS: dict[str, tuple[Peer, ...]] = {
    "flower": (Peer("Flower", "flower"),),
    "pfl": (
        Peer("pfl-research", "pfl"),
        Peer("pfl-research, 2 processes", "pfl", {"PEER_PROCESSES": "2"}),
    ),
    "fedjax": (Peer("FedJAX", "fedjax"),),
}


def scripts() -> Path | None:
    """The repository's ``benchmarks`` folder; it is not part of the installed package."""
    for root in (Path(hcsfed.__file__).parents[2], Path.cwd()):
        if (root / "benchmarks" / "protocol.py").is_file():
            return root / "benchmarks"
    return None


def home() -> Path:
    """Where the peers' environments and logs are kept."""
    given = os.environ.get("HCSFED_BENCH_HOME")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hcsfed" / "bench"


def environment(peer: Peer, benchmarks: Path) -> Path:
    """The Python of the peer's environment, which holds exactly what its requirements file pins."""
    requirements = benchmarks / "peers" / peer.folder / "requirements.txt"
    wanted = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    folder = home() / peer.folder
    python, stamp = folder / "bin" / "python", folder / "complete"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    log = home() / "logs" / f"{peer.folder}-install.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "-r", str(requirements)],
        ):
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode:
                raise HcsfedError(f"the environment of {peer.folder} could not be made; see {log}")
    stamp.write_text(wanted)
    return python


def launch(peer: Peer, benchmarks: Path, task: Path) -> Worker:
    """Start the peer on a task's folder; it speaks first."""
    python = environment(peer, benchmarks)
    script = benchmarks / "peers" / peer.folder / "peer.py"
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**peer.env, "PYTHONPATH": str(benchmarks), "FLWR_HOME": str(task / "flwr"), "PATH": path}
    log = home() / "logs" / f"{peer.label.replace(', ', '-').replace(' ', '-').lower()}.log"
    return Worker(peer.label, [str(python), str(script), str(task)], log, env)
