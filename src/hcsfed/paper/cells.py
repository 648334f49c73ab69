"""Tables as plain rows that the terminal, Markdown and the page all take, and the words in their cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hcsfed.paper import published
from hcsfed.paper.sample import Sample, agrees, factor
from hcsfed.report.words import number

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A title, a head and rows of words; the first column is text, the others are figures, or ``words`` all of them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False

    def markdown(self) -> str:
        lines = [self.head, ["---", *["---" if self.words else "---:"] * (len(self.head) - 1)], *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def same(ours: Sample, cell: published.Cell) -> bool | None:
    """Whether a number of rounds is the paper's; of a target that it missed, whether ours missed it too."""
    if not ours.enough:
        return None
    if cell.censored:
        return ours.missed == ours.n
    return not ours.missed and bool(agrees(ours, cell.value, cell.plus_minus, share=False))


def rounds_text(s: Sample) -> str:
    if not s.n:
        return NOTHING
    return f"{s.mean:.1f}" if not s.missed else f"> {s.least - 1:.0f} ({s.missed} missed)"


def cell_text(cell: published.Cell) -> str:
    return f"{cell.value:g}{'+' if cell.censored else ''}"


def seeds_text(found: Sequence[Sample], seeds: int) -> str:
    """How many seeds stand behind the cells of a table."""
    counts = [s.n for s in found if s.n]
    least, most = min(counts, default=0), max(counts, default=0)
    return f"{least if least == most else f'{least} to {most}'} of {seeds} seeds"


def whole_text(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.0f}"


def plus_minus(s: Sample, times: float = 1.0) -> str:
    return NOTHING if math.isnan(s.spread) else f"{times * s.spread:.1f}"


def share(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{100 * value:.1f} %"


def cost_text(s: Sample, unit: Any) -> str:
    if not s.n:
        return NOTHING
    return number(s.mean, unit) if not s.missed else f"> {number(s.least, unit)}"


def factor_text(slow: Sample, quick: Sample) -> str:
    found = factor(slow, quick)
    if math.isnan(found):
        return NOTHING
    return f"{'> ' if slow.missed else ''}{found:.1f}"
