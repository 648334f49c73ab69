"""A process that answers one JSON line with another: how competitors wait for their turn without computing."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hcsfed.errors import HcsfedError


class WorkerError(HcsfedError):
    """The process ended, or stayed silent."""


class Worker:
    """Started in a session of its own, so that whatever it starts ends with it. Its error stream goes to ``log``."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name, self.log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                text=True,
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def hear(self, timeout: float) -> dict[str, Any]:
        """The next line."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise WorkerError(f"{self.name} said nothing for {timeout:g} s; see {self.log}") from None
        if line is None:
            raise WorkerError(f"{self.name} ended ({self._last_words()}); see {self.log}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "without a word"

    def ask(self, request: Mapping[str, Any], timeout: float = 300) -> dict[str, Any]:
        """One request, one answer."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it ended; hear() says so
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
        return self.hear(timeout)

    def close(self, patience: float = 20) -> None:
        """End its input, give it time to tidy up, then end it and what it started."""
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
