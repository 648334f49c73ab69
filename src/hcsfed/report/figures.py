"""Quality against effort: the report's main figure, drawn for a wide and for a narrow page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hcsfed.report import svg
from hcsfed.report.axes import NARROW, WIDE, Frame, Scale, log_ticks, ticks
from hcsfed.report.curves import AXES, Axis, Curve, Quality
from hcsfed.report.words import NBSP, Unit, listing, number, round_in, tick

# Labels at the ends of this many lines can still be set apart.
MOST_LABELS = 10
LINE_HEIGHT = 15.0
# Total costs that differ by this factor are drawn on a logarithmic scale.
FAR_APART = 4.0


def curves_figure(
    curves: Sequence[Curve | None], axis: Axis, what: Quality, target: float | None, frame: Frame, name: str
) -> str:
    """One picture. A group keeps its colour and dash, given by its place in ``curves``, in all pictures of the page."""
    drawn = [(i, c) for i, c in enumerate(curves) if c is not None]
    title = f"{what.capitalize()} on the test set against {AXES[axis][0].lower()}"
    narrow = frame.width < 500
    y_ticks = ticks(*_span(curves, what, target), most=5)
    x = _across(frame, [c for _, c in drawn], axis)
    y = frame.y(y_ticks[0], y_ticks[-1])
    most = 4 if narrow else 8
    one = round_in(AXES[axis][1], x.high)
    low, high = x.low / one, x.high / one
    inside = log_ticks(low, high, most) if x.log else [t for t in ticks(0.0, high, most) if t <= high]
    x_ticks = [one * t for t in inside]
    body = [_axes(frame, x, y, x_ticks, y_ticks, axis, what)]
    body += [_series(i, c, x, y) for i, c in drawn]
    if target is not None and what == "accuracy" and y.low <= target <= y.high:
        body.append(_target(frame, y, target))
    if not narrow and 1 < len(drawn) <= MOST_LABELS:
        body.append(_end_labels(frame, drawn, x, y))
    body.append(svg.tag("g", class_="cursor"))
    edges = (
        frame.left,
        frame.width - frame.right,
        frame.top,
        frame.height - frame.bottom,
        x.low,
        x.high,
        y.low,
        y.high,
    )
    return svg.figure(
        frame,
        name,
        title,
        _in_words(drawn, what),
        body,
        class_=f"figure curves {'narrow' if narrow else 'wide'}",
        tabindex=0,
        data_axis=axis,
        data_scale="log" if x.log else "linear",
        data_frame=" ".join(f"{e:g}" for e in edges),
    )


def far_apart(drawn: Sequence[Curve], axis: Axis) -> bool:
    """Whether costs are to be compared by factors: on a straight scale the dearest would push the rest aside."""
    ends = [float(c.x[-1]) for c in drawn]
    return axis != "rounds" and len(ends) > 1 and max(ends) >= FAR_APART * min(ends) > 0


def _across(frame: Frame, drawn: Sequence[Curve], axis: Axis) -> Scale:
    most = max((float(c.x[-1]) for c in drawn), default=1.0)
    if far_apart(drawn, axis):
        return frame.x(min(float(c.x[c.x > 0][0]) for c in drawn), most, log=True)
    return frame.x(0.0, most)


def both_widths(curves: Sequence[Curve | None], axis: Axis, what: Quality, target: float | None, name: str) -> str:
    """The wide and the narrow drawing; the style sheet shows the one that fits, so text keeps its size."""
    return "".join(
        curves_figure(curves, axis, what, target, frame, f"{name}-{width}")
        for width, frame in (("wide", WIDE), ("narrow", NARROW))
    )


def readings(curves: Sequence[Curve | None]) -> list[dict[str, Any] | None]:
    """The numbers behind a figure, for the readout under the pointer."""

    def short(values: Any) -> list[float]:
        return [float(f"{v:.6g}") for v in values]

    return [
        None
        if c is None
        else {"x": short(c.x), "m": short(c.mean), "l": short(c.low), "h": short(c.high), "band": c.runs > 1}
        for c in curves
    ]


def _span(curves: Sequence[Curve | None], what: Quality, target: float | None) -> tuple[float, float]:
    lows = [float(c.low.min()) for c in curves if c is not None]
    highs = [float(c.high.max()) for c in curves if c is not None]
    if what == "accuracy" and target is not None:
        highs.append(target)
    low, high = min(lows, default=0.0), max(highs, default=1.0)
    if what == "accuracy":
        return max(0.0, low), min(1.0, high)
    # An interval of a wild start must not flatten everything else.
    means = [float(c.mean.max()) for c in curves if c is not None]
    return max(low, 0.0), min(high, 1.2 * max(means, default=1.0))


def _axes(
    frame: Frame, x: Scale, y: Scale, x_ticks: Sequence[float], y_ticks: Sequence[float], axis: Axis, what: Quality
) -> str:
    right, bottom = frame.width - frame.right, frame.height - frame.bottom
    unit: Unit = "share" if what == "accuracy" else "loss"
    lines = []
    for t in y_ticks:
        lines.append(svg.tag("line", x1=frame.left, x2=right, y1=y(t), y2=y(t), class_="grid"))
        lines.append(svg.text(_tick(t, unit, y_ticks), frame.left - 8, y(t) + 4, text_anchor="end", class_="tick"))
    for t in x_ticks:
        lines.append(svg.tag("line", x1=x(t), x2=x(t), y1=bottom, y2=bottom + 5, class_="axis"))
        label = _tick(t, AXES[axis][1], x_ticks)
        lines.append(svg.text(label, x(t), bottom + 18, text_anchor="middle", class_="tick"))
    lines.append(svg.tag("line", x1=frame.left, x2=right, y1=bottom, y2=bottom, class_="axis"))
    lines.append(svg.text(f"Test {what}", 0, 12, class_="label"))
    lines.append(
        svg.text(
            AXES[axis][0] + (", log scale" if x.log else ""), right, frame.height - 4, text_anchor="end", class_="label"
        )
    )
    return svg.tag("g", *lines, class_="axes", aria_hidden="true")


def _tick(value: float, unit: Unit, all_of_them: Sequence[float]) -> str:
    if unit == "share":
        whole = all(abs(100 * t - round(100 * t)) < 1e-6 for t in all_of_them)
        return f"{100 * value:.0f}%" if whole else f"{100 * value:.1f}%"
    if unit == "loss":
        return f"{value:g}"
    return tick(value, unit)


def _target(frame: Frame, y: Scale, target: float) -> str:
    place = y(target)
    return svg.tag(
        "g",
        svg.tag("line", x1=frame.left, x2=frame.width - frame.right, y1=place, y2=place, class_="target"),
        svg.text(f"target {100 * target:g}%", frame.left + 6, place - 6, class_="target-label"),
    )


def _series(i: int, c: Curve, x: Scale, y: Scale) -> str:
    colour, dash = svg.style(i)

    def inside(value: float) -> float:
        return y(min(max(value, y.low), y.high))

    places = [x(float(v)) for v in c.x]
    top = list(zip(places, (inside(v) for v in c.high), strict=True))
    under = list(zip(places, (inside(v) for v in c.low), strict=True))[::-1]
    line = svg.path(zip(places, (inside(v) for v in c.mean), strict=True))
    parts = [svg.tag("path", d=svg.path([*top, *under]) + "Z", class_="band")] if c.runs > 1 else []
    parts.append(svg.tag("path", d=line, class_="line", stroke_dasharray=dash or None))
    if len(places) == 1:
        parts.append(svg.tag("circle", cx=places[0], cy=inside(c.mean[0]), r=3, class_="dot"))
    return svg.tag("g", *parts, class_=f"series s{colour}", data_group=i)


def _end_labels(frame: Frame, drawn: Sequence[tuple[int, Curve]], x: Scale, y: Scale) -> str:
    """Each line's name at its end, pushed apart where they would touch, with a hair line to the end it belongs to."""
    ends = sorted((y(min(max(float(c.mean[-1]), y.low), y.high)), i, c) for i, c in drawn)
    places = spread([end for end, _, _ in ends], LINE_HEIGHT, frame.top, frame.height - frame.bottom)
    room = (frame.right - 22) / 6.6
    parts = []
    for (end, i, c), place in zip(ends, places, strict=True):
        colour, _ = svg.style(i)
        last, right = x(float(c.x[-1])), frame.width - frame.right
        label = c.label if len(c.label) <= room else c.label[: int(room) - 1] + "…"
        parts.append(
            svg.tag(
                "g",
                svg.tag("path", d=svg.path([(last + 3, end), (right + 4, end), (right + 14, place)]), class_="lead"),
                svg.text(label, right + 18, place + 4, class_="end-label"),
                class_=f"ending s{colour}",
                data_group=i,
            )
        )
    return svg.tag("g", *parts, class_="endings", aria_hidden="true")


def spread(places: Sequence[float], gap: float, top: float, bottom: float) -> list[float]:
    """Sorted places moved as little as a forward and a backward sweep need so that neighbours are ``gap`` apart."""
    out = list(places)
    for i in range(len(out)):
        out[i] = max(out[i], top if i == 0 else out[i - 1] + gap)
    for i in reversed(range(len(out))):
        out[i] = min(out[i], bottom if i == len(out) - 1 else out[i + 1] - gap)
    return out


def _in_words(drawn: Sequence[tuple[int, Curve]], what: Quality) -> str:
    unit: Unit = "share" if what == "accuracy" else "loss"
    ends = [f"{c.label} ends at {number(float(c.mean[-1]), unit).replace(NBSP, ' ')}" for _, c in drawn]
    return (listing(ends) if ends else "Nothing was evaluated") + "."
