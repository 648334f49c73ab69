"""The figures of a run in an MLflow store."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hcsfed.errors import RunFolderError
from hcsfed.record.track import Ledger, Status, figures, flat, needed

EXPERIMENT = "hcsfed"
MOST_WAITING = 900


class MLflow:
    """To an MLflow store: ``MLFLOW_TRACKING_URI`` where it is set, else the file mlflow.db beside the run's folder.

    The run's number in the store is kept in the run's folder, so that a run taken up again continues there.
    """

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("DO_NOT_TRACK", "true")
        for module in ("mlflow", "sqlalchemy"):
            needed(module, "mlflow")
        self.folder = folder
        self.uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(folder.parent / 'mlflow.db').resolve()}"
        self.ledger = Ledger()
        self.waiting: list[Any] = []
        self.flushed = 0.0

    def start(self, settings: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient

        # Setting up a store tells of some sixty migrations, one line each.
        for noisy in ("alembic", "mlflow.store.db.utils"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        self.folder.mkdir(parents=True, exist_ok=True)
        with _one_line(self.uri), _alone(self.folder.parent / "mlflow.lock"):
            self.client = MlflowClient(self.uri)
            self.run_id = self._run(settings, about)
            self.logged = {m.step for m in self.client.get_metric_history(self.run_id, "answers")}

    def _run(self, settings: Mapping[str, Any], about: Mapping[str, Any]) -> str:
        from mlflow.entities import Param
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
        run_id = str(self.client.create_run(number, run_name=self.folder.resolve().name, tags=tags).info.run_id)
        self.client.log_batch(run_id, params=[Param(key, str(value)) for key, value in flat(settings).items()])
        note.write_text(json.dumps({"run_id": run_id}), "utf-8")
        return run_id

    def log(self, record: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        step = record["round"]
        if not self.ledger.add(record) or step in self.logged:
            return
        now = time.time()
        told = figures(record, self.ledger.totals)
        self.waiting += [Metric(key, value, int(now * 1000), step) for key, value in told.items()]
        # A transaction takes longer than many a round, so they share one. MLflow takes 1,000 figures at a time.
        if now > self.flushed + 1 or len(self.waiting) > MOST_WAITING:
            self._flush()

    def _flush(self) -> None:
        with _one_line(self.uri):
            self.client.log_batch(self.run_id, metrics=self.waiting)
        self.waiting, self.flushed = [], time.time()

    def close(self, status: Status) -> None:
        self._flush()
        ends = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
        with _one_line(self.uri):
            self.client.set_terminated(self.run_id, status=ends[status])


@contextmanager
def _one_line(uri: str) -> Iterator[None]:
    """What the store refuses, in one line."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise RunFolderError(f"cannot write to the MLflow store {uri!r}: {reason}") from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: a new store is set up by whoever comes first, while parallel runs wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
