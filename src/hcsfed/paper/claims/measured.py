"""What needs no run: Lemma 4 and Theorem 1, Table 2, and the clusters of Fig. 2."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hcsfed.paper.preset import Experiment
from hcsfed.paper.published import largest_share
from hcsfed.paper.sample import SURE
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import Claim, of_all


def variance(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Lemma 4 by the bias that is seen, Theorem 1 by the order of the designs."""
    figures = store.measured.get(one.name)
    if figures is None:
        return
    for selector, words in (("hcsfed-published", "as published"), ("hcsfed", "better founded")):
        rows = [r for r in figures["errors"] if r["selector"] == selector]
        biased = [r["bias2"] > 3 * r["noise"] for r in rows]
        worst = max((r["bias2"] for r in rows), default=math.nan)
        because = f"bias seen in {sum(biased)} of {len(rows)} places, rounds and seeds, up to {worst:.2g} ‖full‖²"
        yield Claim(
            "Lemma 4: the estimate is unbiased", words, of_all([sum(biased) <= SURE * 0.05 * len(rows)]), because
        )
    for column, words in (("large", "for draws with replacement, as proved"), ("whole", "as drawn, in whole places")):
        for features, form in (("gc-published", "as published"), ("gc-shared", "better founded")):
            falls, broken = 0, []
            for chain in _chains(figures, features):
                values = [link[column] for link in chain]
                links = [
                    b["design"] for b, x, y in zip(chain[1:], values, values[1:], strict=False) if y > x * (1 + 1e-9)
                ]
                falls += not links
                broken += links
            total = sum(1 for _ in _chains(figures, features))
            because = f"holds in {falls} of {total} places, rounds and seeds"
            if broken:
                because += "; broken at " + ", ".join(f"{d} ({broken.count(d)})" for d in dict.fromkeys(broken))
            claim = f"Theorem 1: variance falls from design to design, {words}"
            yield Claim(claim, form, of_all([falls == total]), because)


def _chains(figures: Mapping[str, Any], features: str) -> Iterator[list[dict[str, Any]]]:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in figures["chains"]:
        if row["features"] == features:
            found.setdefault((row["place"], row["seed"], row["round"]), []).append(row)
    yield from found.values()


def heterogeneity(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Table 2 was drawn at α = 0.001: the share of the largest class says."""
    figures = store.measured.get(one.name)
    if figures is None:
        return
    means = {float(alpha): float(np.mean(shares)) for alpha, shares in figures["largest_class"].items()}
    paper = largest_share()
    near = min(means, key=lambda alpha: abs(means[alpha] - paper))
    because = (
        f"largest class {100 * paper:.0f} % in the table, {100 * means[0.001]:.0f} % at 0.001; "
        f"α = {near:g} gives {100 * means[near]:.0f} %"
    )
    yield Claim(
        "Table 2 is a draw at α = 0.001",
        "the paper's ten clients",
        of_all([abs(means[0.001] - paper) <= 0.05]),
        because,
    )


def picture(one: Experiment, store: Store, seeds: int) -> Iterator[Claim]:
    """Compressed features make better clusters than whole updates."""
    figures = store.measured.get(one.name)
    if figures is None:
        return
    found = {(r["place"], r["selector"]): r["rand"] for r in figures["clusters"]}
    for selector, words in (("hcsfed-published", "as published"), ("hcsfed", "better founded")):
        places = list(dict.fromkeys(place for place, _ in found))
        better = [found[p, selector] > found[p, "hcsfed:features=raw"] for p in places]
        because = ", ".join(
            f"{p}: {found[p, selector]:.2f}, whole updates {found[p, 'hcsfed:features=raw']:.2f}" for p in places
        )
        yield Claim("compressed updates make better clusters than whole ones", words, of_all(better), because)
