"""Who can be asked in a round, whose answers come in time, what that does to the weights, and how long it takes.

The simulation knows the whole of it beforehand. The server sees who is within reach, asks, waits until all have
answered or until the deadline, and knows of everyone's chances what ``reach.response`` and ``reach.absence`` grant it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from hcsfed.assemble import Parts
from hcsfed.memory import stale
from hcsfed.record import Cost
from hcsfed.rng import stream
from hcsfed.select import ResponseRates, Selector, to_ask
from hcsfed.standing import Standing, choose
from hcsfed.types import Bools, Floats, Ints, Selection, State, View

RATES = ResponseRates()


@dataclass(frozen=True, eq=False)
class Within:
    """The circumstances of a round.

    Parameters
    ----------
    available
        Who can be asked.
    prompt
        Whose answer would come, and in time.
    seconds
        How long each would take for a round's local work.
    weights
        What the design is to weigh clients by: ω_k, divided by the chances that are corrected for before the pick.
    whole
        What these weights would sum to on average if nobody were out of reach: the sum of ω over whom the round stands
        for.
    chances
        q_k, which the weights of those who were picked and answered are to be divided by.
    likely
        What the server thinks that a client answers with, whether weights are corrected for it or not.
    """

    available: Bools
    prompt: Bools
    seconds: Floats
    weights: Floats
    whole: float
    chances: Floats
    likely: Floats


def within(parts: Parts, memory: State, t: int) -> Within:
    """Who can be asked in round t, and what would come of it."""
    told, people, steps = parts.settings.reach, parts.people, parts.setup.steps
    ones = np.ones(people.clients)
    available = parts.availability.available(people, t)
    seconds = parts.speed.seconds(people, steps, t)
    prompt, likely = ones.astype(bool), ones
    if uncertain(parts):
        prompt = stream(people.seed, "lost answers", t).random(people.clients) >= told.lost
        if told.deadline:
            prompt &= seconds <= told.deadline
        likely = (
            RATES.chances(_part(memory, "reply", people.clients))
            if told.response != "known"
            else _true_chances(parts, t)
        )
    corrected = ones if told.response == "ignore" else np.maximum(likely, told.floor)
    if told.absence == "ignore":
        weights, whole = parts.federation.weights, float(parts.federation.weights[available].sum())
    else:
        known = told.absence == "known"
        present = parts.availability.chances(people, t) if known else _presence(memory, available)
        weights, whole = parts.federation.weights / np.maximum(present, told.floor), 1.0
    if not stale(parts):  # what is late or lost then is lost before the pick, and no answer after it
        return Within(available, prompt, seconds, weights / corrected, whole, ones, ones)
    return Within(available, prompt, seconds, weights, whole, corrected, likely)


def everyone(parts: Parts) -> Within:
    """All within reach, and every answer in time."""
    ones = np.ones(parts.federation.clients)
    sure = ones.astype(bool)
    return Within(sure, sure, np.zeros(len(ones)), parts.federation.weights, 1.0, ones, ones)


def learn(parts: Parts, memory: State, now: Within, asked: Ints, came: Ints) -> State:
    """What the server has learned once the round is over."""
    told, clients = parts.settings.reach, parts.people.clients
    if not stale(parts):
        asked, came = np.flatnonzero(now.available), np.flatnonzero(now.available & now.prompt)
    new: State = {}
    if uncertain(parts) and told.response != "known":
        new |= _named("reply", RATES.observe(_part(memory, "reply", clients), asked, came))
    if told.absence == "estimated":
        there = np.flatnonzero(now.available)
        new |= _named("present", RATES.observe(_part(memory, "present", clients), np.arange(clients), there))
    return new


def ask(parts: Parts, standing: Standing, now: Within, view: View) -> tuple[Selector, Selection]:
    """Pick whom to ask; weights stand for those within reach, or for everyone where absence is corrected for."""
    size, factor = parts.size, parts.settings.reach.over_select
    if stale(parts):
        reached = view.available & (view.weights > 0)
        enough = to_ask(size, now.likely[reached], int(reached.sum())) if reached.any() else size
        size = min(view.clients, ceil(size * factor - 1e-9)) if factor else max(enough, 1)
    selector, picked = choose(parts, standing, view, parts.settings.seed, size)
    if not len(picked):
        return selector, picked
    share = float(view.weights[view.available].sum()) / now.whole
    return selector, replace(picked, weights=picked.weights * share, info={**picked.info, "share": share})


def circumstances(parts: Parts, now: Within, asked: Selection, cost: Cost) -> dict[str, int | float | None]:
    """What a round's line says of them; no seconds where there is no clock."""
    return {
        "reachable": int(now.available.sum()),
        "asked": len(asked),
        "simulated_seconds": cost.simulated_seconds if parts.speed.timed else None,
    }


def lasts(parts: Parts, now: Within, asked: Ints, came: Bools) -> float:
    """Simulated seconds until all who were asked have answered, or until the deadline."""
    if came.all() and len(asked):
        return float(now.seconds[asked].max())
    return parts.settings.reach.deadline


def uncertain(parts: Parts) -> bool:
    """Whether an answer may fail to come."""
    return parts.settings.reach.lost > 0 or parts.settings.reach.deadline > 0


def _true_chances(parts: Parts, t: int) -> Floats:
    told = parts.settings.reach
    in_time = (
        parts.speed.chances(parts.people, parts.setup.steps, t, told.deadline)
        if told.deadline
        else np.ones(parts.people.clients)
    )
    return np.asarray((1 - told.lost) * in_time)


def _presence(memory: State, available: Bools) -> Floats:
    """Chances of being within reach, from earlier rounds; how many are there now tells of all, but not of each."""
    past = _part(memory, "present", len(available))
    pool = (past["came"].sum() + available.sum()) / (past["asked"].sum() + len(available))
    return RATES.chances(past, float(pool))


def _part(memory: State, head: str, clients: int) -> State:
    """One of the two records, empty at first."""
    if f"{head}.asked" not in memory:
        return RATES.start(clients)
    return {name: memory[f"{head}.{name}"] for name in ("asked", "came")}


def _named(head: str, rates: State) -> State:
    return {f"{head}.{name}": array for name, array in rates.items()}
