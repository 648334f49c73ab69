"""A group's main measure as a dot with its interval, small enough for a table cell; all rows share one scale."""

from __future__ import annotations

import math

from hcsfed.report import svg
from hcsfed.report.axes import Scale
from hcsfed.report.summary import Row, Summary

WIDTH, HEIGHT = 132, 18


def whisker(summary: Summary, row: Row, index: int) -> str:
    """A dot at the mean, a bar over the interval, a tick per run; an arrow where runs missed the target."""
    measure = summary.measures[0]
    every = [r.estimates[measure.key] for r in summary.rows]
    known = [v for e in every for v in (*e.values, e.high, e.beyond) if not math.isnan(v)]
    x = Scale(0.0, max(known, default=1.0), 4, WIDTH - 8)
    e = row.estimates[measure.key]
    middle = HEIGHT / 2
    colour, _ = svg.style(index)
    parts = [svg.tag("line", x1=x.start, x2=x.end, y1=middle, y2=middle, class_="grid")]
    parts += [svg.tag("line", x1=x(v), x2=x(v), y1=middle - 4, y2=middle + 4, class_="seed") for v in e.values]
    if e.kind == "missed":
        at = x(e.beyond)
        parts.append(svg.tag("path", d=svg.path([(at - 5, middle - 4), (at + 1, middle), (at - 5, middle + 4)])))
    elif e.kind != "none":
        if e.kind != "single":
            parts.append(svg.tag("line", x1=x(e.low), x2=x(e.high), y1=middle, y2=middle, class_="span"))
        parts.append(svg.tag("circle", cx=x(e.mean), cy=middle, r=4, class_="dot"))
    return svg.tag(
        "svg",
        *parts,
        class_=f"whisker s{colour}",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        height=HEIGHT,
        aria_hidden="true",
    )
