"""Which options of ``hcsfed`` are the better ones? The evidence behind its defaults.

Run ``python benchmarks/presets.py error`` (minutes) and ``python benchmarks/presets.py rounds`` (minutes more); both
write into ``results/presets.json``. ``python benchmarks/presets.py show`` prints the tables of docs/which-selector.md.

*error*: every combination of the options on every federation, by :mod:`hcsfed.variance`: ‖estimate − full‖²/‖full‖² at
rounds 0 and 10 of full participation, N = 100, m = 10. Two options are compared with all others equal, in all
federations at both rounds; the ratio's geometric mean is given with its extremes. With H = m every cluster has one
place whatever the rule, so rules of allocation are compared at H = 5.

*rounds*: rounds to 80 % test accuracy by :func:`hcsfed.simulate`, logistic regression, η = 0.01, 60 rounds.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hcsfed.assemble import assemble
from hcsfed.settings import Settings, merge
from hcsfed.simulate import run
from hcsfed.variance import errors
from hcsfed.variants import variant

RESULTS = Path(__file__).parent / "results" / "presets.json"
IMAGES = ("mnist", "fashion-mnist", "digits")
PARTITIONS: dict[str, dict[str, Any]] = {
    "iid": {"name": "iid"},
    "one class": {"name": "shard"},
    "two classes": {"name": "shard", "classes_per_client": 2},
    "Dirichlet 0.1": {"name": "dirichlet", "alpha": 0.1},
    "Dirichlet 0.01": {"name": "dirichlet", "alpha": 0.01},
}
PLACES = [(data, name) for data in IMAGES for name in PARTITIONS]
# Whose clients differ in size, and so in weight: one that is split by its maker.
PLACES.append(("synthetic", "sizes differ"))
OPTIONS = {
    "features": ("gc", "gc-shared", "sketch"),
    "allocation": ("proportional", "eq6", "neyman"),
    "within": ("uniform", "importance"),
    "weights": ("published", "horvitz-thompson"),
}
OTHERS = ("random", "random-shrunk", "importance", "hcsfed-published", "hcsfed", "pivotal", "cube")
EXTRA = (
    *("hcsfed:features=sketch", "hcsfed:weighted=false", "hcsfed:importance=feature"),
    *("hcsfed:min_share=0.0:max_share=1.0", "hcsfed:clusters=7", "hcsfed:clusters=5", "hcsfed:clusters=3"),
)
RACERS = (
    *("full", "random-shrunk", "random", "importance", "hcsfed-published", "hcsfed:features=gc"),
    *("hcsfed", "hcsfed:clusters=5", "hcsfed:features=sketch", "hcsfed:features=sketch:refresh=stale"),
    *("hcsfed:weights=published", "pivotal", "cube", "frontier"),
)
# option, one, another, and among which combinations: weights that are unbiased, unless weights are the question
PAIRS = (
    ("features", "gc-shared", "gc", "weights=horvitz"),
    ("features", "gc-shared", "sketch", "weights=horvitz"),
    ("allocation", "neyman", "proportional", "clusters=5"),
    ("allocation", "neyman", "eq6", "clusters=5"),
    ("within", "importance", "uniform", "weights=horvitz"),
    ("weights", "horvitz-thompson", "published", ""),
    ("clusters", "10", "5", "allocation=proportional"),
)
RACES = ("one class", "two classes", "Dirichlet 0.1")
AT, DRAWS, SEEDS, ROUNDS, TARGET = (0, 10), 100, 3, 60, 0.8


def labels() -> list[str]:
    """Every combination, written out in full, so that it means the same whatever the defaults become."""
    found = []
    for features in OPTIONS["features"]:
        for within in OPTIONS["within"]:
            for weights in OPTIONS["weights"]:
                same = f"hcsfed:features={features}:within={within}:weights={weights}"
                found.append(f"{same}:clusters=10:allocation=proportional")
                found += [f"{same}:clusters=5:allocation={rule}" for rule in OPTIONS["allocation"]]
    return found


def base(data: str, partition: Mapping[str, Any], seed: int = 0) -> Settings:
    told = {"data": data, "partition": {**partition, "clients": 100}, "cohort": 10, "seed": seed}
    return merge(Settings(), told)


def measure_errors() -> dict[str, Any]:
    """Per place (data, partition, round) the errors of all selectors, in the order of ``selectors``."""
    asked = list(dict.fromkeys([*OTHERS, *EXTRA, *labels()]))
    places = []
    for data, name in PLACES:
        found = list(errors(base(data, PARTITIONS.get(name, {})), asked, AT, DRAWS))
        for t in AT:
            here = [row.error for row in found if row.round == t]
            place: dict[str, Any] = {"data": data, "partition": name, "round": t}
            for what in ("total", "bias2", "spread"):
                place[what] = [float(f"{getattr(e, what):.4g}") for e in here]
            places.append(place)
        print(f"{data}, {name}: done", file=sys.stderr)
    return {"selectors": asked, "places": places}


def measure_rounds() -> list[dict[str, Any]]:
    """Per partition and selector the rounds that each seed took; None where 60 were not enough."""
    rows = []
    for name in RACES:
        for label in RACERS:
            took = []
            for seed in range(SEEDS):
                settings = merge(base("mnist", PARTITIONS[name], seed), {"rounds": ROUNDS, "target": TARGET})
                took.append(run(assemble(variant(label).over(settings))).rounds_to(TARGET))
            rows.append({"partition": name, "selector": label, "rounds": took})
            print(f"{name}, {label}: done", file=sys.stderr)
    return rows


# Tables


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def show_errors(kept: Mapping[str, Any]) -> None:
    selectors = kept["selectors"]
    by = {
        (p["data"], p["partition"], p["round"], s): e
        for p in kept["places"]
        for s, e in zip(selectors, p["total"], strict=True)
    }
    places = list(dict.fromkeys(key[:3] for key in by))
    columns = list(dict.fromkeys(name for _, name in PLACES))

    def mean(selector: str, column: str, t: int) -> str:
        return short(gmean([by[data, name, t, selector] for data, name in PLACES if name == column]))

    print("Error of the estimate, geometric mean over the data sets, at rounds 0 · 10\n")
    cells = [
        [f"`{s}`", *(" · ".join(mean(s, column, t) for t in AT) for column in columns)]
        for s in selectors
        if s in OTHERS or s in EXTRA
    ]
    print(table(["selector", *columns], cells))

    print("One option against another, all else equal: ratio of errors, geometric mean (least … most)\n")
    cells = []
    for option, one, other, among in PAIRS:
        those = [s for s in labels() if f"{option}={one}" in s.split(":") and among in s]
        line = []
        for name in columns:
            here = [p for p in places if p[1] == name]
            ratios = [
                by[*p, s] / by[*p, s.replace(f"{option}={one}", f"{option}={other}")] for p in here for s in those
            ]
            line.append(f"{gmean(ratios):.2f} ({min(ratios):.2f} … {max(ratios):.2f})")
        cells.append([f"`{option}`: `{one}` / `{other}`", *line])
    print(table(["option", *columns], cells))

    print("Everything, relative to `random` in the same place, geometric mean: the best ten\n")
    scores = {s: gmean([by[*p, s] / by[*p, "random"] for p in places]) for s in selectors}
    ranked = sorted(scores, key=scores.__getitem__)
    print(table(["selector", "× random"], ([f"`{s}`", f"{scores[s]:.3f}"] for s in ranked[:10])))


def show_rounds(rows: Sequence[Mapping[str, Any]]) -> None:
    print(f"Rounds to {TARGET:.0%} on MNIST, mean of {SEEDS} seeds (least … most), >{ROUNDS}: not by every seed\n")
    by = {(row["selector"], row["partition"]): row["rounds"] for row in rows}
    cells = []
    for s in dict.fromkeys(row["selector"] for row in rows):
        line = []
        for name in RACES:
            took = by[s, name]
            reached = all(t is not None for t in took)
            line.append(f"{np.mean(took):.1f} ({min(took)} … {max(took)})" if reached else f">{ROUNDS}")
        cells.append([f"`{s}`", *line])
    print(table(["selector", *RACES], cells))


def gmean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def short(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def main() -> None:
    what = sys.argv[1] if len(sys.argv) == 2 else ""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if what in ("error", "rounds"):
        kept[what] = measure_errors() if what == "error" else measure_rounds()
        kept["versions"] = {name: version(name) for name in ("hcsfed", "torch", "numpy")}
        kept["versions"]["python"] = platform.python_version()
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    elif what != "show":
        sys.exit("python benchmarks/presets.py error | rounds | show")
    if what != "rounds" and "error" in kept:
        show_errors(kept["error"])
    if what != "error" and "rounds" in kept:
        show_rounds(kept["rounds"])


if __name__ == "__main__":
    main()
