"""A run's folder: ``settings.json``, ``rounds.jsonl`` (append-only) and ``checkpoint.safetensors``.

The order of writing makes it safe to kill the process at any moment: a round's line is appended, then the checkpoint is
replaced in one step. A folder whose last line is cut off, or is one round ahead of the checkpoint, is set back to the
checkpoint; at most the round under way is lost. No pickle anywhere.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import FolderInUseError, RunFolderError
from hcsfed.record.run import RoundRecord, Run
from hcsfed.settings import Settings

SETTINGS, ROUNDS, CHECKPOINT, LOCK = "settings.json", "rounds.jsonl", "checkpoint.safetensors", "lock"
Arrays = dict[str, NDArray[Any]]


@contextmanager
def _told(path: Path, doing: str) -> Iterator[None]:
    """Whatever the operating system refuses, in one line."""
    try:
        yield
    except RunFolderError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.ENOSPC:
            reason += "; free some space and run again with --resume"
        raise RunFolderError(f"cannot {doing} {str(path)!r}: {reason}") from error


class RunFolder:
    """One writer's hold on a folder. Use as a context manager; readers need :func:`read_run` only."""

    def __init__(self, path: Path, settings: Mapping[str, Any], about: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self.history: list[RoundRecord] = []
        self.checkpoint: tuple[int, Arrays] | None = None
        header = {"settings": settings, "about": about}
        with _told(path, "use the run folder"):
            if path.exists() and not path.is_dir():
                raise RunFolderError(f"run folder {str(path)!r} is a file; give --out another place")
            if path.is_dir() and not (path / SETTINGS).exists() and _foreign(path):
                raise RunFolderError(f"run folder {str(path)!r} holds other files; give --out a new or empty folder")
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / LOCK).open("w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderInUseError(f"run folder {str(path)!r} is in use by another process") from None
            if (path / SETTINGS).exists():
                self._take_up(settings, about, resume)
            else:
                _replace(path / SETTINGS, json.dumps(header, indent=1).encode())
            self._rounds = (path / ROUNDS).open("a", encoding="utf-8")

    def _take_up(self, settings: Mapping[str, Any], about: Mapping[str, Any], resume: bool) -> None:
        header = _header(self.path)
        there, wanted = header["settings"], json.loads(json.dumps(settings))
        # What the run was not told it had by default, as a setting that is younger than the run.
        usual = _dotted(json.loads(json.dumps(Settings().nested())))
        told, asked = ({**usual, **_dotted(settings)} for settings in (there, wanted))
        for key in asked | told:
            if key != "rounds" and told.get(key) != asked.get(key):
                raise RunFolderError(
                    f"run folder {str(self.path)!r} holds a run with other settings: "
                    f"{key} is {_shown(told, key)} there, {_shown(asked, key)} here; give --out another folder"
                )
        # Data and models that were given as objects are not in the settings.
        for key, what in (("federation", "federation"), ("dimension", "model")):
            here = json.loads(json.dumps(about.get(key)))
            if key in about and header["about"].get(key, here) != here:
                raise RunFolderError(
                    f"run folder {str(self.path)!r} holds a run with another {what}; give --out another folder"
                )
        if not resume:
            raise RunFolderError(f"run folder {str(self.path)!r} holds this run already; continue it with --resume")
        self.checkpoint = _read_checkpoint(self.path / CHECKPOINT)
        done = self.checkpoint[0] if self.checkpoint else 0
        self.history = _lines(self.path / ROUNDS)[:done]
        if len(self.history) < done:
            raise RunFolderError(
                f"run folder {str(self.path)!r} is broken: {ROUNDS} has {len(self.history)} rounds, "
                f"the checkpoint {done}; start again with another --out"
            )
        if wanted["rounds"] < done:
            raise RunFolderError(
                f"run folder {str(self.path)!r} holds {done} rounds already; "
                f"rounds must be an int ≥ {done}, got {wanted['rounds']}"
            )
        _replace(self.path / ROUNDS, "".join(_line(record) for record in self.history).encode())
        if there["rounds"] != wanted["rounds"]:
            header["settings"]["rounds"] = wanted["rounds"]
            _replace(self.path / SETTINGS, json.dumps(header, indent=1).encode())

    def save(self, record: RoundRecord, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a finished round: its line first, then the state after it."""
        from safetensors.numpy import save

        with _told(self.path, "write to the run folder"):
            self._rounds.write(_line(record))
            self._rounds.flush()
            contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
            _replace(self.path / CHECKPOINT, save(contiguous, {"round": str(record["round"])}))

    def close(self) -> None:
        # What could not be flushed was reported by `save` already.
        with suppress(OSError):
            self._rounds.close()
        self._lock.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a run back, also while it goes on: lines that are not whole yet are left for the next reading."""
    folder = Path(path)
    with _told(folder, "read the run folder"):
        if not (folder / SETTINGS).exists():
            raise RunFolderError(f"no run in {str(folder)!r}: it has no {SETTINGS}")
        header = _header(folder)
        return Run(header["settings"], header["about"], _lines(folder / ROUNDS), folder)


def _foreign(path: Path) -> bool:
    """Whether a folder without settings holds more than what a run leaves that was stopped while it began."""
    return any(file.name not in (LOCK, f"{SETTINGS}.part") for file in path.iterdir())


def _header(folder: Path) -> dict[str, Any]:
    try:
        header = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        return {"settings": header["settings"], "about": header["about"]}
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"run folder {str(folder)!r} is broken: {SETTINGS} is not readable ({error})") from error


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names under which they are given."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= {f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, Mapping) else {key: value}
    return flat


def _shown(settings: Mapping[str, Any], key: str) -> str:
    return repr(settings[key]) if key in settings else "not given"


def _line(record: RoundRecord) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _lines(path: Path) -> list[RoundRecord]:
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise RunFolderError(f"{str(path)!r} is broken at line {len(records) + 1}: {error}") from error
    return records


def _read_checkpoint(path: Path) -> tuple[int, Arrays] | None:
    if not path.exists():
        return None
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return int(file.metadata()["round"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{str(path)!r} is broken: {error}; start again with another --out") from error


def _replace(path: Path, content: bytes) -> None:
    """Write beside, then rename: a reader or a restart sees the old content or the new, never half of it."""
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(content)
    os.replace(beside, path)
