"""The clients' classes: a client × class picture, clients ordered by the class that they hold most of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hcsfed.report import svg
from hcsfed.report.axes import Frame
from hcsfed.report.words import count, number, tick
from hcsfed.types import Floats, Ints

# More columns than this are narrower than a pixel on a phone; beyond it neighbours share a column.
MOST_COLUMNS = 200
SHADES = 9
SKYLINE = 34.0


@dataclass(frozen=True, eq=False)
class Columns:
    """What is drawn: the share of each class and the rows, per column; ``members`` are the clients of a column."""

    shares: Floats
    rows: Floats
    members: Sequence[Ints]

    @property
    def pooled(self) -> bool:
        return any(len(m) > 1 for m in self.members)


def columns(class_counts: Any, most: int = MOST_COLUMNS) -> Columns:
    """Order clients by dominant class, the purest first, and pool neighbours where there are more than ``most``."""
    counts = np.asarray(class_counts, np.float64)
    rows = counts.sum(1)
    shares = np.divide(counts, rows[:, None], out=np.zeros_like(counts), where=rows[:, None] > 0)
    order = np.lexsort((-shares.max(1), shares.argmax(1)))
    members = np.array_split(order, min(most, len(order)))
    return Columns(np.array([shares[m].mean(0) for m in members]), np.array([rows[m].mean() for m in members]), members)


def classes_figure(drawn: Columns, name: str, *, narrow: bool = False) -> str:
    """Columns of shades, with the clients' numbers of rows as a skyline on top."""
    n, classes = drawn.shares.shape
    cell = 20.0 if classes <= 12 else max(5.0, 240.0 / classes)
    total = 344 if narrow else 880
    frame = Frame(total, round(26 + SKYLINE + 8 + classes * cell + 28), left=26, right=2, top=26, bottom=28)
    width = (frame.width - frame.left - frame.right) / n
    ground = frame.top + SKYLINE + 8
    bottom = ground + classes * cell
    highest = float(drawn.rows.max(initial=0.0)) or 1.0
    body = [
        svg.text(f"Rows per client, at most {tick(highest, 'steps')}", frame.left, 14, class_="label"),
        svg.tag("path", d=_skyline(drawn.rows / highest, frame, width), class_="sky"),
    ]
    body += [
        svg.tag("path", d=d, class_="heat", fill_opacity=round((level + 1) / SHADES, 2))
        for level, d in _shades(drawn.shares, frame.left, ground, width, cell)
    ]
    body += [
        svg.text(str(c), frame.left - 7, ground + (c + 0.5) * cell + 4, text_anchor="end", class_="tick")
        for c in range(0, classes, max(1, round(14 / cell)))
    ]
    body += [
        svg.tag("rect", x=frame.left, y=ground, width=width * n, height=bottom - ground, class_="edge"),
        svg.text("Class", 0, bottom + 20, class_="label"),
        svg.text("Clients, by main class", frame.width - 2, bottom + 20, text_anchor="end", class_="label"),
    ]
    body += [
        svg.tag(
            "rect",
            svg.tag("title", _told(drawn, i)),
            x=frame.left + i * width,
            y=frame.top,
            width=width,
            height=bottom - frame.top,
            class_="pointed",
        )
        for i in range(n)
    ]
    words = (
        f"On average a client holds {number(float((drawn.shares > 0).sum(1).mean()), 'rounds')} of {classes} classes, "
        f"and {number(float(drawn.shares.max(1).mean()), 'share')} of its rows are of one class."
    )
    kind = f"figure classes {'narrow' if narrow else 'wide'}"
    return svg.figure(frame, name, "Classes held by each client", words, body, class_=kind)


def _shades(shares: Floats, left: float, top: float, width: float, cell: float) -> list[tuple[int, str]]:
    """One path per shade instead of one element per cell: the page stays small and quick."""
    # Of the root, so that small shares can still be seen.
    level = np.ceil(np.sqrt(shares) * SHADES - 1e-9).astype(int) - 1
    out = []
    for shade in range(SHADES):
        cells = "".join(
            f"M{left + i * width:.1f} {top + c * cell:.1f}h{width:.2f}v{cell:g}h-{width:.2f}z"
            for i, c in zip(*np.nonzero(level == shade), strict=True)
        )
        if cells:
            out.append((shade, cells))
    return out


def _skyline(heights: Floats, frame: Frame, width: float) -> str:
    ground = frame.top + SKYLINE
    steps = "".join(f"V{ground - SKYLINE * h:.1f}H{frame.left + (i + 1) * width:.1f}" for i, h in enumerate(heights))
    return f"M{frame.left} {ground:g}{steps}V{ground:g}Z"


def _told(drawn: Columns, i: int) -> str:
    members, shares = drawn.members[i], drawn.shares[i]
    who = f"client {members[0]}" if len(members) == 1 else f"{len(members)} clients, on average"
    top = np.argsort(-shares, kind="stable")[:3]
    held = ", ".join(f"class {c}: {number(float(shares[c]), 'share')}" for c in top if shares[c] > 0)
    return f"{who}: {count(round(float(drawn.rows[i])), 'row')}; {held}"


def class_counts_of(about: Mapping[str, Any]) -> list[list[int]] | None:
    """The table of a run, None where it was too large to be recorded or there are no classes."""
    counts = about.get("federation", {}).get("class_counts")
    return counts if counts and counts[0] else None
