"""The figures of a run as TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hcsfed.errors import RunFolderError
from hcsfed.record.track import Ledger, Status, figures, flat, needed


class TensorBoard:
    """To event files in the run's folder; look at them with ``tensorboard --logdir``."""

    def __init__(self, folder: Path) -> None:
        needed("tensorboard", "tensorboard")
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
            table += "\n".join(f"| {key} | {value} |" for key, value in flat(settings).items())
            self.writer.add_text("settings", table)

    def log(self, record: Mapping[str, Any]) -> None:
        step = record["round"]
        if not self.ledger.add(record) or step in self.logged:
            return
        for key, value in figures(record, self.ledger.totals).items():
            self.writer.add_scalar(key, value, step)

    def close(self, status: Status) -> None:
        self.writer.close()
