"""The few words of SVG that the figures use. Colours and fonts come from the page's style sheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from hcsfed.report.axes import Frame

# Colour-blind safe, and 4.5 : 1 against the page in the light (first) and in the dark (second). The order keeps
# neighbours apart in lightness as well as in hue; dashes tell them apart without any colour.
PALETTE = (
    ("#0b5fae", "#6cb2f7"),
    ("#b8480a", "#f79a5c"),
    ("#04735a", "#3fc9a2"),
    ("#8b3a8b", "#d996d9"),
    ("#7a5f00", "#e0c04a"),
    ("#3d4852", "#b6c0ca"),
    ("#b3174f", "#ff8fae"),
    ("#2f6f78", "#86cfd9"),
)
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2 1 2", "12 4", "1 2", "6 2 1 2 1 2")


def style(index: int) -> tuple[int, str]:
    """Colour number and dash of the i-th series; the pair repeats only after 64."""
    colour = index % len(PALETTE)
    return colour, DASHES[(index + index // len(PALETTE)) % len(DASHES)]


def tag(name: str, *children: str, **attributes: Any) -> str:
    """An element; ``class_`` and ``stroke_width`` become ``class`` and ``stroke-width``, None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_place(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(children)
    return f"<{name}{written}>{inner}</{name}>" if inner or name in ("g", "text") else f"<{name}{written}/>"


def text(words: str, x: float, y: float, **attributes: Any) -> str:
    return tag("text", escape(words), x=x, y=y, **attributes)


def path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_place(x)} {_place(y)}" for x, y in points)


def figure(frame: Frame, name: str, title: str, description: str, body: Sequence[str], **attributes: Any) -> str:
    """An SVG picture with a name and a description for those who don't see it. ``name`` is unique on the page."""
    attributes = {"class_": "figure", "role": "img", **attributes}
    return tag(
        "svg",
        tag("title", escape(title), id=f"{name}-title"),
        tag("desc", escape(description), id=f"{name}-desc"),
        *body,
        viewBox=f"0 0 {frame.width} {frame.height}",
        width=frame.width,
        height=frame.height,
        aria_labelledby=f"{name}-title {name}-desc",
        **attributes,
    )


def _place(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def swatch(index: int) -> str:
    """A piece of the i-th series' line, for legends."""
    colour, dash = style(index)
    line = tag("line", x1=1, x2=29, y1=6, y2=6, class_="line", stroke_dasharray=dash or None)
    return tag("svg", line, class_=f"swatch s{colour}", viewBox="0 0 30 12", width=30, height=12, aria_hidden="true")
