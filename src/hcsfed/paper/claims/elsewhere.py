"""Other algorithms and models: on top of FedNova, and where the loss is not convex."""

from __future__ import annotations

from collections.abc import Iterator

from hcsfed.paper.cells import rounds_text
from hcsfed.paper.claims.rules import FORMS, less, rounds_of, the_one
from hcsfed.paper.preset import Experiment
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import Claim, of_two


def fednova(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Fewer rounds than Random on top of FedNova."""
    places = list(dict.fromkeys((p.data, p.partition) for p in one.points))
    for form in ("hcsfed-published", "hcsfed"):
        found: dict[str, list[bool | None]] = {"random-shrunk": [], "random": []}
        told = []
        for data, partition in places:
            at = {"data": data, "partition": partition}
            ours = rounds_of(store, the_one(one, method=f"{form}, FedNova", **at), seeds)
            bases = {m: rounds_of(store, the_one(one, method=f"{m}, FedNova", **at), seeds) for m in found}
            for method, base in bases.items():
                found[method].append(less(ours, base))
            others = ", ".join(f"{m} {rounds_text(b)}" for m, b in bases.items())
            told.append(f"{data}, {partition}: {rounds_text(ours)}, {others}")
        verdict = of_two(found["random-shrunk"], found["random"])
        yield Claim("fewer rounds than Random on top of FedNova", FORMS[form], verdict, "; ".join(told))


def rounds(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Fewest rounds to 60 % with models that are not convex."""
    rivals = ("random-shrunk", "random", "scaffold-shrunk", "scaffold", "importance", "cluster")
    for form, words in FORMS.items():
        for data, partition in dict.fromkeys((p.data, p.partition) for p in one.points):
            at = {"data": data, "partition": partition}
            target = 0.6 if data != "cifar10" else 0.3
            ours = rounds_of(store, the_one(one, method=form, **at), seeds, target)
            theirs = {m: rounds_of(store, the_one(one, method=m, **at), seeds, target) for m in rivals}
            found = {m: less(ours, s) for m, s in theirs.items()}
            if not ours.n or all(h is None for h in found.values()):
                continue
            unbiased = [found[m] for m in ("random", "scaffold")]
            verdict = of_two([h for m, h in found.items() if m not in ("random", "scaffold")], unbiased)
            because = f"{rounds_text(ours)} rounds; " + ", ".join(f"{m} {rounds_text(s)}" for m, s in theirs.items())
            yield Claim(f"fewest rounds to {100 * target:g} %, {data}, {partition}", words, verdict, because)
