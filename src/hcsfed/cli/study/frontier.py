"""``hcsfed study frontier``: full participation's rounds, at what share of its cost?"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hcsfed.cli import flags as f
from hcsfed.cli.study import frame
from hcsfed.cli.study.races import BASELINE, Row, curve, curve_table, race, race_tables, verdicts
from hcsfed.errors import DataError, unknown

if TYPE_CHECKING:
    from hcsfed.settings import Settings
    from hcsfed.variants import Variant

PARTITIONS: dict[str, dict[str, Any]] = {
    "one class": {"name": "shard", "classes_per_client": 1},
    "two shards": {"name": "shard", "classes_per_client": 2},
    "Dirichlet 0.1": {"name": "dirichlet", "alpha": 0.1},
}
PLACES = PARTITIONS | {
    "Dirichlet 0.01, sizes of the paper": {"name": "dirichlet", "alpha": 0.01, "sizes": "paper", "replace": True}
}
EVERYONE = "@all"


def frontier(
    only: Annotated[
        str, typer.Option("--only", help="Some of slow, fast, five, three, sketches, fashion, mlp, thousand, cifar.")
    ] = "slow,fast,five,three,sketches,fashion,mlp,thousand",
    selectors: Annotated[
        str | None, typer.Option("--selectors", help="In place of those that stand in the questions; full is added.")
    ] = None,
    seeds: frame.Seeds = 3,
    set_: f.Assign = None,
    device: f.Device = None,
    out: frame.Out = Path("runs/frontier"),
    jobs: frame.Jobs = 0,
    on: f.On = "processes",
    result: frame.Result = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Run nothing; show the figures that --result wrote. Repeatable."),
    ] = None,
) -> None:
    """How close to full participation, and at what share of its cost: some questions, each with an answer.

    Everything that clients send and compute is counted, the opening included. The same command with the same --out
    continues where it was.
    """
    from hcsfed.settings import Settings, merge, parse_assignments

    if from_:
        print(shown([row for path in from_ for row in _read(path)]))
        return
    frame.check(seeds, jobs)
    names, rows = _names(only), []
    more = ({"device": device} if device else {}, parse_assignments(set_ or []))
    for question in questions():
        if question["name"] in names:
            base = merge(Settings(), question["settings"], *more)
            rows += answered(question, base, selectors, range(seeds), out, jobs, on)
    frame.write(result, Settings(), seeds, rows=rows)
    print(shown(rows))


def questions() -> list[dict[str, Any]]:
    """As they stand in the file beside this one."""
    text = (files("hcsfed.cli.study") / "frontier.toml").read_text("utf-8")
    return list(tomllib.loads(text)["question"])


def _names(text: str) -> list[str]:
    known = [question["name"] for question in questions()]
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in known:
            raise unknown("question of the study", name, known)
    return names


def answered(
    question: Mapping[str, Any],
    base: Settings,
    selectors: str | None,
    seeds: Sequence[int],
    out: Path,
    jobs: int,
    on: str,
) -> list[Row]:
    """All runs of a question, and the figures that they come to."""
    from hcsfed.grid import Cell, cells
    from hcsfed.settings import merge
    from hcsfed.variants import variants

    chosen = variants(",".join([BASELINE, selectors or ",".join(_all(question["selectors"]))]), "study")
    grid = []
    for place in question["places"]:
        where = merge(base, {"partition": {**PLACES[place], "clients": question.get("clients", 100)}})
        slug = f"{question['name']}/{place.lower().replace(' ', '-').replace(',', '')}"
        if "steps" in question:
            found = [cell for one in chosen for cell in cells(_short(where, one), [one], seeds)]
        else:
            found = cells(where, chosen, seeds)
        grid += [Cell(f"{slug}/{cell.name}", cell.settings) for cell in found]
    runs = iter(frame.done(grid, out, jobs, on))
    rows = []
    for place in question["places"]:
        raced = {one.label: [next(runs) for _ in seeds] for one in chosen}
        about = {"question": question["name"], "place": place}
        if "steps" in question:
            rows += [about | row for row in curve(raced, question["steps"])]
        else:
            aims = question["targets"]
            rows += [about | row for row in race(raced, aims[place] if isinstance(aims, dict) else aims)]
    return rows


def _all(names: Sequence[str]) -> list[str]:
    """The names, with every registered selector in the place of ``@all``."""
    from hcsfed.select import SELECTORS

    return list(SELECTORS) if list(names) == [EVERYONE] else list(names)


def _short(settings: Settings, one: Variant) -> Settings:
    """As many rounds as take the local steps of all rounds of the picked alone."""
    from hcsfed.settings import cohort_size, merge

    selector = one.build(settings)
    if selector.claims.trains == "picked" and one.name != BASELINE:
        return settings
    clients = settings.partition.options["clients"]
    return merge(settings, {"rounds": max(1, settings.rounds * cohort_size(settings.cohort, clients) // clients)})


def shown(rows: Sequence[Row]) -> str:
    """Each question with its verdicts and its table."""
    parts = []
    for question in questions():
        mine = [row for row in rows if row["question"] == question["name"]]
        if not mine:
            continue
        seeds = len(mine[0].get("rounds") or mine[0]["accuracy"])
        parts.append(f"## {question['title']} ({seeds} seeds)")
        if "steps" in question:
            parts.append(curve_table(mine))
            continue
        wanted = question["wanted"]
        found = verdicts(mine, wanted)
        if found:
            told = [
                f"- {'reached' if v.reached else 'missed'}: {v.place}, {100 * v.target:g} %: {v.because}" for v in found
            ]
            parts.append("\n".join([f"Of `{wanted['selector']}`:", "", *told]))
        parts.append(race_tables(mine))
    return "\n\n".join(parts)


def _read(path: Path) -> list[Row]:
    import json

    try:
        return list(json.loads(path.read_text("utf-8"))["rows"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{str(path)!r} holds no figures of this study: {error}") from error
