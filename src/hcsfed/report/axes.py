"""Where things stand in a figure: round ticks, scales, and frames for wide and narrow pages."""

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


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """1, 2, 5 times powers of ten within [low, high], or fewer of them: at most ``most``."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        inside = [m * 10.0**p for p in powers for m in steps if low <= m * 10.0**p <= high]
        if len(inside) <= most:
            return inside
    return inside[:: -(-len(inside) // most)]


@dataclass(frozen=True)
class Scale:
    """From values to places: a straight line, or one over the logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)


@dataclass(frozen=True)
class Frame:
    """Size and margins of a figure, in CSS pixels."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    def x(self, low: float, high: float, *, log: bool = False) -> Scale:
        return Scale(low, high, self.left, self.width - self.right, log)

    def y(self, low: float, high: float, *, log: bool = False) -> Scale:
        return Scale(low, high, self.height - self.bottom, self.top, log)


WIDE = Frame(880, 400, left=46, right=150, top=30, bottom=44)
NARROW = Frame(344, 300, left=40, right=12, top=28, bottom=40)
