"""Run folders → the figures that tables need; and those that are shipped with the package."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from hcsfed.errors import RunFolderError
from hcsfed.paper.plan import Work, slug
from hcsfed.paper.store import Store, read
from hcsfed.record import Run, read_run
from hcsfed.record.folder import SETTINGS

MEASURED = "measured"


def collected(out: Path, command: str = "") -> Store:
    """Everything that stands in a folder of runs, also while they go on."""
    runs: dict[str, Run] = {}
    versions: dict[str, str] = {}
    for header in sorted(out.glob(f"*/{SETTINGS}")):
        try:
            run = read_run(header.parent)
        except RunFolderError:
            continue  # a run that began this moment
        if run.history:
            runs[slug(run.settings)] = run
            versions |= run.about.get("versions", {})
    measured = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((out / MEASURED).glob("*.json"))}
    about = {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "devices": ", ".join(sorted({str(run.about.get("device", "")) for run in runs.values()})),
    }
    return Store(runs, measured, about)


def finished(store: Store, work: Work, names: Collection[str]) -> Store:
    """What is fit to be kept: runs of these that went to their end, and measurements of these experiments."""
    whole = {cell.name for cell in work.cells if len(history(store, cell.name)) >= cell.settings.rounds}
    return Store(
        {name: run for name, run in store.runs.items() if name in whole},
        {name: figures for name, figures in store.measured.items() if name in names},
        store.about,
    )


def history(store: Store, name: str) -> Sequence[Mapping[str, Any]]:
    """What a run did round by round; nothing of one that is not there."""
    return store.runs[name].history if name in store.runs else ()


def stored() -> Store:
    """The figures of our own runs, as shipped."""
    with as_file(files("hcsfed.paper") / "results") as folder:
        return read(folder)
