"""How good and how fast is gradient compression of one update, and of all clients of a round?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hcsfed.cli.bench.selection.finding import Finding, ratio, turns
from hcsfed.errors import HcsfedError
from hcsfed.features import Context, GradientCompression
from hcsfed.features.optimal import optimal
from hcsfed.rng import stream
from hcsfed.types import Floats

GOOD, FAST = "GC against the exact optimum", "GC against np.sort of the same array"
FORMS = ("sort", "histogram")
_EXACT_UP_TO = 100_000

Numbers = NDArray[np.float32]
LAWS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "Gaussian": lambda rng, d: rng.standard_normal(d),
    "Laplace": lambda rng, d: rng.laplace(size=d),
    "Student t, 3 degrees": lambda rng, d: rng.standard_t(3, d),
    "Student t, 2 degrees": lambda rng, d: rng.standard_t(2, d),
}


def drawn(law: str, d: int) -> Numbers:
    return LAWS[law](stream(0, law), d).astype(np.float32)


def real(quick: bool) -> Iterator[tuple[str, Numbers]]:
    """One client's update of each model: images of one class, as the paper's MNIST is dealt."""
    from hcsfed.clients import LocalTraining, make_trainer
    from hcsfed.data import load

    try:
        federation = load("digits" if quick else "mnist", partition="shard", clients=100)
    except HcsfedError:  # MNIST is not here and can't be fetched
        federation = load("digits", partition="shard", clients=100)
    for model, steps in (("logistic", 50), ("mlp", 50), ("cnn", 10)):
        trainer = make_trainer(federation, model, LocalTraining(steps=steps, batch=50, lr=0.01), seed=0)
        update = next(iter(trainer.train(trainer.initial(), np.array([0]), 0))).vectors[0].cpu().numpy()
        yield f"{model} on {federation.name}, {steps} steps", update


def inertia(ordered: Numbers, centres: Floats) -> float:
    """Σ of squared distances of ascending numbers to the nearest of ascending centres."""
    nearest = np.searchsorted((centres[1:] + centres[:-1]) / 2, ordered)
    return float(((ordered - centres[nearest]) ** 2).sum())


def good(quick: bool) -> Iterator[Finding]:
    """Inertia of both forms as a multiple of the optimum's."""
    d, groups = (5_000, 200) if quick else (_EXACT_UP_TO, 1_000)
    cases = [(law, drawn(law, d), groups) for law in LAWS]
    cases += [(name, update, min(groups, len(update) // 5)) for name, update in real(quick)]
    optima = [inertia(np.sort(values), optimal(np.sort(values), few)) for _, values, few in cases]
    for form in FORMS:
        for (name, values, few), best in zip(cases, optima, strict=True):
            found = inertia(np.sort(values), encoded(values[None], few, form)[0])
            what = f"{form} form, d′ = {groups:,}: inertia / optimum"
            size = f"d = {len(values):,}" + ("" if few == groups else f", d′ = {few:,}")
            # So few numbers are sorted; bins are for many more, and their inertia is stated without a target.
            yield Finding(GOOD, what, f"{name}, {size}", found / best, 1.08 if form == "sort" else None)


def encoded(updates: Numbers, groups: int, form: str) -> Floats:
    feature = GradientCompression(centres=groups, form=form)  # type: ignore[arg-type]
    return feature.encode(updates, Context()).astype(np.float64)


def sort(values: Numbers, _: int) -> object:
    return np.sort(values)


def gc(values: Numbers, groups: int, form: str, _: int) -> object:
    return encoded(values[None], groups, form)


def fast(quick: bool, repeats: int) -> Iterator[Finding]:
    """Both forms beside the sort that one of them begins with, and a whole round's clients."""
    groups = 100 if quick else 1_000
    measured: list[tuple[str, int, dict[str, list[float]], float, float]] = []
    for d in (100_000,) if quick else (1_000_000, 10_000_000):
        for law in ("Gaussian", "Student t, 3 degrees"):
            values = drawn(law, d)
            rivals: dict[str, Callable[[int], object]] = {"np.sort": partial(sort, values)}
            rivals |= {form: partial(gc, values, groups, form) for form in FORMS}
            seconds = turns(rivals, repeats)
            ordered = np.sort(values)
            by_sort, by_bins = (inertia(ordered, encoded(values[None], groups, form)[0]) for form in FORMS)
            measured.append((f"{law}, d = {d:,}", d, seconds, by_sort, by_bins))
    for case, _, seconds, by_sort, _ in measured:
        pair = {name: seconds[name] for name in ("np.sort", "sort")}
        yield Finding(FAST, f"sort form, d′ = {groups:,}: time / np.sort", case, ratio(seconds, "sort", "np.sort"),
                      None if quick else 2.0, note=f"inertia {by_sort:.5g}", seconds=pair)  # fmt: skip
    for case, d, seconds, by_sort, by_bins in measured:
        pair = {name: seconds[name] for name in ("np.sort", "histogram")}
        note = f"inertia {by_bins / by_sort - 1:+.1%} of the sort form's, whose time is "
        note += f"{ratio(seconds, 'sort', 'histogram'):.3g} x"
        yield Finding(FAST, f"histogram form, d′ = {groups:,}: np.sort / time", case,
                      ratio(seconds, "np.sort", "histogram"), 10.0 if d == 10_000_000 else None, "at least", note,
                      pair)  # fmt: skip
    clients, d = 100, 7_850
    updates = stream(0, "round").standard_normal((clients, d), dtype=np.float32)
    seconds = turns({"all": lambda _: GradientCompression(ratio=0.1).encode(updates, Context())}, repeats)
    each = min(seconds["all"]) / clients * 1000
    case = f"{clients} clients, d = {d:,}, d′ = {d // 10}"
    yield Finding("GC of all clients of a round in one call", "ms a client", case, each, seconds=seconds)
