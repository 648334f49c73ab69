"""From seconds to verdicts: spreads, ratios and the targets that they are held against. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

OURS = "hcsfed"
VMAP = "hcsfed, vmap forced"
LOOP = "PyTorch loop"
SGEMM = "sgemm roofline"
ROUND = "hcsfed, whole round"

MODELS: dict[str, tuple[int, ...]] = {"logistic": (784, 10), "mlp": (784, 50, 10)}
"""Widths of the layers, for 28 × 28 images."""

Seconds = Mapping[str, Mapping[str, Sequence[float]]]
"""case → engine → the seconds of each repeat."""


@dataclass(frozen=True)
class Spread:
    """Of n repeats: the best is compared, the others say how much the machine moved."""

    best: float
    median: float
    worst: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        return cls(min(seconds), statistics.median(seconds), max(seconds))


def flops(widths: Sequence[int], rows: int) -> int:
    """Floating-point operations of plain SGD on ``rows`` rows in all, by the direct algorithm.

    Every layer multiplies rows by weights once forwards and once for the weights' gradient, every layer but the first
    once more to pass the error on; a multiplication of [a, b] by [b, c] is 2·a·b·c operations.
    """
    layers = list(pairwise(widths))
    return sum(2 * rows * ins * outs * (2 if i == 0 else 3) for i, (ins, outs) in enumerate(layers))


@dataclass(frozen=True)
class Target:
    """``engine`` shall be ``factor`` times as fast as ``against``, or take at most ``factor`` times as long."""

    case: str
    engine: str
    against: str
    factor: float
    kind: Literal["faster", "at most"] = "faster"


TARGETS = (
    Target("logistic", OURS, "Flower", 35),
    Target("logistic", OURS, "pfl-research", 25),
    Target("logistic", OURS, "FedJAX", 10),
    Target("logistic", OURS, SGEMM, 1.5, "at most"),
    Target("mlp", OURS, "Flower", 12),
    Target("mlp", OURS, "pfl-research", 12),
    Target("mlp", OURS, "FedJAX", 6),
    Target("mlp", VMAP, "pfl-research", 2.5),
    Target("cnn", OURS, SGEMM, 2, "at most"),
    Target("logistic", ROUND, OURS, 1.3, "at most"),
    Target("mlp", ROUND, OURS, 1.3, "at most"),
)


@dataclass(frozen=True)
class Verdict:
    """A target, what came, and whether that reaches it. ``against`` names the very configuration that was measured."""

    case: str
    engine: str
    against: str
    kind: Literal["faster", "at most"]
    factor: float
    ratio: float
    reached: bool


def verdicts(seconds: Seconds, targets: Sequence[Target] = TARGETS) -> Iterator[Verdict]:
    """Every target in every case where both sides were measured, by the best repeats.

    A peer that was run in several ways (``name``, ``name, how``) is answered in each of them.
    """
    for case, engines in seconds.items():
        for t in targets:
            if t.case != case.split(" ")[0] or t.engine not in engines:
                continue
            mine = Spread.of(engines[t.engine]).best
            for other in (name for name in engines if name == t.against or name.startswith(f"{t.against}, ")):
                if t.against == OURS and other != OURS:
                    continue
                theirs = Spread.of(engines[other]).best
                ratio = theirs / mine if t.kind == "faster" else mine / theirs
                reached = ratio >= t.factor if t.kind == "faster" else ratio <= t.factor
                yield Verdict(case, t.engine, other, t.kind, t.factor, ratio, reached)
