"""Numbers and settings as a reader wants to see them. Every figure in tables, axes and captions passes through here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

Unit = Literal["rounds", "bytes", "steps", "share", "loss", "seconds"]

NBSP = "\u00a0"
_THIN = "\u202f"
SPACES = (NBSP, _THIN)
MINUTES, HOURS = 90, 5400  # seconds from which on they are used
_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNTS = ("", "k", "M", "G", "T")


def _significant(value: float) -> str:
    """Three significant digits without an exponent: 12.0, 123, 0.0123."""
    if value == 0:
        return "0"
    # Rounded first: 0.9996 is 1.00, not 1.000.
    power = math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return f"{value:.{max(0, 2 - power)}f}"


def _scaled(value: float, names: Sequence[str]) -> str:
    power = 0
    # 999.5 would print as 1000 of the smaller unit.
    while abs(value) >= 999.5 and power < len(names) - 1:
        value, power = value / 1000, power + 1
    name = names[power]
    return _significant(value) + (NBSP + name if name else "")


def number(value: float, unit: Unit) -> str:
    """One value in its unit: ``12.3``, ``1.57 MB``, ``85.3 %``."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if unit == "bytes":
        return _scaled(value, _BYTES)
    if unit == "steps":
        return _scaled(value, _COUNTS)
    if unit == "share":
        return f"{100 * value:.1f}{_THIN}%"
    if unit == "rounds":
        return f"{value:.0f}" if value == round(value) else f"{value:.1f}"
    if unit == "seconds":
        return _seconds(value)
    return _significant(value)


def tick(value: float, unit: Unit) -> str:
    """A round number at an axis: without the noughts after its point."""
    digits, space, name = number(value, unit).partition(NBSP)
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + space + name


def round_in(unit: Unit, high: float) -> float:
    """Of what axes that go up to ``high`` count whole numbers: hours and minutes are no powers of ten of seconds."""
    if unit != "seconds" or high < MINUTES:
        return 1.0
    return 60.0 if high < HOURS else 3600.0


def _seconds(value: float) -> str:
    if value >= HOURS:
        return f"{value / 3600:.1f}{NBSP}h"
    if value >= MINUTES:
        return f"{value / 60:.1f}{NBSP}min"
    if value >= 1 or value == 0:
        return f"{_significant(value)}{NBSP}s"
    if value >= 1e-3:
        return f"{_significant(value * 1e3)}{NBSP}ms"
    return f"{_significant(value * 1e6)}{NBSP}µs"


def count(value: int, thing: str, plural: str = "") -> str:
    """``1 client``, ``2 clients``."""
    return f"{value:,} {thing if value == 1 else plural or thing + 's'}".replace(",", _THIN)


def setting(key: str, value: Any) -> str:
    """A setting in a label: its value alone where the key is a name or the value says it, else ``cohort 10``."""
    parts = key.split(".")
    text = plain(value)
    if parts[-1] == "name" or key in ("data", "model", "selector", "algorithm"):
        return text
    return f"{parts[-1].replace('_', ' ')}{NBSP}{text}"


def plain(value: Any) -> str:
    """A setting's value as text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(v) for v in value)
    return str(value)


def listing(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
