"""What the scheme is made of: the number of clusters, the rate of compression, one component at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from hcsfed.paper.cells import rounds_text
from hcsfed.paper.claims.rules import FORMS, less, rounds_of
from hcsfed.paper.preset import Experiment, Point
from hcsfed.paper.sample import POINTS, Sample, best, best_round, final, points
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import Claim, of_all, of_two

STABLE_SHARE = 0.2  # rounds that scatter by no more than this share of their mean are stable


def clusters(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Stable over H: accuracies within a point, rounds within a fifth of their mean."""
    for form in ("hcsfed-published", "hcsfed"):
        swept = points(one, method=form)
        for measure, (accuracies, took) in _measures(swept, store, seeds).items():
            if not swept or not all(s.enough for s in (*accuracies, *took)):
                continue
            accuracy, rounds = (np.array([s.mean for s in them]) for them in (accuracies, took))
            steady = bool(np.ptp(accuracy) <= POINTS)
            alike = bool(not np.isnan(rounds).any() and np.ptp(rounds) <= STABLE_SHARE * rounds.mean())
            because = (
                f"accuracy {100 * accuracy.min():.1f} to {100 * accuracy.max():.1f} %, "
                f"rounds from {_least(took)} to {_most(took)}"
            )
            yield Claim(f"stable over H = 5 … 10, {measure}", FORMS[form], of_all([steady, alike]), because)


def compression(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """An inner R needs fewer rounds than both ends; in the paper's way, it is also more accurate at its best."""
    for form in ("hcsfed-published", "hcsfed"):
        swept = points(one, method=form)
        for measure, (accuracies, took) in _measures(swept, store, seeds).items():
            if len(swept) < 3 or not all(s.enough for s in (*accuracies, *took)):
                continue
            inner = min(range(1, len(took) - 1), key=lambda i: took[i].least)
            found = [less(took[inner], took[end]) for end in (0, -1)]
            because = ", ".join(
                f"{p.sweep.removeprefix('R = ')}: {rounds_text(s)} ({100 * a.mean:.1f} %)"
                for p, s, a in zip(swept, took, accuracies, strict=True)
            )
            yield Claim(f"an R between 5 and 100 % needs fewest rounds, {measure}", FORMS[form], of_all(found), because)


def _measures(swept: Sequence[Point], store: Store, seeds: int) -> dict[str, tuple[list[Sample], list[Sample]]]:
    """Accuracies and rounds, in the paper's way and in ours."""
    return {
        "by the best accuracy and its round, as the paper measures": (
            [best(store, p, seeds) for p in swept],
            [best_round(store, p, seeds) for p in swept],
        ),
        "by the final accuracy and the rounds to 80 %": (
            [final(store, p, seeds) for p in swept],
            [rounds_of(store, p, seeds) for p in swept],
        ),
    }


def _least(found: Sequence[Sample]) -> str:
    return rounds_text(min(found, key=lambda s: s.least))


def _most(found: Sequence[Sample]) -> str:
    return rounds_text(max(found, key=lambda s: s.least))


def ablation(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Each component makes fewer rounds of it."""
    took = {p.row: rounds_of(store, p, seeds) for p in one.points}
    sweeps = list(dict.fromkeys(p.sweep for p in one.points))
    for (features, whole), sweep in product((("gc", "hcsfed-published"), ("gc-shared", "hcsfed")), sweeps):
        at, words_at = (f", {sweep}",) * 2 if sweep else ("", ", H = 10")
        plain, again, telling = (
            f"cluster{more} ({features}){at}" for more in ("", " + re-allocation", " + importance")
        )
        steps = [
            ("clusters speed Random up", plain, ("random-shrunk", "random")),
            ("re-allocation speeds clusters up", again, (plain,)),
            ("importance speeds clusters up", telling, (plain,)),
            ("the whole is faster than clusters with re-allocation", whole + at, (again,)),
            ("the whole is faster than clusters with importance", whole + at, (telling,)),
        ]
        for words, better, than in steps:
            found = [less(took[better], took[name]) for name in than]
            verdict = of_two(found[:1], found[1:]) if len(than) > 1 else of_all(found)
            because = f"{rounds_text(took[better])} rounds, " + ", ".join(f"{n} {rounds_text(took[n])}" for n in than)
            yield Claim(words + words_at, FORMS[whole], verdict, because)
    found = [less(took["importance"], took[name]) for name in ("random-shrunk", "random")]
    alone = ", ".join(f"{m} {rounds_text(took[m])}" for m in ("random-shrunk", "random"))
    because = f"{rounds_text(took['importance'])} rounds, {alone}"
    yield Claim("importance alone speeds Random up", "importance", of_two(found[:1], found[1:]), because)
