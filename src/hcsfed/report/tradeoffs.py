"""Rounds to the target against what they cost: a dot a group, and the edge of what can be had."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from hcsfed.report import svg
from hcsfed.report.axes import Frame, Scale, log_ticks, ticks
from hcsfed.report.front import stairs
from hcsfed.report.summary import Estimate, Measure, Row, Summary
from hcsfed.report.words import NBSP, Unit, listing, round_in, tick

HALF = Frame(440, 340, left=40, right=14, top=30, bottom=44)
PHONE = Frame(344, 320, left=36, right=10, top=28, bottom=42)
LETTER, LINE = 7.4, 14.0  # a letter's width and a line's height, about, at the size of the labels
_ROOM = 1.25  # around the outermost dots
_FURTHEST = 3.0  # times a mean that its interval may stretch the picture


@dataclass(frozen=True)
class Box:
    """Where something stands."""

    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def inside(self, other: Box) -> bool:
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )


def tradeoffs(summary: Summary) -> list[tuple[str, str]]:
    """A title and a picture for each cost besides rounds; none where there are not two groups to compare."""
    rows = [(i, row) for i, row in enumerate(summary.rows) if _known(row, summary.costs)]
    if len(rows) < 2 or not any(row.front for row in summary.rows):
        return []
    rounds, *others = summary.costs
    return [
        (
            f"{rounds.title} against {cost.title.lower().removesuffix(' to target')}",
            "".join(
                tradeoff(rows, cost, rounds, frame, f"tradeoff-{cost.key}-{width}", width)
                for width, frame in (("wide", HALF), ("narrow", PHONE))
            ),
        )
        for cost in others
    ]


def left_out(summary: Summary) -> list[str]:
    """Groups that have no dot, as some run missed the target."""
    return [row.group.label for row in summary.rows if not _known(row, summary.costs)]


def _known(row: Row, costs: Sequence[Measure]) -> bool:
    return bool(costs) and all(row.estimates[m.key].mean > 0 for m in costs)


def tradeoff(rows: Sequence[tuple[int, Row]], across: Measure, up: Measure, frame: Frame, name: str, width: str) -> str:
    """One picture. ``rows`` come with the numbers by which the page colours them."""
    pairs = [(row.estimates[across.key], row.estimates[up.key]) for _, row in rows]
    x = frame.x(*_span([e for e, _ in pairs]), log=True)
    y = frame.y(*_span([e for _, e in pairs]), log=True)
    edge = stairs([e.mean for e, _ in pairs], [e.mean for _, e in pairs], x.high, y.high)
    front = svg.tag("path", d=svg.path((x(a), y(b)) for a, b in edge), class_="front")
    dots = [_dot(i, row, *pair, x, y, across, up) for (i, row), pair in zip(rows, pairs, strict=True)]
    places = [(x(a.mean), y(b.mean)) for a, b in pairs]
    labels = _labels(rows, places, frame)
    on = [row.group.label for (_, row), (a, b) in zip(rows, pairs, strict=True) if (a.mean, b.mean) in edge]
    words = f"On the edge: {listing(on)}. " + " ".join(
        f"{row.group.label}: {a.text(across.unit)} and {b.text(up.unit)} rounds.".replace(NBSP, " ")
        for (_, row), (a, b) in zip(rows, pairs, strict=True)
    )
    title = f"{up.title} against {across.title.lower()}"
    body = [_axes(frame, x, y, across, up), front, *dots, *labels]
    return svg.figure(frame, name, title, words, body, class_=f"figure tradeoff {width}")


def _span(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """From below the least to beyond the most, intervals included as far as they don't push the rest aside."""
    low = min(e.mean if math.isnan(e.low) else max(e.low, e.mean / _FURTHEST) for e in estimates)
    high = max(e.mean if math.isnan(e.high) else min(e.high, e.mean * _FURTHEST) for e in estimates)
    return low / _ROOM, high * _ROOM


def _axes(frame: Frame, x: Scale, y: Scale, across: Measure, up: Measure) -> str:
    right, bottom = frame.width - frame.right, frame.height - frame.bottom
    lines = []
    for t in marks(y.low, y.high, 6, up.unit):
        lines.append(svg.tag("line", x1=frame.left, x2=right, y1=y(t), y2=y(t), class_="grid"))
        lines.append(svg.text(tick(t, up.unit), frame.left - 6, y(t) + 4, text_anchor="end", class_="tick"))
    for t in marks(x.low, x.high, 5, across.unit):
        lines.append(svg.tag("line", x1=x(t), x2=x(t), y1=frame.top, y2=bottom, class_="grid"))
        lines.append(svg.text(tick(t, across.unit), x(t), bottom + 16, text_anchor="middle", class_="tick"))
    lines.append(svg.tag("line", x1=frame.left, x2=right, y1=bottom, y2=bottom, class_="axis"))
    lines.append(svg.text(f"{up.title}, log scale", 0, 12, class_="label"))
    lines.append(svg.text(f"{across.title}, log scale", right, frame.height - 4, text_anchor="end", class_="label"))
    return svg.tag("g", *lines, class_="axes", aria_hidden="true")


def marks(low: float, high: float, most: int, unit: Unit) -> list[float]:
    """Powers of ten and their halves and fifths; where the axis is too short for them, evenly spaced numbers."""
    one = round_in(unit, high)
    low, high = low / one, high / one
    found = log_ticks(low, high, most)
    if len(found) < 3:
        found = [t for t in ticks(low, high, most) if low <= t <= high]
    return [t * one for t in found]


def _dot(i: int, row: Row, a: Estimate, b: Estimate, x: Scale, y: Scale, across: Measure, up: Measure) -> str:
    """A dot at both means, a bar along each interval, the figures under the pointer."""
    colour, _ = svg.style(i)
    place = {"x": x(a.mean), "y": y(b.mean)}
    told = ", ".join(
        f"{m.title.lower()} {e.text(m.unit)}" + (f" ({e.interval(m.unit)})" if e.interval(m.unit) else "")
        for e, m in ((b, up), (a, across))
    )
    parts = [svg.tag("title", escape(f"{row.group.label}: {told}"))]
    for e, scale, along, other in ((a, x, "x", "y"), (b, y, "y", "x")):
        if e.interval("loss"):
            ends = [scale(min(max(v, scale.low), scale.high)) for v in (e.low, e.high)]
            at = {f"{along}1": ends[0], f"{along}2": ends[1], f"{other}1": place[other], f"{other}2": place[other]}
            parts.append(svg.tag("line", class_="span", **at))
    shape = {"cx": place["x"], "cy": place["y"], "r": 5}
    parts.append(svg.tag("circle", class_="dot" if row.front else "dot behind", **shape))
    return svg.tag("g", *parts, class_=f"series s{colour}")


def _labels(rows: Sequence[tuple[int, Row]], places: Sequence[tuple[float, float]], frame: Frame) -> list[str]:
    """Each name beside its dot, where it covers neither a dot nor another name."""
    whole = Box(frame.left, frame.width - 2, frame.top - 8, frame.height - frame.bottom)
    taken = [Box(x - 6, x + 6, y - 6, y + 6) for x, y in places]
    parts = []
    for (i, row), (x, y) in zip(rows, places, strict=True):
        label = row.group.label
        for left, down in _around():
            long = LETTER * len(label)
            start = x - 10 - long if left else x + 10
            box = Box(start, start + long, y + down - LINE / 2, y + down + LINE / 2)
            if box.inside(whole) and not any(box.meets(other) for other in taken):
                break
        else:
            continue  # the name stands under the pointer and in the table
        taken.append(box)
        colour, _ = svg.style(i)
        anchor = "end" if left else "start"
        near = x - 8 if left else x + 8
        lead = svg.path([(x, y), (near, y + down)])
        parts.append(
            svg.tag(
                "g",
                svg.tag("path", d=lead, class_="lead") if abs(down) > LINE else "",
                svg.text(label, x - 10 if left else x + 10, y + down + 4, text_anchor=anchor, class_="end-label"),
                class_=f"ending s{colour}",
                aria_hidden="true",
            )
        )
    return parts


def _around() -> Iterator[tuple[bool, float]]:
    """Places to try for a name: off the bars to the right and to the left, then further and further off."""
    for step in (0.8, 0.0, 1.8, 2.8, 3.8, 4.8):
        for left in (False, True):
            yield left, -step * LINE
            yield left, step * LINE
