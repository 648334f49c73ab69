"""Runs → groups that differ in more than the seed, each with the shortest label that tells it from the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hcsfed.errors import SettingError
from hcsfed.record import Run
from hcsfed.report.words import setting

# Where a run is computed does not make it another experiment.
ASIDE = frozenset({"seed", "backend", "device", "row_memory"})


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in nothing but the seed.

    Parameters
    ----------
    label
        The settings that tell this group from the others, as short as they can be: ``md``, ``md · cohort 10``.
    differing
        All settings that are not the same in every group.
    runs
        One per seed.
    repeats
        Runs left out because a run of the same seed is there already.
    """

    label: str
    settings: Mapping[str, Any]
    differing: Mapping[str, Any]
    runs: Sequence[Run]
    repeats: int = 0

    @property
    def seeds(self) -> list[Any]:
        return [run.settings.get("seed") for run in self.runs]

    @property
    def target(self) -> float | None:
        """The test accuracy to reach; None where none was set (0 in the settings)."""
        return self.settings.get("target") or None


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings → dotted names, as ``--set`` writes them."""
    out: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            out |= flat(value, f"{prefix}{key}.")
        else:
            out[prefix + key] = value
    return out


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """Gather the runs that differ in nothing but the seed, in the order in which they first appear."""
    gathered: dict[str, tuple[dict[str, Any], list[Run]]] = {}
    for run in runs:
        settings = {k: v for k, v in flat(run.settings).items() if k not in ASIDE}
        gathered.setdefault(json.dumps(settings, sort_keys=True, default=str), (settings, []))[1].append(run)
    if not gathered:
        raise SettingError("runs of a report must be at least one run, got none")
    each = [settings for settings, _ in gathered.values()]
    names = sorted(set().union(*each), key=_telling)
    differing = [name for name in names if len({(name in settings, str(settings.get(name))) for settings in each}) > 1]
    labels = _labels(each, differing)
    return [
        Group(label, settings, {name: settings.get(name) for name in differing}, *_once(members))
        for label, (settings, members) in zip(labels, gathered.values(), strict=True)
    ]


def _once(runs: Sequence[Run]) -> tuple[list[Run], int]:
    """One run per seed, the longest: the same seed twice is the same run twice, and no evidence of spread."""
    kept: dict[Any, Run] = {}
    for run in runs:
        seed = run.settings.get("seed")
        if seed not in kept or len(run.history) > len(kept[seed].history):
            kept[seed] = run
    return list(kept.values()), len(runs) - len(kept)


def _telling(name: str) -> tuple[int, str]:
    """The order in which settings are tried as labels: what one compares most often comes first."""
    first = ("selector.name", "estimator", "algorithm.name", "selector", "algorithm", "cohort", "partition")
    for place, start in enumerate(first):
        if name == start or name.startswith(start + "."):
            return place, name
    return len(first), name


def _labels(each: Sequence[Mapping[str, Any]], differing: Sequence[str]) -> list[str]:
    """As few differing settings as tell all groups apart."""
    if len(each) == 1:
        return [str(each[0].get("selector.name", "all runs"))]
    parts: list[list[str]] = [[] for _ in each]
    for name in differing:
        if len({tuple(p) for p in parts}) == len(each):
            break
        trial = [[*p, setting(name, s[name])] if name in s else p for p, s in zip(parts, each, strict=True)]
        if len({tuple(p) for p in trial}) > len({tuple(p) for p in parts}):
            parts = trial
    return [" · ".join(p) or "plain" for p in parts]
