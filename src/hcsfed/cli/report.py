"""``hcsfed report``: runs → one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hcsfed.cli import flags as f
from hcsfed.errors import RunFolderError


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, or folders that hold some (as compare leaves them).")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    picture: f.PictureAt = None,
) -> None:
    """Put runs into one HTML file: figures, tables and settings, with nothing outside it.

    Runs that differ in nothing but the seed are shown as one, with an interval. Runs may still be going on.
    """
    from rich.console import Console

    from hcsfed.record import read_run
    from hcsfed.report import look_again, summarise, summary_table, write_page

    if out.is_dir():
        raise RunFolderError(f"report must be a file, got the folder {str(out)!r}; try {str(out / 'report.html')!r}")
    found = [read_run(folder) for folder in run_folders(runs)]
    started = [run for run in found if run.history]
    if not started:
        raise RunFolderError("no run to report has finished a round yet; wait for its first round")
    write_page(started, out, [] if picture is None else look_again(started, picture))
    console = Console()
    console.print(summary_table(summarise(started)))
    if len(started) < len(found):
        console.print(
            f"left out, no round yet: {', '.join(str(r.folder) for r in found if not r.history)}", soft_wrap=True
        )
    console.print(f"report: {out}", soft_wrap=True)


def run_folders(paths: list[Path]) -> list[Path]:
    """The runs at these places and, where a folder is none itself, below it; each once."""
    from hcsfed.record.folder import SETTINGS

    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise RunFolderError(f"no run in {str(path)!r}: there is no such folder")
        below = [path] if (path / SETTINGS).exists() else sorted(p.parent for p in path.rglob(SETTINGS))
        if not below:
            raise RunFolderError(f"no run in {str(path)!r}: neither it nor a folder below has a {SETTINGS}")
        found += below
    return list({path.resolve(): path for path in found}.values())
