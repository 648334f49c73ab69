"""A run as it can be read back, finished or still going on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RoundRecord = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What a run was told (``settings``), what it ran on (``about``), and one record per round (``history``)."""

    settings: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[RoundRecord] = ()
    folder: Path | None = None

    def rounds_to(self, target: float) -> int | None:
        """The first round after which the test accuracy stood at ``target`` or above; None when it never did."""
        for record in self.history:
            if record["accuracy"] is not None and record["accuracy"] >= target:
                return int(record["round"])
        return None

    def total(self, figure: str, to: float | None = None) -> int | None:
        """The sum of ``upload_bytes``, ``download_bytes`` or ``local_steps``, to the first round at accuracy ``to``."""
        rounds = len(self.history) if to is None else self.rounds_to(to)
        return None if rounds is None else sum(record[figure] for record in self.history[:rounds])

    @property
    def upload_bytes(self) -> int:
        return self.total("upload_bytes") or 0

    @property
    def download_bytes(self) -> int:
        return self.total("download_bytes") or 0

    @property
    def local_steps(self) -> int:
        return self.total("local_steps") or 0

    def upload_bytes_to(self, target: float) -> int | None:
        return self.total("upload_bytes", target)

    def local_steps_to(self, target: float) -> int | None:
        return self.total("local_steps", target)

    @property
    def simulated_seconds(self) -> float | None:
        """How long the rounds would have taken, all together; None where there was no clock."""
        return self._clock(len(self.history))

    def simulated_seconds_to(self, target: float) -> float | None:
        return self._clock(self.rounds_to(target))

    def _clock(self, rounds: int | None) -> float | None:
        if not rounds:
            return None
        times = [record.get("simulated_seconds") for record in self.history[:rounds]]
        return None if None in times else float(sum(time for time in times if time is not None))

    @property
    def server_bytes(self) -> int | None:
        """The most that the server kept in memory between two rounds; None in runs that did not write it down."""
        return self._most("server_bytes")

    @property
    def disk_bytes(self) -> int | None:
        """The most that lay in files, of rows per client."""
        return self._most("disk_bytes")

    def _most(self, figure: str) -> int | None:
        return max((record[figure] for record in self.history if figure in record), default=None)

    @property
    def seconds(self) -> float:
        """Time spent in rounds, all stages together."""
        return sum(sum(record["seconds"].values()) for record in self.history)

    @property
    def final_accuracy(self) -> float | None:
        """Of the last round evaluated: never the best on the test set."""
        return self._last("accuracy")

    @property
    def final_loss(self) -> float | None:
        return self._last("loss")

    @property
    def epsilon(self) -> float | None:
        """ε that noisy features have cost whoever sent them most often; None where there is no noise."""
        return self.history[-1].get("epsilon") if self.history else None

    def _last(self, figure: str) -> float | None:
        known = (record[figure] for record in reversed(self.history) if record[figure] is not None)
        return next(known, None)

    def as_json(self) -> dict[str, Any]:
        """The object that ``hcsfed run --json`` prints."""
        target = self.settings.get("target") or None
        clock = {} if self.simulated_seconds is None else {"simulated_seconds": self.simulated_seconds}
        return {
            "settings": dict(self.settings),
            "rounds": len(self.history),
            "rounds_to_target": None if target is None else self.rounds_to(target),
            "final_accuracy": self.final_accuracy,
            "final_loss": self.final_loss,
            "upload_bytes": self.upload_bytes,
            "download_bytes": self.download_bytes,
            "local_steps": self.local_steps,
            "server_bytes": self.server_bytes,
            "disk_bytes": self.disk_bytes,
            **clock,
            "to_target": None if target is None or self.rounds_to(target) is None else self._spent_to(target),
            "seconds": self.seconds,
            "history": list(self.history),
        }

    def _spent_to(self, target: float) -> dict[str, float | None]:
        """What the way to a target cost."""
        counted = ("upload_bytes", "download_bytes", "local_steps")
        seconds = self.simulated_seconds_to(target)
        return {figure: self.total(figure, target) for figure in counted} | (
            {} if seconds is None else {"simulated_seconds": seconds}
        )

    def __repr__(self) -> str:
        name = self.settings.get("selector", {}).get("name", "?")
        accuracy = "not evaluated" if self.final_accuracy is None else f"accuracy {self.final_accuracy:.4f}"
        return f"Run({name}, {len(self.history)} rounds, {accuracy}, {self.upload_bytes:,} bytes up)"

    def _repr_html_(self) -> str:
        from hcsfed.report.notebook import html

        return html(self)
