"""Where things stand in a figure: round ticks, a linear scale, and frames for wide and narrow pages."""

from __future__ import annotations

import math
from dataclasses import dataclass


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten) that cover [low, high] in at most ``most`` steps."""
    if not high > low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


@dataclass(frozen=True)
class Scale:
    """A straight line from values to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


@dataclass(frozen=True)
class Frame:
    """Size and margins of a figure, in CSS pixels."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    def x(self, low: float, high: float) -> Scale:
        return Scale(low, high, self.left, self.width - self.right)

    def y(self, low: float, high: float) -> Scale:
        return Scale(low, high, self.height - self.bottom, self.top)


WIDE = Frame(880, 400, left=46, right=150, top=30, bottom=44)
NARROW = Frame(344, 300, left=40, right=12, top=28, bottom=40)
