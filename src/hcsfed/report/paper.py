"""What the pictures in files share; those of the page take their colours from its style sheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hcsfed.errors import DataError, bad

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, FAINT = "#3d4852", "#d5dae0"
_FORMATS = (".svg", ".png", ".pdf")


def check_format(path: Path, owner: str) -> None:
    """Said before anything is computed."""
    if path.suffix.lower() not in _FORMATS:
        raise bad("out", owner, f"a file ending in {', '.join(_FORMATS)}", str(path))


def save(figure: Figure, path: Path) -> None:
    """Write a figure, without the time of day in it: the same numbers make the same file."""
    dated = {".svg": "Date", ".pdf": "CreationDate"}.get(path.suffix.lower())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata={dated: None} if dated else None)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
