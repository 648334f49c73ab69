"""The figures of a run, to MLflow or to TensorBoard as well.

A tracker may be told of a round more than once: what it has already is left alone. So a run that is taken up again
tells its whole history, and neither doubles a step nor leaves out one that a crash kept from being written.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from hcsfed.errors import RunFolderError, SettingError, unknown

Status = Literal["finished", "failed", "interrupted"]
FIGURES = ("loss", "accuracy", "train_loss", "upload_bytes", "download_bytes", "local_steps")
TOTALS = ("upload_bytes", "download_bytes", "local_steps")
EXPERIMENT = "hcsfed"


class Tracker(Protocol):
    """Where figures go. ``start`` first, ``log`` once or more per round, ``close`` last."""

    def start(self, settings: Mapping[str, Any], about: Mapping[str, Any]) -> None: ...

    def log(self, record: Mapping[str, Any]) -> None: ...

    def close(self, status: Status) -> None: ...


def tracker(name: str, folder: Path) -> Tracker:
    """The tracker of that name for the run in ``folder``."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    return TRACKERS[name](folder)


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


class MLflow:
    """To an MLflow store: ``MLFLOW_TRACKING_URI`` where it is set, else the file mlflow.db beside the run's folder.

    The run's number in the store is kept in the run's folder, so that a run taken up again continues there.
    """

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("DO_NOT_TRACK", "true")
        needed("mlflow")
        self.folder = folder
        self.uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(folder.parent / 'mlflow.db').resolve()}"
        self.ledger = Ledger()
        self.logged: set[int] = set()

    def start(self, settings: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient

        # Setting up a store tells of some sixty migrations, one line each.
        for noisy in ("alembic", "mlflow.store.db.utils"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        self.folder.mkdir(parents=True, exist_ok=True)
        with _alone(self.folder.parent / "mlflow.lock"):
            self.client = MlflowClient(self.uri)
            self.run_id = self._run(settings, about)
        self.logged = {m.step for m in self.client.get_metric_history(self.run_id, "answers")}

    def _run(self, settings: Mapping[str, Any], about: Mapping[str, Any]) -> str:
        from mlflow.exceptions import MlflowException

        note = self.folder / "mlflow.json"
        if note.exists():
            run_id = str(json.loads(note.read_text("utf-8"))["run_id"])
            try:
                self.client.update_run(run_id, status="RUNNING")
            except MlflowException:
                pass  # the store was removed or is another one: begin anew there
            else:
                return run_id
        experiment = self.client.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            place = (self.folder.parent / "mlartifacts").resolve().as_uri() if self.uri.startswith("sqlite") else None
            number = self.client.create_experiment(EXPERIMENT, artifact_location=place)
        else:
            number = experiment.experiment_id
        tags = {f"version.{name}": str(value) for name, value in about.get("versions", {}).items()}
        made = self.client.create_run(number, run_name=self.folder.name, tags=tags)
        for key, value in _flat(settings).items():
            self.client.log_param(made.info.run_id, key, value)
        note.write_text(json.dumps({"run_id": made.info.run_id}), "utf-8")
        return str(made.info.run_id)

    def log(self, record: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        step = record["round"]
        if not self.ledger.add(record) or step in self.logged:
            return
        now = _milliseconds()
        told = [Metric(key, value, now, step) for key, value in figures(record, self.ledger.totals).items()]
        self.client.log_batch(self.run_id, metrics=told)

    def close(self, status: Status) -> None:
        ends = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
        self.client.set_terminated(self.run_id, status=ends[status])


class TensorBoard:
    """To event files in the run's folder; look at them with ``tensorboard --logdir``."""

    def __init__(self, folder: Path) -> None:
        needed("tensorboard")
        self.place = folder / "tensorboard"
        self.ledger = Ledger()
        self.logged: set[int] = set()

    def start(self, settings: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        known = self.place.is_dir() and any(self.place.iterdir())
        if known:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

            events = EventAccumulator(str(self.place), size_guidance={"scalars": 0}).Reload()
            if "answers" in events.Tags()["scalars"]:
                self.logged = {event.step for event in events.Scalars("answers")}
        try:
            self.writer = SummaryWriter(str(self.place), flush_secs=10)
        except OSError as error:
            raise RunFolderError(f"cannot write to {str(self.place)!r}: {error.strerror or error}") from error
        if not known:
            table = "| setting | value |\n|---|---|\n"
            table += "\n".join(f"| {key} | {value} |" for key, value in _flat(settings).items())
            self.writer.add_text("settings", table)

    def log(self, record: Mapping[str, Any]) -> None:
        step = record["round"]
        if not self.ledger.add(record) or step in self.logged:
            return
        for key, value in figures(record, self.ledger.totals).items():
            self.writer.add_scalar(key, value, step)

    def close(self, status: Status) -> None:
        self.writer.close()


TRACKERS: dict[str, type[MLflow] | type[TensorBoard]] = {"mlflow": MLflow, "tensorboard": TensorBoard}


def needed(module: str) -> None:
    """Say in one line how to get what is missing."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        raise SettingError(f"track {module!r} needs the package {module}; pip install 'hcsfed[track]'") from None


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in settings.items():
        out |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return out


def _milliseconds() -> int:
    import time

    return int(time.time() * 1000)


def _alone(path: Path) -> Any:
    """One process at a time: a new store is set up by whoever comes first, while parallel runs wait."""
    import fcntl
    from contextlib import contextmanager

    @contextmanager
    def held() -> Any:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    return held()
