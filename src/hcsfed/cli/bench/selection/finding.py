"""What a question of ``hcsfed bench select`` answers: a figure, the target that it is held against, and the spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hcsfed.cli.bench.figures import Spread


@dataclass(frozen=True)
class Finding:
    """A measured figure. ``seconds`` are the repeats that a time or a ratio of times comes from."""

    question: str
    what: str
    case: str
    value: float
    target: float | None = None
    kind: Literal["at most", "at least"] = "at most"
    note: str = ""
    seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """None where nothing was promised."""
        if self.target is None:
            return None
        return self.value <= self.target if self.kind == "at most" else self.value >= self.target


def turns(rivals: Mapping[str, Callable[[int], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of everyone's calls, who take turns, so that other load hits all alike. A first call is not counted."""
    for call in rivals.values():
        call(0)
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for repeat in range(repeats):
        for name, call in rivals.items():
            began = time.perf_counter()
            call(repeat)
            seconds[name].append(time.perf_counter() - began)
    return seconds


def ratio(seconds: Mapping[str, Sequence[float]], mine: str, theirs: str) -> float:
    """Best against best."""
    return Spread.of(seconds[mine]).best / Spread.of(seconds[theirs]).best
