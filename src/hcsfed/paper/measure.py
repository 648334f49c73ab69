"""What the paper claims beside its runs, measured without one: variance, heterogeneity, and the picture of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hcsfed.data.dirichlet import dirichlet
from hcsfed.paper.preset import Experiment, grounds
from hcsfed.settings import Choice, Settings, with_seed

QUICK_DRAWS = 20


def measure(one: Experiment, seeds: Sequence[int], out: Path, *, quick: bool = False) -> dict[str, Any]:
    """The figures of an experiment that needs no runs; pictures go into ``out``."""
    if one.show == "heterogeneity":
        return heterogeneity(one, seeds)
    if one.show == "variance":
        return variance(one, seeds, quick=quick)
    return picture(one, out, quick=quick)


def heterogeneity(one: Experiment, seeds: Sequence[int]) -> dict[str, Any]:
    """For each α the mean share of a client's largest class, by seed."""
    rows, clients = one.told["rows"], one.told["clients"]
    labels = np.repeat(np.arange(10), 5000)
    found = {}
    for alpha in one.told["alphas"]:
        shares = []
        for seed in seeds:
            part = dirichlet(labels, clients, seed=seed, alpha=alpha, samples_per_client=rows, replace=True)
            counts = [np.bincount(labels[own], minlength=10) for own in np.split(part.index, part.offsets[1:-1])]
            shares.append(float(np.mean([c.max() / c.sum() for c in counts])))
        found[str(alpha)] = shares
    return {"largest_class": found}


def variance(one: Experiment, seeds: Sequence[int], *, quick: bool = False) -> dict[str, Any]:
    """Errors of the designs by place, round and seed, and Theorem 1's chain for each way of making clusters."""
    from hcsfed.variance import errors, theorem
    from hcsfed.variants import variants

    at = one.told["rounds"][:2] if quick else one.told["rounds"]
    draws = QUICK_DRAWS if quick else one.told["draws"]
    chosen = variants(one.told["selectors"], "paper")
    rows: list[dict[str, Any]] = []
    chains: list[dict[str, Any]] = []
    for place, base in bases(one, quick=quick).items():
        for seed in seeds:
            settings = with_seed(base, seed)
            for row in errors(settings, chosen, at, draws):
                e = row.error
                figures = {"total": e.total, "bias2": e.bias2, "variance": e.variance, "noise": e.noise}
                rows.append(
                    {"place": place, "seed": seed, "round": row.round, "selector": row.selector}
                    | {key: float(f"{value:.5g}") for key, value in figures.items()}
                )
            for features in one.told["features"]:
                for t, links in theorem(settings, features, one.told["clusters"], at):
                    for link in links:
                        exact = None if link.exact is None else float(f"{link.exact:.5g}")
                        chains.append(
                            {"place": place, "seed": seed, "round": t, "features": features, "design": link.design}
                            | {"large": float(f"{link.large:.5g}"), "exact": exact, "whole": float(f"{link.whole:.5g}")}
                        )
    return {"draws": draws, "errors": rows, "chains": chains}


def picture(one: Experiment, out: Path, *, quick: bool = False) -> dict[str, Any]:
    """Fig. 2 drawn for each place, and how far its clusters are the classes that clients hold."""
    from sklearn.metrics import adjusted_rand_score

    from hcsfed.assemble import assemble
    from hcsfed.report.clusters import Scene, draw_clusters
    from hcsfed.variance import looks
    from hcsfed.variants import variants

    chosen = variants(one.told["selectors"], "paper")
    rows = []
    for place, settings in bases(one, quick=quick).items():
        held = assemble(replace(settings, selector=Choice("full"))).federation.class_counts.argmax(axis=1)
        scenes = []
        for look in looks(settings, chosen, one.told["round"]):
            labels = look.selection.info.get("labels")
            features = look.view.features
            if features is None or labels is None:
                continue
            rows.append(
                {"place": place, "selector": look.selector, "rand": round(float(adjusted_rand_score(held, labels)), 4)}
            )
            chance, picked = look.selection.inclusion, look.selection.ids
            scenes.append(Scene(look.selector, look.updates, features, labels, chance, picked))
        where = f"{settings.data.name}, round {one.told['round']}"
        draw_clusters(scenes, where, out / f"picture-{place.split(',')[0]}.svg")
    return {"clusters": rows}


def bases(one: Experiment, *, quick: bool) -> dict[str, Settings]:
    """Where an experiment without methods measures: the first setting of each of its places."""
    return {f"{g.data}, {g.partition}, {g.model}": g.settings for g in grounds(one.told["grid"], quick=quick)}
