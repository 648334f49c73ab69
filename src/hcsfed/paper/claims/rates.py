"""Which learning rate the tables were made with: by the cells that selection hardly touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hcsfed.paper import published
from hcsfed.paper.cells import cell_text, rounds_text, same
from hcsfed.paper.preset import Experiment, Point
from hcsfed.paper.sample import final, points, rounds_to
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import Claim, Verdict

STATED = 0.05  # the rate in the captions of Tables 3 and 4


def rates(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Which of two rates a table's anchors were made with, by those that were run at both."""
    for data, model in dict.fromkeys((p.data, p.model) for p in one.points):
        off: dict[float, dict[str, float]] = {}
        told: dict[float, dict[str, str]] = {}
        for p in points(one, data=data, model=model):
            cell, ours = published.accuracy(_anchor(p)), final(store, p, seeds)
            if cell is None or not ours.enough:
                continue
            anchor = f"{p.partition} {p.method}"
            off.setdefault(p.lr, {})[anchor] = 100 * abs(ours.mean - cell.value)
            told.setdefault(p.lr, {})[anchor] = f"{anchor} {100 * ours.mean:.1f} ({100 * cell.value:.1f})"
        tried = sorted(lr for lr, anchors in off.items() if any(a.startswith("iid") for a in anchors))
        common = [a for a in off[tried[0]] if all(a in off[lr] for lr in tried)] if len(tried) > 1 else []
        if not common:
            continue
        mean = {lr: float(np.mean([off[lr][a] for a in common])) for lr in tried}
        rate = min(mean, key=mean.__getitem__)
        verdict: Verdict = "reproduced" if rate == STATED else "not reproduced"
        because = "; ".join(
            f"η = {lr:g}: {mean[lr]:.1f} points away on average, {', '.join(told[lr][a] for a in common)}"
            for lr in tried
        )
        table = "Table 3" if model == "logistic" else "Table 4"
        yield Claim(f"{table} was made with η = {STATED:g}, {data}, {model}", f"η = {rate:g} fits", verdict, because)
    yield from _rate_of_table1(one, store, seeds)


def _rate_of_table1(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Table 1 states no rate: is there one at which both of its ends come out, Random and HCSFed?"""
    for data in dict.fromkeys(p.data for p in one.points):
        fits: list[float] = []
        told = []
        for lr in sorted({p.lr for p in points(one, data=data, partition="non-iid", model="logistic")}):
            ends = {}
            for p in points(one, data=data, partition="non-iid", model="logistic", lr=lr):
                anchor = _anchor(p)
                took, cell = rounds_to(store, p, 0.8, seeds), published.rounds(anchor, 0.8)
                if took.n and cell and p.method in ("random-shrunk", "full"):
                    ends[p.method] = (took, cell)
            if len(ends) < 2:
                continue
            if all(same(took, cell) for took, cell in ends.values()):
                fits.append(lr)
            found = ", ".join(f"{m} {rounds_text(s)} ({cell_text(c)})" for m, (s, c) in ends.items())
            told.append(f"η = {lr:g}: {found}")
        if told:
            form = f"η = {', '.join(f'{lr:g}' for lr in fits)} does" if fits else "none of those tried does"
            claim = f"some rate gives Table 1's rounds of Random and HCSFed, {data}"
            yield Claim(claim, form, "reproduced" if fits else "not reproduced", "; ".join(told))


def _anchor(p: Point) -> Point:
    """Full participation and unbiased Random stand for the IID rows that selection does not touch."""
    if p.method in ("full", "random") and p.partition == "iid":
        return replace(p, paper="Importance")
    return replace(p, paper="HCSFed") if p.method == "full" else p
