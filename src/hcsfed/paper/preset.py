"""The paper's experiments as data: a TOML file each, read into the runs that they ask for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from hcsfed.errors import unknown
from hcsfed.settings import Settings, merge
from hcsfed.variants import variant

EXPERIMENTS = (
    "table1",
    "table3",
    "ablation",
    "clusters",
    "compression",
    "rounds",
    "table4",
    "rates",
    "ratio",
    "fednova",
    "heterogeneity",
    "variance",
    "picture",
)
QUICK_ROUNDS = 8


@dataclass(frozen=True)
class Point:
    """One run of an experiment but for its seed: the words under which it stands in a table, and its settings.

    Parameters
    ----------
    sweep
        A value that the method is tried with, as ``H = 5``; empty where there is none.
    paper
        The row of the paper's tables that it is held against; empty where the paper has none.
    """

    data: str
    partition: str
    model: str
    lr: float
    q: float
    method: str
    settings: Settings = field(compare=False)
    sweep: str = ""
    paper: str = ""

    @property
    def row(self) -> str:
        return f"{self.method}, {self.sweep}" if self.sweep else self.method


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Parameters
    ----------
    show
        How it is shown: ``race`` to an accuracy, ``final`` accuracy, or what is measured without a run.
    targets
        Test accuracies to reach.
    told
        Everything else that its file says.
    """

    name: str
    title: str
    source: str
    note: str
    show: str
    targets: tuple[float, ...]
    points: tuple[Point, ...]
    told: Mapping[str, Any]


def experiments(name: str, *, quick: bool = False) -> list[Experiment]:
    """The experiment of this name, or all of them."""
    if name != "all" and name not in EXPERIMENTS:
        raise unknown("experiment", name, (*EXPERIMENTS, "all"))
    return [experiment(one, quick=quick) for one in (EXPERIMENTS if name == "all" else (name,))]


@cache
def experiment(name: str, *, quick: bool = False) -> Experiment:
    """One of the presets; ``quick`` asks the same of small data, for a few rounds."""
    common, told = table("common"), table(name)
    methods = common["methods"] | told.get("methods", {})
    points = [p for grid in told.get("grid", ()) for p in _points(methods, grid, quick=quick)]
    return Experiment(
        name,
        told["title"],
        told["source"],
        told.get("note", ""),
        told["show"],
        tuple(told.get("targets", ())),
        tuple(dict.fromkeys(points)),
        told,
    )


@cache
def table(name: str) -> dict[str, Any]:
    """A preset's file as it stands."""
    return tomllib.loads((files("hcsfed.paper") / "presets" / f"{name}.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Ground:
    """Where methods are tried: data, partition, model, rate and ratio, with no method yet."""

    data: str
    partition: str
    model: str
    lr: float
    q: float
    settings: Settings


def grounds(grids: Sequence[Mapping[str, Any]], *, quick: bool = False) -> Iterator[Ground]:
    """All grounds of these grids; ``quick`` stands on small data, with the first rate and ratio alone."""
    common = table("common")
    for grid in grids:
        axes = {axis: grid[axis] for axis in ("data", "partition", "model", "lr", "q")}
        if quick:
            axes |= {"data": ["digits"], "model": [m for m in axes["model"] if m != "cnn"]}
            axes |= {axis: axes[axis][:1] for axis in ("lr", "q")}
        for data, partition, model, lr, q in product(*axes.values()):
            where = common["partitions"][partition]
            settings = merge(
                Settings(rounds=QUICK_ROUNDS if quick else common["rounds"]),
                common["settings"],
                common["data"].get(data, {}).get("settings", {}),
                {"data": data, "model": model, "cohort": q, "local": {"lr": lr}},
                {"partition": where["quick"] if quick and "quick" in where else where["settings"]},
                {"partition.clients": common["settings"]["partition"]["clients"]},
                grid.get("settings", {}),
            )
            yield Ground(data, partition, model, lr, q, settings)


def _points(methods: Mapping[str, Any], grid: Mapping[str, Any], *, quick: bool) -> Iterator[Point]:
    ways = list(_ways(table("common")["sets"], methods, grid, quick=quick))
    for on in grounds([grid], quick=quick):
        for method, sweep, text in ways:
            settings = variant(text).over(on.settings)
            if settings.selector.name == "full":  # whatever q is, this is one run
                settings = replace(settings, cohort=1.0)
            paper = methods[method].get("paper", "")
            yield Point(on.data, on.partition, on.model, on.lr, on.q, method, settings, sweep, paper)


def _ways(
    sets: Mapping[str, Sequence[str]], methods: Mapping[str, Any], grid: Mapping[str, Any], *, quick: bool
) -> Iterator[tuple[str, str, str]]:
    """Each method, what it is tried with, and both as a selector is written in a list."""
    for name in grid["methods"]:
        for method in sets[name[1:]] if name.startswith("@") else (name,):
            yield method, "", methods[method]["variant"]
    if sweep := grid.get("sweep"):
        values = sweep["values"]
        if quick:
            values = [values[0], values[len(values) // 2], values[-1]]
        for method, value in product(sweep["method"], values):
            name = f"{100 * value:g} %" if sweep["letter"] == "R" else f"{value}"
            yield method, f"{sweep['letter']} = {name}", f"{methods[method]['variant']}:{sweep['option']}={value}"
