"""Trackers: what was logged reads back, once a round, also after a break."""

import json
import socket

import pytest

import fake_runs as fake
from hcsfed.errors import RunFolderError, SettingError
from hcsfed.record.track import figures, following, needed, tracker

RUN = fake.run(rounds=12, eval_every=3)


@pytest.fixture(autouse=True)
def _own_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def scalars(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def break_and_go_on(name, folder):
    """Rounds 1–5; then a break; then, as a run taken up again does, the whole history, and on to the end."""
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        following(tracker(name, folder), RUN.settings, RUN.about, []) as log,
    ):
        for record in RUN.history[:5]:
            log(record)
        raise KeyboardInterrupt
    with following(tracker(name, folder), RUN.settings, RUN.about, RUN.history[:7]) as log:
        for record in RUN.history[7:]:
            log(record)


def expected(figure):
    return [(r["round"], r[figure]) for r in RUN.history if r[figure] is not None]


def test_tensorboard_reads_back_each_round_once(tmp_path):
    pytest.importorskip("tensorboard")
    break_and_go_on("tensorboard", tmp_path)
    told = scalars(tmp_path)
    for figure in ("loss", "accuracy", "train_loss", "upload_bytes", "local_steps"):
        assert [step for step, _ in told[figure]] == [step for step, _ in expected(figure)]
        assert [v for _, v in told[figure]] == pytest.approx([v for _, v in expected(figure)], rel=1e-6)
    assert told["total/upload_bytes"][-1] == (12, RUN.upload_bytes)
    assert len(told["seconds/train"]) == 12


def test_mlflow_reads_back_each_round_once_and_calls_nobody(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *who, **_: called.append(who) or [])
    monkeypatch.setattr(socket.socket, "connect", lambda _, where: called.append(where))
    pytest.importorskip("sqlalchemy")
    tracker("mlflow", tmp_path)  # switches telemetry off before mlflow is imported
    mlflow = pytest.importorskip("mlflow")
    folder = tmp_path / "a-run"
    break_and_go_on("mlflow", folder)
    assert called == []
    assert (tmp_path / "mlflow.db").exists()
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("hcsfed").experiment_id])
    assert (run.info.run_name, run.info.status) == ("a-run", "FINISHED")
    assert run.data.params["selector.name"] == "random"
    assert run.data.params["local.lr"] == "0.01"
    for figure in ("accuracy", "upload_bytes"):
        told = {m.step: m.value for m in client.get_metric_history(run.info.run_id, figure)}
        assert told == pytest.approx(dict(expected(figure)))
        assert len(client.get_metric_history(run.info.run_id, figure)) == len(expected(figure))
    assert run.data.metrics["total/local_steps"] == RUN.local_steps

    # A folder whose note speaks of a run that the store does not have is begun anew there, not refused.
    (folder / "mlflow.json").write_text(json.dumps({"run_id": "gone"}))
    with following(tracker("mlflow", folder), RUN.settings, RUN.about, RUN.history[:2]):
        pass
    assert len(client.search_runs([run.info.experiment_id])) == 2


def test_a_store_that_is_no_store_is_told_in_one_line(tmp_path):
    pytest.importorskip("sqlalchemy")
    (tmp_path / "mlflow.db").write_text("not a database, " * 100)
    with pytest.raises(RunFolderError, match=r"cannot write to the MLflow store 'sqlite:.*mlflow\.db'") as told:
        tracker("mlflow", tmp_path / "run").start(RUN.settings, RUN.about)
    assert "\n" not in str(told.value)


def test_what_is_not_a_number_is_not_logged():
    record = {**RUN.history[2], "loss": float("nan"), "accuracy": None}
    assert not {"loss", "accuracy"} & set(figures(record, {}))


def test_unknown_trackers_and_missing_packages_say_what_to_do(tmp_path):
    with pytest.raises(SettingError, match="did you mean 'mlflow'"):
        tracker("mlfow", tmp_path)
    with pytest.raises(SettingError, match=r"needs the package no_such_module; pip install 'hcsfed\[track\]'"):
        needed("no_such_module", "mlflow")
