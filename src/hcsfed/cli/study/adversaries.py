"""``hcsfed study adversaries``: what do a few clients that lie get of a round, and what do guards leave them?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hcsfed.cli import flags as f
from hcsfed.cli.study import frame
from hcsfed.cli.study.frame import Question
from hcsfed.errors import bad, unknown

if TYPE_CHECKING:
    from hcsfed.select import Selector
    from hcsfed.settings import Settings
    from hcsfed.variants import Variant


@dataclass(frozen=True)
class Assault:
    """An attack as the study knows it. ``on`` says of what a selector must go by for it to matter: "" is always."""

    told: str
    options: Mapping[str, Any]
    on: str = ""


ATTACKS: dict[str, Assault] = {
    "more": Assault("every claim a thousandfold", {"name": "inflate", "factor": 1000.0}, on="claims"),
    "less": Assault("every claim a thousandth", {"name": "inflate", "factor": 0.001}, on="claims"),
    "far": Assault("features a thousand times too long", {"name": "lie", "kind": "far"}, on="features"),
    "copy": Assault("an honest client's features", {"name": "lie", "kind": "copy"}, on="features"),
    "zero": Assault("features of zeros", {"name": "lie", "kind": "zero"}, on="features"),
    "nan": Assault("updates that are no numbers", {"name": "nan"}),
    "reversed": Assault("updates turned round, ten times as long", {"name": "scale", "factor": -10.0}),
    "huge": Assault("updates a hundred times as long", {"name": "scale", "factor": 100.0}),
    "replay": Assault("the first round's update for ever", {"name": "replay"}),
}
HONEST = "nobody"
FIGURES = ("chance", "share", "error", "accuracy")
CLAIMS = frozenset({"norms", "losses", "variances"})
LOOSE = {"max_share": 1.0, "min_share": 0.0}
GUARDS: dict[str, dict[str, Any]] = {
    "none": {},
    "bounds": {},
    "clip": {"guard": "median"},
    "trimmed": {"estimator": "trimmed-mean"},
    "median": {"estimator": "median"},
}


def adversaries(
    selectors: Annotated[str, typer.Option("--selectors", help="Who is steered; options as in cube:chances=norm.")] = (
        "random,importance,loss-importance,power-of-choice,oort,divfl,hcsfed,hcsfed:clusters=3,pivotal,cube,frontier"
    ),
    attacks: Annotated[
        str, typer.Option("--attacks", help="Of " + ", ".join(ATTACKS) + ".")
    ] = "more,less,far,copy,nan,reversed,huge,replay",
    share: Annotated[float, typer.Option("--share", help="Share of the clients that lie.")] = 0.1,
    at: Annotated[int, typer.Option("--at", help="Rounds that are lived through before the one that is asked.")] = 10,
    draws: Annotated[int, typer.Option("--draws", help="How often that round is asked.")] = 60,
    seeds: frame.Seeds = 3,
    data: f.Data = "digits",
    partition: f.Partition = "dirichlet",
    clients: f.Clients = "100",
    model: f.Model = "logistic",
    cohort: f.Cohort = "10",
    rounds: f.Rounds = "30",
    lr: f.Rate = "0.05",
    set_: f.Assign = None,
    out: frame.Out = Path("runs/adversaries"),
    jobs: frame.Jobs = 0,
    result: frame.Result = None,
) -> None:
    """For every selector and attack: the attackers' chance, their share, and the harm, before and after each guard.

    Chance, share and error are of one round on the path of honest full participation, after a server has lived there
    with the attackers; accuracy is that of a run. The same command with the same --out continues where it was.
    """
    from hcsfed.settings import with_seed
    from hcsfed.variants import variants

    frame.check(seeds, jobs)
    if not 0 < share < 1:
        raise bad("share", "study", "a number in (0, 1)", share)
    for name, value in (("at", at), ("draws", draws)):
        if value < 1:
            raise bad(name, "study", "an int ≥ 1", value)
    base = f.settings_from(
        None, set_, data=data, partition=partition, clients=clients, model=model, cohort=cohort, rounds=rounds, lr=lr
    )
    chosen = variants(selectors, "study")
    cases = [
        (one, attack, guard, told)
        for one in chosen
        for attack, guard, told in situations(one, base, _named(attacks), share)
    ]
    questions = [
        Question(
            f"{attack}/{guard}/{one.slug}-s{seed}",
            measured,
            {"settings": with_seed(told, seed).nested(), "at": at, "draws": draws},
        )
        for one, attack, guard, told in cases
        for seed in range(seeds)
    ]
    found = frame.answers(questions, out, jobs)
    rows = [
        {"selector": one.label, "attack": attack, "guard": guard}
        | {figure: [answer[figure] for answer in found[i : i + seeds]] for figure in FIGURES}
        for i, (one, attack, guard, _) in zip(range(0, len(found), seeds), cases, strict=True)
    ]
    frame.write(result, base, seeds, attackers=share, at=at, draws=draws, rows=rows)
    print(shown(rows))


def _named(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in ATTACKS:
            raise unknown("attack of the study", name, ATTACKS)
    return names


def helps(guard: str, attack: str) -> bool:
    """A centre of updates has nothing to say of false claims and features: the updates are honest."""
    return "estimator" not in GUARDS[guard] or attack == HONEST or not ATTACKS[attack].on


def situations(
    one: Variant, base: Settings, attacks: Sequence[str], share: float
) -> Iterator[tuple[str, str, Settings]]:
    """Attack, guard and settings of all that can matter to this selector; first what guards cost an honest run."""
    from hcsfed.settings import merge

    selector = one.build(base)
    attackers: dict[str, dict[str, Any]] = {HONEST: {}}
    attackers |= {
        name: {"attack": {**ATTACKS[name].options, "share": share}} for name in attacks if matters(name, selector)
    }
    for attack, guard in product(attackers, GUARDS):
        bounds = bounds_of(selector, base, tight=guard == "bounds")
        if (guard == "bounds" and not bounds) or not helps(guard, attack):
            continue
        yield attack, guard, merge(one.over(base), attackers[attack], {"selector": bounds}, GUARDS[guard])


def matters(attack: str, selector: Selector) -> bool:
    """Whether the selector goes by what the attack lies about."""
    from hcsfed.select import Learner

    needs, lies = selector.claims.needs, ATTACKS[attack].on
    if lies == "claims":  # who learns from answers learns from the losses that come with them
        return bool(needs & CLAIMS) or isinstance(selector, Learner)
    return lies != "features" or "features" in needs


def bounds_of(selector: Selector, settings: Settings, *, tight: bool) -> dict[str, float]:
    """The selector's own bounds on what a claim can do: as far open as they go, or at twice an even share.

    Designs whose chances don't come from claims have nothing to bound.
    """
    from hcsfed.select import SELECTORS

    known = SELECTORS.options(selector.name)
    if getattr(selector, "chances", "norm") != "norm":
        return {}
    if not tight:
        return {name: value for name, value in LOOSE.items() if name in known}
    # Within a cluster an even share is that of its members.
    even = getattr(selector, "clusters", 1) / settings.partition.options["clients"]
    wanted = {"max_share": min(1.0, 2 * even), "min_share": 0.1, "floor": 0.1}
    return {name: value for name, value in wanted.items() if name in known}


def measured(settings: Mapping[str, Any], at: int, draws: int) -> dict[str, float | None]:
    """Chance, share and error of one situation with one seed, and the accuracy of a run; None where it diverged."""
    from hcsfed.assemble import assemble
    from hcsfed.cli.study.influence import influence
    from hcsfed.cli.study.path import scenes
    from hcsfed.errors import DivergedError
    from hcsfed.settings import Settings, merge
    from hcsfed.simulate import run

    parts = assemble(merge(Settings(), settings))
    found: dict[str, float | None] = asdict(influence(parts, scenes(parts, at + 1), draws))
    try:
        return found | {"accuracy": run(parts).final_accuracy}
    except DivergedError:
        return found | {"accuracy": None}


def shown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table an attack: a line a selector, a column a guard, in each cell chance · share · error · accuracy."""
    parts = []
    for attack in dict.fromkeys(row["attack"] for row in rows):
        of = {(row["selector"], row["guard"]): row for row in rows if row["attack"] == attack}
        selectors = dict.fromkeys(selector for selector, _ in of)
        lines = [[f"`{s}`", *(cell(of.get((s, g)), attack) for g in GUARDS)] for s in selectors]
        told = "nobody lies: error · accuracy" if attack == HONEST else ATTACKS[attack].told
        parts.append(f"**{attack}**: {told}\n\n" + frame.markdown(["selector", *GUARDS], lines))
    return "\n\n".join(parts)


def cell(row: Mapping[str, Any] | None, attack: str) -> str:
    if row is None:
        return "–"
    end = f"{frame.short(float(np.mean(row['error'])))} · {frame.percent(row['accuracy'])}"
    if attack == HONEST:
        return end
    # Of a centre nobody has a share by weight and length.
    share = "" if "estimator" in GUARDS[row["guard"]] else f" · {frame.percent(row['share'])}"
    return f"{frame.short(float(np.mean(row['chance'])))} ×{share} · {end}"
