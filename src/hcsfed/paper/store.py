"""The figures of many runs in one small file of text: what the tables are made from, with or without the runs.

A line says when and with what, then one line per run (what it was told beyond the defaults, test accuracy after each
round, bytes and steps of each round), then one per measurement that is no run. Accuracies are in ten-thousandths.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from math import gcd
from pathlib import Path
from typing import Any

from hcsfed.errors import DataError
from hcsfed.paper.plan import slug, told
from hcsfed.record import Run
from hcsfed.settings import Settings, merge

COSTS = ("upload_bytes", "download_bytes", "local_steps")


@dataclass(frozen=True)
class Store:
    """Runs by the slug of their settings, measurements by name, and what is said of all of them."""

    runs: Mapping[str, Run] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    _slugs: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def find(self, settings: Settings) -> Run | None:
        """The run of these settings, as far as it has come and no further than they ask."""
        words = repr(settings)  # much is asked of the same settings, and a slug is slow to find
        if words not in self._slugs:
            self._slugs[words] = slug(settings)
        run = self.runs.get(self._slugs[words])
        if run is None or not run.history:
            return None
        return Run(run.settings, run.about, run.history[: settings.rounds], run.folder)


def together(stores: Iterable[Store]) -> Store:
    """One store of several; of a run that stands in more than one the longest counts."""
    runs: dict[str, Run] = {}
    measured: dict[str, Any] = {}
    about: list[Mapping[str, Any]] = []
    for store in stores:
        for name, run in store.runs.items():
            if name not in runs or len(run.history) > len(runs[name].history):
                runs[name] = run
        measured |= store.measured
        about.append(store.about)
    joined = {
        key: ", ".join(dict.fromkeys(str(a[key]) for a in about if a.get(key))) for key in {k for a in about for k in a}
    }
    return Store(runs, measured, joined)


def write(path: Path, store: Store) -> None:
    """Write a file that :func:`read` reads."""
    lines: list[dict[str, Any]] = [{"about": dict(store.about)}]
    lines += [_of_run(run) for _, run in sorted(store.runs.items()) if run.history]
    lines += [{"measured": name, "figures": figures} for name, figures in sorted(store.measured.items())]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def read(path: Path) -> Store:
    """The figures of a file, or of all files of a folder."""
    if path.is_dir():
        return together(read(file) for file in sorted(path.glob("*.jsonl")))
    runs: dict[str, Run] = {}
    measured: dict[str, Any] = {}
    about: dict[str, Any] = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if "measured" in record:
                measured[record["measured"]] = record["figures"]
            elif "run" in record:
                run = _as_run(record)
                runs[slug(run.settings)] = run
            else:
                about |= record["about"]
    except OSError as error:
        raise DataError(f"cannot read the figures {str(path)!r}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{str(path)!r} holds no figures of the paper's experiments: {error}") from error
    return Store(runs, measured, about)


def _of_run(run: Run) -> dict[str, Any]:
    return {
        "run": told(run.settings),
        "engine": run.about.get("engine", ""),
        "device": run.about.get("device", ""),
        "accuracy": [None if r["accuracy"] is None else round(1e4 * r["accuracy"]) for r in run.history],
        "seconds": round(run.seconds, 1),
        **{cost: _packed([r[cost] for r in run.history]) for cost in COSTS},
    }


def _as_run(record: Mapping[str, Any]) -> Run:
    accuracy = record["accuracy"]
    costs = {cost: _unpacked(record[cost]) for cost in COSTS}
    seconds = record["seconds"] / max(len(accuracy), 1)
    history = [
        {
            "round": t + 1,
            "accuracy": None if a is None else a / 1e4,
            "loss": None,
            "seconds": {"all": seconds},
            **{cost: each[t] for cost, each in costs.items()},
        }
        for t, a in enumerate(accuracy)
    ]
    settings = merge(Settings(), record["run"], {"rounds": max(len(history), 1)}).nested()
    return Run(settings, {"engine": record["engine"], "device": record["device"]}, history)


def _packed(values: Sequence[int]) -> dict[str, Any]:
    """Multiples of a unit; equal ones in a row as [value, times]."""
    unit = reduce(gcd, values, 0) or 1
    runs = [(value // unit, len(list(same))) for value, same in groupby(values)]
    return {"unit": unit, "of": [value if times == 1 else [value, times] for value, times in runs]}


def _unpacked(packed: Mapping[str, Any]) -> list[int]:
    pairs = [each if isinstance(each, list) else [each, 1] for each in packed["of"]]
    return [packed["unit"] * value for value, times in pairs for _ in range(times)]
