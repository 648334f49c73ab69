"""``hcsfed study covariance``: clients that come and go together, and clients that have learned the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hcsfed.cli import flags as f
from hcsfed.cli.study import frame
from hcsfed.cli.study.frame import Question
from hcsfed.cli.study.frontier import PARTITIONS
from hcsfed.errors import bad

if TYPE_CHECKING:
    from hcsfed.assemble import Parts
    from hcsfed.cli.study.path import Scene

GROUPS: dict[str, dict[str, Any]] = {
    "each by its own dice": {"name": "independent"},
    "in ten groups": {"name": "groups"},
    "in groups by class": {"name": "groups", "by": "class"},
}
KNOWN = {"reach.absence": "known"}


def covariance(
    selectors: Annotated[str, typer.Option("--selectors", help="Who picks; options as in cube:local=true.")] = (
        "random,importance-independent,hcsfed:features=sketch,pivotal,cube,frontier"
    ),
    at: Annotated[int, typer.Option("--at", help="Rounds that are lived through before the one that is asked.")] = 10,
    draws: Annotated[int, typer.Option("--draws", help="How often that round is asked.")] = 300,
    chance: Annotated[float, typer.Option("--chance", help="Of being within reach, for a group or for each.")] = 0.5,
    seeds: frame.Seeds = 3,
    data: f.Data = "mnist",
    clients: f.Clients = "100",
    model: f.Model = "logistic",
    cohort: f.Cohort = "10",
    lr: f.Rate = "0.01",
    set_: f.Assign = None,
    out: frame.Out = Path("runs/covariance"),
    jobs: frame.Jobs = 0,
    result: frame.Result = None,
) -> None:
    """What covariance among clients adds to the error of the estimate, or takes from it.

    First: all are there, and a design decides who comes together. Second: groups are there together, and it depends on
    what they hold. Errors are of one round on the path of full participation, in units of ‖full‖². The same command
    with the same --out continues where it was.
    """
    from hcsfed.settings import merge, parse_value, with_seed
    from hcsfed.variants import variants

    frame.check(seeds, jobs)
    if not 0 < chance < 1:
        raise bad("chance", "study", "a number in (0, 1)", chance)
    for name, value in (("at", at), ("draws", draws)):
        if value < 2:
            raise bad(name, "study", "an int ≥ 2", value)
    base = f.settings_from(None, set_, data=data, model=model, cohort=cohort, lr=lr)
    chosen = [one.label for one in variants(selectors, "study")]
    questions, rows = [], list[dict[str, Any]]()
    for title, partition in PARTITIONS.items():
        dealt = merge(base, {"partition": {**partition, "clients": parse_value(clients or "100")}})
        for groups, away in {"": None, **GROUPS}.items():
            here = merge(dealt, {"availability": {**away, "chance": chance}, **KNOWN} if away else {})
            rows.append({"partition": title, "groups": groups})
            slug = "-".join([title, groups or "all are there"]).replace(" ", "-")
            for seed in range(seeds):
                given = {"settings": with_seed(here, seed).nested(), "selectors": chosen, "at": at, "draws": draws}
                questions.append(Question(f"{slug}-s{seed}", together if away else design, given))
    found = frame.answers(questions, out, jobs)
    for i, row in enumerate(rows):
        row["seeds"] = found[i * seeds : (i + 1) * seeds]
    frame.write(result, base, seeds, at=at, draws=draws, chance=chance, rows=rows)
    print(shown(rows, chosen))


def design(settings: Mapping[str, Any], selectors: Sequence[str], at: int, draws: int) -> dict[str, list[float]]:
    """Where all are there: own part and covariance of each selector's weighted sum."""
    from hcsfed.choices import build_estimator
    from hcsfed.cli.study.path import again, lived
    from hcsfed.theory import own

    found = {}
    for label, parts, path in asked(settings, selectors, at):
        if build_estimator(parts.settings, parts.selector).name != "weighted":
            continue
        z, unit = contributions(parts, path[-1])
        errors, alone = [], []
        for selection, got in again(parts, lived(parts, path), path[-1], draws):
            errors.append(path[-1].error(got.estimate))
            if selection.inclusion is not None:
                pi = selection.inclusion
                alone.append(own(z, np.divide(1, pi, out=np.zeros_like(pi), where=pi > 0), pi) / unit)
        if alone:
            found[label] = [float(np.mean(alone)), float(np.mean(errors)) - float(np.mean(alone))]
    return found


def together(settings: Mapping[str, Any], selectors: Sequence[str], at: int, draws: int) -> dict[str, list[float]]:
    """Where some are there: what it does if all of these answer, in closed form, and the error of each selector."""
    from hcsfed.cli.study.path import again, lived
    from hcsfed.reach import Groups
    from hcsfed.theory import grouped_pairs, horvitz_thompson, own

    found: dict[str, list[float]] = {}
    for label, parts, path in asked(settings, [*selectors, "full"], at):
        if not found:
            z, unit = contributions(parts, path[-1])
            clients, model = parts.people.clients, parts.availability
            p = model.chances(parts.people, at)
            members = model.members(parts.people) if isinstance(model, Groups) else np.arange(clients)
            alone = own(z, 1 / p, p) / unit
            found["closed form"] = [alone, horvitz_thompson(z, p, grouped_pairs(p, members)) / unit - alone]
        errors = [path[-1].error(got.estimate) for _, got in again(parts, lived(parts, path), path[-1], draws)]
        found[label] = [float(np.mean(errors))]
    return found


def asked(settings: Mapping[str, Any], selectors: Sequence[str], at: int) -> Iterable[tuple[str, Parts, list[Scene]]]:
    """Each selector on the same path."""
    from hcsfed.assemble import assemble
    from hcsfed.cli.study.path import scenes
    from hcsfed.settings import Settings, merge
    from hcsfed.variants import variant

    base = merge(Settings(), settings)
    whole = assemble(base)
    path = scenes(whole, at + 1)
    for label in selectors:
        yield label, assemble(variant(label).over(base), federation=whole.federation), path


def contributions(parts: Parts, scene: Scene) -> tuple[Any, float]:
    """Every ω_k·u_k, and ‖Σ ω_k·u_k‖²."""
    updates = np.concatenate([chunk.vectors.double().cpu().numpy() for chunk in scene.updates])
    return parts.federation.weights[:, None] * updates, float((scene.mean.double() ** 2).sum())


def shown(rows: Sequence[Mapping[str, Any]], selectors: Sequence[str]) -> str:
    """Two tables: a line a partition, and a line a partition and way of coming and going."""

    def mean(row: Mapping[str, Any], name: str) -> list[float] | None:
        of = [one[name] for one in row["seeds"] if name in one]
        return np.mean(of, axis=0).tolist() if of else None

    def cell(found: list[float] | None) -> str:
        if found is None:
            return "–"
        total = frame.short(sum(found))
        if len(found) == 1:
            return total
        return f"{frame.short(found[0])} {'−' if found[1] < -1e-9 else '+'} {frame.short(abs(found[1]))} = {total}"

    here = [row for row in rows if not row["groups"]]
    plain = [s for s in selectors if any(mean(row, s) for row in here)]
    away = [row for row in rows if row["groups"]]
    measured = ["closed form", "full", *selectors]
    names = ["closed form", *(f"`{s}`" for s in measured[1:])]
    return "\n\n".join(
        [
            "**All are there**: own part, covariance of who comes together, and their sum",
            frame.markdown(
                ["", *(f"`{s}`" for s in plain)], [[r["partition"], *(cell(mean(r, s)) for s in plain)] for r in here]
            ),
            "**Half are there**: own part and covariance if all of them answer, and errors with weights corrected",
            frame.markdown(
                ["", "who is there", *names],
                [[r["partition"], r["groups"], *(cell(mean(r, s)) for s in measured)] for r in away],
                2,
            ),
        ]
    )
