"""Table 1: 10.7 times fewer rounds, fewest everywhere, less communication; and Tables 3 and 4, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hcsfed.paper import published
from hcsfed.paper.cells import factor_text, rounds_text
from hcsfed.paper.claims.rules import FORMS, TARGETS, cells_of, counted, less, rounds_of, the_one
from hcsfed.paper.preset import Experiment, Point
from hcsfed.paper.sample import Sample, factor, near_factor, points, spent_to
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import Claim, of_all, of_two


def table1(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    yield from _speedup(one, store, seeds)
    yield from _fewer_everywhere(one, store, seeds)
    yield from _fewer_bytes(one, store, seeds)
    yield from cells_of(one, store, seeds, rounds=True)


def _speedup(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """10.7 times fewer rounds than Random on MNIST, a tenth of the clients."""
    at = {"data": "mnist", "q": 0.1}
    shrunk, random = (rounds_of(store, the_one(one, method=m, **at), seeds) for m in ("random-shrunk", "random"))
    theirs = {p.paper: cell.value for p in points(one, **at) if (cell := published.rounds(p, 0.8))}
    claimed = theirs["Random"] / theirs["HCSFed"]
    for form, words in FORMS.items():
        ours = rounds_of(store, the_one(one, method=form, **at), seeds)
        found = [
            None if math.isnan(f := factor(b, ours)) and not _gone(ours) else near_factor(f, claimed)
            for b in (shrunk, random)
        ]
        because = (
            f"{rounds_text(ours)} rounds; {factor_text(shrunk, ours)} times fewer than random-shrunk "
            f"({rounds_text(shrunk)}), {factor_text(random, ours)} times than random ({rounds_text(random)})"
        )
        yield Claim(
            f"{claimed:.1f} times fewer rounds than Random, MNIST, q = 0.1",
            words,
            of_two(found[:1], found[1:]),
            because,
        )


def _gone(s: Sample) -> bool:
    return s.missed > 0


def _fewer_everywhere(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Fewest rounds in every cell of Table 1, against each of the compared."""
    rivals = {"SCAFFOLD": ("scaffold-shrunk", "scaffold"), "Importance": ("importance",), "Cluster": ("cluster",)}
    places = list(dict.fromkeys((p.data, p.q) for p in one.points))
    for rival, stands in rivals.items():
        for form, words in FORMS.items():
            found: dict[str, list[bool | None]] = {}
            lost = []
            for method in stands:
                for data, q in places:
                    ours, theirs = (
                        rounds_of(store, the_one(one, method=m, data=data, q=q), seeds) for m in (form, method)
                    )
                    found.setdefault(method, []).append(less(ours, theirs))
                    if found[method][-1] is False:
                        lost.append(f"{method} on {data} at {q:g} ({rounds_text(ours)} and {rounds_text(theirs)})")
            verdict = of_two(found[stands[0]], found[stands[-1]]) if len(stands) > 1 else of_all(found[stands[0]])
            told = [f"fewer than {m} in {counted(hs)}" for m, hs in found.items()]
            because = "; ".join(told) + (
                f"; not fewer than {', '.join(lost[:3])}" + (" and others" if len(lost) > 3 else "") if lost else ""
            )
            yield Claim(f"fewer rounds than {rival} everywhere", words, verdict, because)


def _fewer_bytes(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Less communication, features counted."""
    for form, words in FORMS.items():
        found: dict[str, list[bool | None]] = {"random-shrunk": [], "random": []}
        told = []
        for data in ("mnist", "fashion-mnist"):
            ours = _bytes(store, the_one(one, method=form, data=data, q=0.1), seeds)
            for method, holds in found.items():
                base = _bytes(store, the_one(one, method=method, data=data, q=0.1), seeds)
                holds.append(less(ours, base))
                told.append(f"{factor_text(base, ours)} times fewer than {method} on {data}")
        yield Claim(
            "less upload than Random once features are counted, q = 0.1",
            words,
            of_two(found["random-shrunk"], found["random"]),
            "; ".join(told),
        )


def _bytes(store: Store, point: Point | None, seeds: int) -> Sample:
    if point is None:
        return Sample({}, {}, seeds)
    return spent_to(store, point, TARGETS[point.data], seeds, "upload_bytes")


def finals(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    yield from cells_of(one, store, seeds, rounds=False)
