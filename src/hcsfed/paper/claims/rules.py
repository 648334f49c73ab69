"""What the answers share: the forms of the scheme, the targets, and comparisons that may be missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hcsfed.paper import published
from hcsfed.paper.cells import same
from hcsfed.paper.preset import Experiment, Point
from hcsfed.paper.sample import Sample, agrees, final, order, points, rounds_to
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import Claim, Verdict

FORMS = {
    "hcsfed-published": "as published",
    "hcsfed": "better founded",
    "frontier": "frontier, ours",
}

TARGETS = {"mnist": 0.8, "fashion-mnist": 0.75, "cifar10": 0.3, "digits": 0.8}


def the_one(one: Experiment, **words: object) -> Point | None:
    found = points(one, **words)
    return found[0] if len(found) == 1 else None


def rounds_of(store: Store, point: Point | None, seeds: int, target: float | None = None) -> Sample:
    if point is None:
        return Sample({}, {}, seeds)
    return rounds_to(store, point, TARGETS[point.data] if target is None else target, seeds)


def less(a: Sample, b: Sample) -> bool | None:
    found = order(a, b)
    return None if found == "not measured" else found == "less"


def counted(found: Sequence[bool | None]) -> str:
    """In how many cells something holds, of those that were measured."""
    known = [holds for holds in found if holds is not None]
    missing = f", {len(found) - len(known)} not measured" if len(known) < len(found) else ""
    return f"{sum(known)} of {len(known)} cells{missing}"


def cells_of(one: Experiment, store: Store, seeds: int, *, rounds: bool) -> Iterator[Claim]:
    """How many of a table's cells our figures agree with, row by row."""
    rows: dict[str, list[bool]] = {}
    for p in one.points:
        cell = published.rounds(p, 0.8) if rounds else published.accuracy(p)
        if cell is None:
            continue
        if rounds:
            alike = same(rounds_to(store, p, 0.8, seeds), cell)
        else:
            alike = agrees(final(store, p, seeds), cell.value, cell.plus_minus, share=True)
        if alike is not None:
            rows.setdefault(f"{p.paper} is {p.method}", []).append(alike)
    for row, found in rows.items():
        verdict: Verdict = "reproduced" if all(found) else "not reproduced"
        yield Claim("the table's own cells", row, verdict, f"{sum(found)} of {len(found)} cells agree")
