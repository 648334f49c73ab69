"""What has to be run: every run once, whoever asks for it, the most telling first, and how long it will take."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hcsfed.errors import bad
from hcsfed.features import FEATURES
from hcsfed.grid import Cell
from hcsfed.paper.preset import Experiment, Point, table
from hcsfed.record.folder import ROUNDS
from hcsfed.select import SELECTORS
from hcsfed.settings import Settings, cohort_size, with_seed

# A longer run of the same settings holds the shorter one, and where it was computed is no other experiment.
_ASIDE = ("rounds", "target", "eval_every", "device", "backend")
_DEFAULTS = Settings().nested()
_MODELS = ("logistic", "mlp", "cnn")


def told(settings: Settings | Mapping[str, Any]) -> dict[str, Any]:
    """What settings say beyond the defaults, without what makes no other run of it."""
    nested = settings.nested() if isinstance(settings, Settings) else dict(settings)
    kept = {}
    for key, value in nested.items():
        if key == "local":
            value = {k: v for k, v in value.items() if v != _DEFAULTS["local"].get(k)}
        elif key in ("selector", "features"):
            value = _beyond_defaults(value, _registered(key, nested))
        if key not in _ASIDE and value not in ({}, _DEFAULTS.get(key)):
            kept[key] = value
    return kept


def _registered(key: str, nested: Mapping[str, Any]) -> Mapping[str, inspect.Parameter]:
    """The options that a selector or a feature takes; of a feature that is the selector's own choice, that one's."""
    if key == "selector":
        return SELECTORS.options(nested["selector"]["name"])
    name = nested["features"]["name"]
    if name == "default":
        selector = dict(nested["selector"])
        name = getattr(SELECTORS.build(selector.pop("name"), **selector), "features", "raw")
    return FEATURES.options(name)


def _beyond_defaults(choice: Mapping[str, Any], options: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    return {k: v for k, v in choice.items() if k not in options or v != options[k].default}


def slug(settings: Settings | Mapping[str, Any]) -> str:
    """The same for the same settings, and for no others: a few words of them, and eight digits of their sum."""
    nested = settings.nested() if isinstance(settings, Settings) else settings
    said = told(nested)
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]
    words = [str((said.get(key) or _DEFAULTS[key])["name"]) for key in ("data", "partition", "model", "selector")]
    return f"{'-'.join(words)}-{digest}-s{nested['seed']}"


@dataclass(frozen=True)
class Work:
    """The runs that experiments need, in the order in which they are to be run."""

    cells: tuple[Cell, ...]

    def undone(self, out: Path) -> list[Cell]:
        """Those of which rounds are missing in ``out``."""
        return [cell for cell in self.cells if rounds_done(out / cell.name) < cell.settings.rounds]


def plan(
    asked: Sequence[Experiment],
    seeds: Sequence[int],
    *,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    device: str = "auto",
) -> Work:
    """Gather the runs. A tenth of the clients comes before larger cohorts, cheap models before dear ones.

    ``only`` and ``skip`` name data sets, models, or both as ``fashion-mnist/cnn``.
    """
    _check_words(asked, {*only, *skip})
    found: dict[str, Cell] = {}
    ranks: dict[str, tuple[int, ...]] = {}
    for place, one in enumerate(asked):
        for i, point in enumerate(one.points):
            words = _words(point)
            if (only and not words & set(only)) or words & set(skip):
                continue
            for seed in seeds:
                settings = replace(with_seed(point.settings, seed), device=device)  # type: ignore[arg-type]
                name = slug(settings)
                model = _MODELS.index(point.model)
                rank = (int(model == 2), int(point.q != 0.1), model, place, *((seed, i) if model == 2 else (i, seed)))
                if name not in found or found[name].settings.rounds < settings.rounds:
                    found[name] = Cell(name, settings)
                ranks[name] = min(rank, ranks.get(name, rank))
    return Work(tuple(found[name] for name in sorted(found, key=lambda n: ranks[n])))


def _words(point: Point) -> set[str]:
    return {point.data, point.model, f"{point.data}/{point.model}"}


def _check_words(asked: Sequence[Experiment], said: Collection[str]) -> None:
    known = {word for one in asked for point in one.points for word in _words(point)}
    for word in said:
        if known and word not in known:
            raise bad("only and skip", "paper", "among " + ", ".join(sorted(known)), word)


def rounds_done(folder: Path) -> int:
    """Whole lines of a run's history."""
    try:
        return (folder / ROUNDS).read_bytes().count(b"\n")
    except OSError:
        return 0


def expected(settings: Settings, *, rounds: int | None = None) -> float:
    """One core's seconds that a run should take, by the costs in the presets."""
    costs = table("common")["cost"]
    of = costs[settings.model.name]
    clients = settings.partition.options.get("clients", 100)
    selector = SELECTORS.build(settings.selector.name, **settings.selector.options)
    fresh = selector.claims.trains == "all" or settings.selector.name == "full"
    trained = clients if fresh else cohort_size(settings.cohort, clients)
    feature = getattr(selector, "features", "raw").removesuffix("-published")
    encoding = of.get(feature, of["raw"]) if fresh and "features" in selector.claims.needs else 0.0
    step = of["step"] / (of.get("gpu", 1) if settings.device == "cuda" else 1)
    steps = settings.local.steps if not settings.local.epochs else settings.local.epochs * 10
    each = trained * steps * step + encoding + of["evaluate"]
    return float(costs["start"] + each * (settings.rounds if rounds is None else rounds))


def seconds_left(work: Iterable[Cell], out: Path) -> float:
    """The same for what is undone; corrected by what finished runs took, once there are some."""
    left = planned = took = 0.0
    for cell in work:
        done = rounds_done(out / cell.name)
        left += max(expected(cell.settings) * (1 - done / cell.settings.rounds), 0.0)
        if done:
            planned += expected(cell.settings, rounds=done)
            took += table("common")["cost"]["start"] + _took(out / cell.name)
    return left * (took / planned if planned > 60 else 1.0)


def _took(folder: Path) -> float:
    from hcsfed.record import read_run

    return read_run(folder).seconds
