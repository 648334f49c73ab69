"""Flower's own command line, asked for JSON: start a run, see how it stands, register and list nodes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hcsfed.errors import FederationError

SECONDS = 120  # for one call, which takes one on a quiet machine


@dataclass(frozen=True)
class Flwr:
    """``flwr`` with the environment that it runs in, and the name of the connection in its configuration."""

    environment: Mapping[str, str]
    connection: str = "federation"

    @classmethod
    def connect(cls, environment: Mapping[str, str], address: str, authority: Path | None) -> Flwr:
        """Write down in Flower's own folder how the server is reached."""
        trust = "insecure = true" if authority is None else f"root-certificates = {json.dumps(str(authority))}"
        home = Path(environment["FLWR_HOME"])
        home.mkdir(parents=True, exist_ok=True)
        text = f"[superlink.{cls.connection}]\naddress = {json.dumps(address)}\n{trust}\n"
        (home / "config.toml").write_text(text, encoding="utf-8")
        return cls(environment)

    def register(self, public_key: Path) -> str:
        """Let a node in; gives the id that it will have."""
        return str(self._ask("supernode", "register", str(public_key), self.connection)["node-id"])

    def nodes(self) -> dict[str, str]:
        """Node id → ``registered``, ``online``, ``offline``."""
        return {node["node-id"]: node["status"] for node in self._ask("supernode", "list", self.connection)["nodes"]}

    def run(self, app: Path, *, virtual: int = 0, config: Mapping[str, str | int | float | bool] | None = None) -> str:
        """Start an app, in Flower's simulation engine with so many ``virtual`` nodes; gives the id of the run."""
        words = ["--federation-config", f"num-supernodes={virtual} client-resources-num-cpus=1"] if virtual else []
        if config:
            words += ["--run-config", " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())]
        return str(self._ask("run", str(app), self.connection, *words)["run-id"])

    def status(self, run: str) -> str:
        """``pending``, ``starting``, ``running``, or ``finished:`` with ``completed``, ``failed`` or ``stopped``."""
        return str(self._ask("ls", self.connection, "--run-id", run)["runs"][0]["status"])

    def wait(self, run: str, seconds: float, look: Callable[[], bool]) -> None:
        """Wait until a run is completed; ``look``, called twice a second and at the end, says when that may be."""
        deadline, asked = time.monotonic() + seconds, time.monotonic()
        while True:
            if look() or time.monotonic() - asked > 10:
                status, asked = self.status(run), time.monotonic()
                if status == "finished:completed":
                    look()
                    return
                if status.startswith("finished"):
                    raise FederationError(f"the run ended as {status}: {self._last_words(run)}")
            if time.monotonic() > deadline:
                raise FederationError(f"the run was not over after {seconds:.0f} seconds")
            time.sleep(0.5)

    def _last_words(self, run: str) -> str:
        lines = [line.strip() for line in self.log(run).splitlines() if line.strip()]
        return lines[-1] if lines else "its log is empty"

    def log(self, run: str) -> str:
        """What the run's server app has printed so far."""
        return self._call("log", run, self.connection, "--show").stdout

    def _ask(self, *words: str) -> dict[str, Any]:
        done = self._call(*words, "--format", "json")
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            answer = {}
        if done.returncode or not answer.get("success"):
            said = answer.get("error-message") or done.stderr.strip() or done.stdout.strip() or "nothing"
            raise FederationError(f"`flwr {' '.join(words[:2])}` failed: {said.splitlines()[-1]}")
        return answer

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["flwr", *words], env=self.environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise FederationError(f"`flwr {' '.join(words[:2])}` did not answer within {SECONDS} seconds") from None
