"""Clients in the plane, on the page: what they have learned beside what a selector compares them by, for each selector.

The same picture as :func:`hcsfed.report.clusters.draw_clusters` makes in a file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import cos, pi, sin
from typing import Any

import numpy as np

from hcsfed.record import Run
from hcsfed.report import svg
from hcsfed.report.axes import Frame, Scale
from hcsfed.report.clusters import Scene, plane
from hcsfed.report.groups import group_runs
from hcsfed.report.words import count, number
from hcsfed.select import SELECTORS
from hcsfed.types import Floats, Ints

PANEL = Frame(420, 320, left=4, right=4, top=4, bottom=4)
MOST_MARKS = 1000  # beyond, marks hide each other and the page gets heavy


def look_again(runs: Sequence[Run], at: int) -> list[Scene]:
    """What each selector of the runs sees at round ``at`` (counted from 0) of full participation.

    The first run of each group stands for it, where its selector compares clients by features. Full participation is
    trained anew up to that round, once for all groups that differ in nothing but the selector.
    """
    from hcsfed.settings import Settings, merge
    from hcsfed.variance import looks
    from hcsfed.variants import Variant

    asked: dict[str, tuple[Settings, list[Variant]]] = {}
    for group in group_runs(runs):
        settings = dict(group.runs[0].settings)
        name, options = settings["selector"]["name"], {k: v for k, v in settings["selector"].items() if k != "name"}
        if "features" not in SELECTORS.build(name, **options).claims.needs:
            continue
        del settings["selector"]
        path = asked.setdefault(json.dumps(settings, sort_keys=True), (merge(Settings(), settings), []))
        path[1].append(Variant(group.label, name, options, {}))
    return [Scene.of(look) for settings, variants in asked.values() for look in looks(settings, variants, at)]


def scene_figures(scene: Scene, name: str) -> list[tuple[str, str, str]]:
    """Caption, picture and note of both halves: updates, then features."""
    halves = (("what they have learned", scene.updates), ("what is compared", scene.features))
    told = []
    for (words, x), half in zip(halves, ("updates", "features"), strict=True):
        points, shares = plane(x)
        note = f"{x.shape[1]:,} numbers each; across and up the first two principal components, "
        note += f"{number(float(shares[0]), 'share')} and {number(float(shares[1]), 'share')} of the scatter."
        told.append((words, _panel(scene, points, f"{name}-{half}", words), note))
    return told


def shown(scene: Scene) -> Ints:
    """Which clients are drawn: all, or of very many evenly some, and the picked."""
    n = len(scene.updates)
    if n <= MOST_MARKS:
        return np.arange(n)
    some = np.linspace(0, n - 1, MOST_MARKS).astype(np.int64)
    return np.unique(np.concatenate([some, scene.picked if scene.picked is not None else some[:0]]))


def _panel(scene: Scene, points: Floats, name: str, words: str) -> str:
    x, y = _scale(points[:, 0], PANEL.x), _scale(points[:, 1], PANEL.y)
    chances = np.full(len(points), 0.1) if scene.inclusion is None else scene.inclusion
    labels = np.zeros(len(points), np.int64) if scene.labels is None else scene.labels
    picked = set() if scene.picked is None else set(scene.picked.tolist())
    ids = shown(scene)
    marks, rings = [], []
    for k in ids[np.argsort(-chances[ids], kind="stable")].tolist():  # the larger ones first, so that none is hidden
        place, radius = (x(float(points[k, 0])), y(float(points[k, 1]))), _radius(float(chances[k]))
        marks.append(_mark(k, int(labels[k]), place, radius, _told(scene, k, k in picked)))
        if k in picked:
            rings.append(svg.tag("circle", cx=place[0], cy=place[1], r=radius + 3.5, class_="ring"))
    edge = svg.tag("rect", x=0, y=0, width=PANEL.width, height=PANEL.height, class_="edge")
    many = f"{count(int(labels.max()) + 1, 'cluster')}" if scene.labels is not None else "no clusters"
    description = f"{count(len(points), 'client')}, {many}, {count(len(picked), 'client')} picked."
    body = [edge, svg.tag("g", *marks, class_="marks"), *rings]
    return svg.figure(PANEL, name, f"Clients by {words}, as {scene.title} sees them", description, body)


def _scale(values: Floats, axis: Any) -> Scale:
    low, high = float(values.min()), float(values.max())
    room = 0.07 * (high - low) or 1.0
    scale: Scale = axis(low - room, high + room)
    return scale


def _radius(chance: float) -> float:
    """The area of a mark grows with π."""
    return float((9 + 55 * min(chance, 1.0)) ** 0.5)


def _told(scene: Scene, client: int, picked: bool) -> str:
    words = [f"client {client}"]
    if scene.labels is not None:
        words.append(f"cluster {scene.labels[client]}")
    if scene.inclusion is not None:
        words.append(f"π = {scene.inclusion[client]:.2g}")
    return ", ".join(words + ["picked"] * picked)


def _polygon(corners: int, turn: float, inner: float = 1.0) -> list[tuple[float, float]]:
    """Corners at distance 1 and ``inner`` by turns, the first of them straight up, turned by so many eighths."""
    radii = (1.0, inner) if inner < 1 else (1.0,)
    steps = corners * len(radii)
    angles = [2 * pi * i / steps - pi / 2 + turn * pi / 4 for i in range(steps)]
    return [(radii[i % len(radii)] * cos(a), radii[i % len(radii)] * sin(a)) for i, a in enumerate(angles)]


# After the circle: square, triangle, diamond, triangle upside down, pentagon, and stars of four and five points.
SHAPES: tuple[list[tuple[float, float]], ...] = (
    [],
    _polygon(4, 1),
    _polygon(3, 0),
    _polygon(4, 0),
    _polygon(3, 4),
    _polygon(5, 0),
    _polygon(4, 0, 0.35),
    _polygon(5, 0, 0.45),
)


def _mark(client: int, label: int, place: tuple[float, float], radius: float, words: str) -> str:
    """A client's mark: colour and shape say which cluster, the pair repeating only after 64."""
    colour = f"s{label % len(svg.PALETTE)}"
    corners = SHAPES[(label + label // len(svg.PALETTE)) % len(SHAPES)]
    title = svg.tag("title", words)
    if not corners:
        return svg.tag("circle", title, cx=place[0], cy=place[1], r=radius, class_=colour)
    path = svg.path((place[0] + 1.25 * radius * a, place[1] + 1.25 * radius * b) for a, b in corners) + "Z"
    return svg.tag("path", title, d=path, class_=colour)
