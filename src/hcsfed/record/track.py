"""The figures of a run, to MLflow or to TensorBoard as well.

A tracker may be told of a round more than once: what it has already is left alone. So a run that is taken up again
tells its whole history, and neither doubles a step nor leaves out one that a crash kept from being written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from hcsfed.errors import SettingError, unknown

Status = Literal["finished", "failed", "interrupted"]
FIGURES = (
    *("loss", "accuracy", "train_loss", "upload_bytes", "download_bytes", "local_steps"),
    *("simulated_seconds", "server_bytes", "disk_bytes"),
)
TOTALS = ("upload_bytes", "download_bytes", "local_steps")
TRACKERS = {"mlflow": ("track_mlflow", "MLflow"), "tensorboard": ("track_tensorboard", "TensorBoard")}


class Tracker(Protocol):
    """Where figures go. ``start`` first, ``log`` once or more per round, ``close`` last."""

    def start(self, settings: Mapping[str, Any], about: Mapping[str, Any]) -> None: ...

    def log(self, record: Mapping[str, Any]) -> None: ...

    def close(self, status: Status) -> None: ...


def tracker(name: str, folder: Path) -> Tracker:
    """The tracker of that name for the run in ``folder``."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    module, made = TRACKERS[name]
    found: Tracker = getattr(import_module(f"hcsfed.record.{module}"), made)(folder)
    return found


@contextmanager
def following(
    tracker: Tracker, settings: Mapping[str, Any], about: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A tracker as a listener of the rounds to come, told of those that were; closed with how it ended."""
    tracker.start(settings, about)
    status: Status = "failed"
    try:
        for record in history:
            tracker.log(record)
        yield tracker.log
        status = "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        tracker.close(status)


def figures(record: Mapping[str, Any], totals: Mapping[str, int]) -> dict[str, float]:
    """What is logged of a round: its figures, what was spent so far, and the seconds of each stage."""
    known = {key: record.get(key) for key in FIGURES}
    known |= {f"total/{key}": value for key, value in totals.items()}
    known |= {f"seconds/{stage}": spent for stage, spent in record["seconds"].items()}
    known["answers"] = len(record["ids"])
    return {key: float(value) for key, value in known.items() if value is not None and math.isfinite(value)}


class Ledger:
    """Sums what was spent, each round once, in the order of the rounds."""

    def __init__(self) -> None:
        self.totals = dict.fromkeys(TOTALS, 0)
        self.round = 0

    def add(self, record: Mapping[str, Any]) -> bool:
        """Whether this round is new."""
        if record["round"] <= self.round:
            return False
        self.round = record["round"]
        for key in TOTALS:
            self.totals[key] += record[key]
        return True


def needed(module: str, tracker: str) -> None:
    """Say in one line how to get what is missing."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        raise SettingError(f"track {tracker!r} needs the package {module}; pip install 'hcsfed[track]'") from None


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings → dotted names."""
    out: dict[str, Any] = {}
    for key, value in settings.items():
        out |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return out
