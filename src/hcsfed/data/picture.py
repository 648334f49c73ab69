"""Who holds what, drawn: clients across, classes up, the darker the larger the class's share of the client."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hcsfed.errors import DataError, bad
from hcsfed.types import Federation

_FORMATS = (".png", ".svg", ".pdf")
_MOST = 1000  # clients that can be told apart; more are drawn in groups


def names(federation: Federation) -> list[str]:
    """What classes are called, where the set says so."""
    if "alphabet" in federation.about:
        return [repr(character) for character in federation.about["alphabet"]]
    return [str(name) for name in federation.about.get("class_names", range(federation.classes))]


def draw(federation: Federation, path: Path) -> None:
    """Write the picture of what each client holds, under its number of rows, into a file."""
    if path.suffix.lower() not in _FORMATS:
        raise bad("out", "data show", f"a file ending in {', '.join(_FORMATS)}", str(path))
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError("drawing needs matplotlib (pip install 'hcsfed[report]')") from error
    many = federation.clients
    edges = np.linspace(0, many, min(many, _MOST) + 1).astype(int)
    per_client = np.diff(edges)
    sizes = np.add.reduceat(federation.sizes, edges[:-1]) / per_client
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    if federation.classes:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(1, 3))
        counts = np.add.reduceat(federation.class_counts, edges[:-1])
        image = bottom.imshow(
            (counts / counts.sum(axis=1, keepdims=True)).T,
            aspect="auto",
            origin="lower",
            interpolation="nearest",
            cmap="Blues",
            vmin=0,
            extent=(-0.5, many - 0.5, -0.5, federation.classes - 0.5),
        )
        bottom.set(xlabel="client", ylabel="class")
        if federation.classes <= 20:
            bottom.set_yticks(range(federation.classes), names(federation))
        figure.colorbar(image, ax=bottom, label="share of the client's labels")
    else:
        top = figure.subplots()
        top.set_xlabel("client")
    top.fill_between(edges - 0.5, np.append(sizes, sizes[-1]), step="post", color="#4878a8", linewidth=0)
    top.set(ylabel="rows", ylim=(0, None), xlim=(-0.5, many - 0.5))
    top.set_title(f"{federation.name}, {many:,} clients, partition {federation.about['partition']['name']}")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
