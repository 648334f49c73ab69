"""Clients in the plane: what the server clusters, beside what the clients have really learned (the paper's Fig. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.report.paper import FAINT, INK, save
from hcsfed.report.svg import PALETTE
from hcsfed.types import Floats, Ints

if TYPE_CHECKING:
    from hcsfed.variance import Look

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")


@dataclass(frozen=True, eq=False)
class Scene:
    """One selector's eyes at one round.

    Parameters
    ----------
    title
        Whose they are.
    updates, features
        A row per client: what it has learned, and the short vector that the server compares.
    labels
        Its cluster; None where the selector makes none.
    inclusion
        Its probability to be picked.
    picked
        The cohort of one draw.
    """

    title: str
    updates: NDArray[Any]
    features: NDArray[Any]
    labels: Ints | None = None
    inclusion: Floats | None = None
    picked: Ints | None = None

    @classmethod
    def of(cls, look: Look) -> Scene:
        """What :func:`hcsfed.variance.looks` gives for a selector that compares clients by features."""
        x, made = look.view.features, look.selection
        return cls(
            look.selector,
            look.updates,
            look.updates if x is None else x,
            made.info.get("labels"),
            made.inclusion,
            made.ids,
        )


def plane(x: NDArray[Any]) -> tuple[Floats, Floats]:
    """The rows by their first two principal components, and the shares of the scatter that these hold."""
    rows = np.asarray(x, np.float64)
    rows = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    values = np.maximum(values[::-1], 0)
    points = vectors[:, ::-1][:, :2] * np.sqrt(values[:2])
    # The sign of a component is free: the farthest client stands to the right, or above.
    points *= np.where(points[np.abs(points).argmax(axis=0), np.arange(points.shape[1])] < 0, -1, 1)
    wide = np.zeros((len(rows), 2))
    wide[:, : points.shape[1]] = points
    return wide, np.resize(values / max(values.sum(), np.finfo(float).tiny), 2)


def draw_clusters(scenes: Sequence[Scene], title: str, path: Path) -> None:
    """A row a scene: updates left, features right, the same colours, shapes and sizes in both.

    Colour and shape are the cluster that was found on the features, the area of a mark is the inclusion probability,
    a ring means picked. Where the compression keeps apart what is apart, colours hold together on the left too.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(8.4, 0.9 + 3.5 * len(scenes)), layout="constrained")
    rows = figure.subplots(len(scenes), 2, squeeze=False)
    for scene, row in zip(scenes, rows, strict=True):
        kinds = (("whole updates", scene.updates), (f"features of {scene.title}", scene.features))
        for panel, (what, x) in zip(row, kinds, strict=True):
            points, shares = plane(x)
            _marks(panel, scene, points)
            size = f"{x.shape[1]:,} numbers each"
            panel.set_title(f"{what}, {size}", fontsize=10, color=INK, loc="left")
            panel.set_xlabel(f"1st component, {100 * shares[0]:.0f} % of the scatter", fontsize=8, color=INK)
            panel.set_ylabel(f"2nd, {100 * shares[1]:.0f} %", fontsize=8, color=INK)
            panel.set_xticks([])
            panel.set_yticks([])
            panel.margins(0.08)
            panel.spines[:].set_color(FAINT)
    grey: dict[str, Any] = {"linestyle": "", "color": "#9aa5b1", "marker": "o"}
    handles = [
        Line2D([], [], label=f"π = {p:g}", markersize=_area(p) ** 0.5, markeredgewidth=0, alpha=0.8, **grey)
        for p in (0.05, 0.2, 1.0)
    ]
    ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.3, "markersize": 9}
    handles.append(Line2D([], [], label="picked in one draw", **(grey | ring)))
    figure.legend(handles=handles, loc="outside lower right", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    save(figure, path)


def _marks(panel: Any, scene: Scene, points: Floats) -> None:
    n = len(points)
    pi = np.full(n, 0.1) if scene.inclusion is None else scene.inclusion
    labels = np.zeros(n, np.int64) if scene.labels is None else scene.labels
    for h in np.unique(labels):
        # The larger ones first, so that none is hidden.
        ids = np.flatnonzero(labels == h)
        ids = ids[np.argsort(-pi[ids])]
        mark = _MARKERS[(h + h // len(PALETTE)) % len(_MARKERS)]
        colour = PALETTE[h % len(PALETTE)][0]
        panel.scatter(*points[ids].T, _area(pi[ids]), colour, mark, alpha=0.75, linewidths=0.4, edgecolors="white")
    if scene.picked is not None:
        ids = scene.picked
        panel.scatter(*points[ids].T, _area(pi[ids]) + 60, "none", edgecolors=INK, linewidths=1.3)


def _area(pi: Any) -> Any:
    return 12 + 150 * pi
