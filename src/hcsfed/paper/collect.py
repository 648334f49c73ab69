"""Run folders → the figures that tables need; and those that are shipped with the package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path

from hcsfed.errors import RunFolderError
from hcsfed.paper.plan import slug
from hcsfed.paper.store import Store, read
from hcsfed.record import Run, read_run
from hcsfed.record.folder import SETTINGS

MEASURED = "measured"


def collected(out: Path, command: Sequence[str] = ()) -> Store:
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
        "command": " ".join(["hcsfed", *command]),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "devices": ", ".join(sorted({str(run.about.get("device", "")) for run in runs.values()})),
    }
    return Store(runs, measured, about)


def stored() -> Store:
    """The figures of our own runs, as shipped."""
    with as_file(files("hcsfed.paper") / "results") as folder:
        return read(folder)
