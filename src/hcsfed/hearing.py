"""What the server hears before it picks, what that costs, and how the picked then answer.

Most schemes hear nothing: the picked train and answer. What else a selector needs stands in its claims. Features and
norms come in two ways. *Fresh*, as in the HCSFed paper: everyone within reach trains and sends a small message, and the
picked are then asked for the update that they hold already. *Stale*: a client trains and sends a small message in the
first round in which it is within reach; later it comes with the answers of the picked, and of the others the server
knows what it heard last. Where the selector says so (``opening``), that first message is of a few local steps alone.
First messages have no deadline and are never lost: the round waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from hcsfed.aggregate import row_norms
from hcsfed.asking import Within, lasts
from hcsfed.assemble import Parts
from hcsfed.clients import LocalTraining, Trainer
from hcsfed.errors import DivergedError
from hcsfed.features import Context
from hcsfed.memory import (
    PROBES,
    asked,
    claimed,
    count,
    join,
    meet,
    needs,
    note,
    nothing,
    recalled,
    stale,
    unmet,
    width,
)
from hcsfed.record import BYTES_PER_FLOAT, Cost
from hcsfed.rng import stream
from hcsfed.select import answered
from hcsfed.types import Answers, Bools, Floats, Ints, Selection, State, View
from hcsfed.updates import Updates

Train = Callable[[Ints], Iterator[Updates]]
"""Ids → what these clients send if they train in this round."""

VALIDATION_ROWS = 1000
IN_A_ROW = 3  # clients who send no numbers: one may mean harm, so many have diverged


@dataclass(frozen=True, eq=False)
class Hearing:
    """The view of a round, its price so far, and how the picked answer.

    Parameters
    ----------
    answer
        Ids → the whole updates of these clients.
    trained
        Who has trained already, so that an answer costs no more than its upload, and is sure to come.
    sent
        Who has this round's model already.
    """

    view: View
    cost: Cost
    context: Context
    answer: Train
    trained: Bools
    sent: Bools


def hear(parts: Parts, memory: State, parameters: torch.Tensor, t: int, train: Train, now: Within) -> Hearing:
    """Ask the clients within reach for what the selector needs to know."""
    federation, trainer, n = parts.federation, parts.trainer, parts.federation.clients
    wanted = needs(parts)
    reached = np.flatnonzero(now.available)
    view = View(
        sizes=federation.sizes,
        weights=now.weights,
        available=now.available,
        round=t,
        labels=federation.class_counts if "labels" in wanted else None,
    )
    nobody = np.zeros(n, bool)
    begun = Hearing(view, Cost(), _context(parts, memory, t), train, trained=nobody, sent=nobody)
    if "losses" in wanted:
        losses = _spread(trainer.local_losses(parameters, reached), reached, n)
        begun = _told(begun, asked(parts, len(reached), floats=1), losses=parts.adversaries.claims(losses))
    if "variances" in wanted:
        variances = _spread(scatter(trainer, parts.settings.local, parameters, reached, t), reached, n)
        cost = asked(parts, len(reached), floats=1, steps=PROBES)
        begun = _told(begun, cost, variances=parts.adversaries.claims(variances))
    if not stale(parts):
        return _fresh(parts, begun, wanted, memory, parameters, now)
    if not wanted & {"features", "norms"}:
        return begun
    if "norms" not in memory and getattr(parts.selector, "unseen", "heard") == "zero":
        meet(memory, nothing(parts, n, begun.context), n)
    new = unmet(memory, reached, n)
    if len(new):
        begun = _first(parts, begun, wanted, memory, parameters, new)
    return replace(begun, view=recalled(begun.view, memory))


def _first(
    parts: Parts, begun: Hearing, wanted: frozenset[str], memory: State, parameters: torch.Tensor, new: Ints
) -> Hearing:
    """Whoever is within reach for the first time sends a small message: at the start, everybody who is."""
    t, trainer, steps = begun.view.round, parts.trainer, parts.setup.steps
    opening = getattr(parts.selector, "opening", 0)
    few = parts.adversaries.sends(first_steps(trainer, steps, parameters, new, opening, t)) if opening else None
    heard = join([listen(parts, chunk, begun.context) for chunk in few or begun.answer(new)])
    heard = _small(parts, memory, heard, t)
    meet(memory, heard, parts.federation.clients)
    taken = np.minimum(opening or steps, steps)
    cost = asked(parts, len(new), floats=int("norms" in wanted), width=width(heard)) + Cost(
        local_steps=int(heard.steps.sum()),
        simulated_seconds=float(parts.speed.seconds(parts.people, taken, t)[new].max()),
    )
    sent = begun.sent.copy()
    sent[new] = True
    return replace(_told(begun, cost), trained=begun.trained if opening else sent, sent=sent)


def _fresh(
    parts: Parts, begun: Hearing, wanted: frozenset[str], memory: State, parameters: torch.Tensor, now: Within
) -> Hearing:
    """Everyone within reach trains; those whose small message comes in time can be picked."""
    prompt = now.available & now.prompt
    kept = Kept(parts, begun.answer, int(prompt.sum()))
    validation = _validation(parts) if "accuracies" in wanted else None
    messages, accuracies = [], []
    for chunk in begun.answer(np.flatnonzero(prompt)):
        messages.append(listen(parts, chunk, begun.context))
        kept.add(chunk)
        if validation is not None:
            accuracies += [parts.trainer.evaluate(parameters + v, *validation)[1] for v in chunk.vectors]
    heard, n = _small(parts, memory, join(messages), begun.view.round), len(prompt)
    view = replace(begun.view, available=prompt)
    if len(heard.ids):
        view = replace(
            view,
            features=None if heard.features is None else _spread(heard.features, heard.ids, n),
            norms=_spread(heard.norms, heard.ids, n),
            accuracies=_spread(np.array(accuracies), heard.ids, n) if accuracies else None,
        )
    whom = np.flatnonzero(now.available)
    floats = len(wanted & {"norms", "accuracies"})
    cost = asked(parts, len(whom), floats=0) + Cost(
        upload_bytes=note(parts, floats=floats, width=width(heard)) * len(heard.ids),
        local_steps=int(parts.setup.steps[whom].sum()),
        simulated_seconds=lasts(parts, now, whom, prompt[whom]),
    )
    told = _told(replace(begun, view=view), cost)
    return replace(told, answer=kept.answer, trained=now.available, sent=now.available)


def _small(parts: Parts, memory: State, heard: Answers, t: int) -> Answers:
    """The small messages as they arrive: norms give away no more than features do, and liars have changed theirs."""
    count(parts, memory, heard.ids, parts.federation.clients)
    heard = parts.adversaries.says(replace(heard, norms=claimed(parts, heard)))
    usable(parts, memory, heard, t)
    return heard


def _told(hearing: Hearing, cost: Cost, **signals: Any) -> Hearing:
    """The same with more in the view, at a price."""
    return replace(hearing, view=replace(hearing.view, **signals), cost=hearing.cost + cost)


def _spread(values: NDArray[Any], ids: Ints, clients: int) -> Any:
    """A row for each client, NaN for those that were not heard."""
    if len(ids) == clients:
        return values
    whole = np.full((clients, *values.shape[1:]), np.nan, values.dtype)
    whole[ids] = values
    return whole


def wait(parts: Parts, now: Within, heard: Hearing, asked: Selection) -> tuple[Selection, Cost]:
    """Those of the asked whose answer comes, weighed for those whose answer does not, and how long that took."""
    idle = ~heard.trained[asked.ids]
    came = now.prompt[asked.ids] | ~idle
    chances = np.where(heard.trained, 1.0, now.chances)
    selection = answered(asked, came, chances, floor=parts.settings.reach.floor)
    if not stale(parts) or (len(idle) and not idle.any()):
        return selection, Cost()
    return selection, Cost(simulated_seconds=lasts(parts, now, asked.ids[idle], came[idle]))


def first_steps(
    trainer: Trainer, whole: Ints, parameters: torch.Tensor, ids: Ints, steps: int, t: int = 0
) -> Iterator[Updates]:
    """Updates of a few steps, scaled to the ``whole`` number of a round; what an algorithm adds is left out."""
    few = np.minimum(steps, whole[ids])
    for chunk in trainer.train(parameters, ids, t, steps=few):
        scale = torch.from_numpy(whole[chunk.ids] / np.maximum(chunk.steps, 1)).float()
        yield replace(chunk, vectors=chunk.vectors * scale.to(chunk.vectors.device)[:, None])


def listen(parts: Parts, chunk: Updates, context: Context) -> Answers:
    """What the server may learn from these clients' updates."""
    norms = row_norms(chunk.vectors)
    features = None
    if parts.feature is not None:
        labels = parts.federation.class_counts[chunk.ids] if parts.federation.classes else None
        features = parts.feature.encode(chunk.vectors, replace(context, ids=chunk.ids, labels=labels))
    return Answers(chunk.ids, norms, chunk.losses, chunk.steps, features, sent=chunk.sent)


def usable(parts: Parts, memory: State, answers: Answers, t: int) -> Bools:
    """Whose answers are finite. Where of several clients in a row nobody's is, it is the training that went wrong."""
    finite: Bools = np.isfinite(answers.norms)
    if finite.any():
        memory.pop("refused", None)
    elif len(finite):
        refused = int(memory.get("refused", np.zeros(1, np.int64))[0]) + len(finite)
        memory["refused"] = np.array([refused])
        if refused >= min(IN_A_ROW, parts.federation.clients):
            raise DivergedError(
                f"no update is finite of {refused} in a row, the one of client {answers.ids[0]} in round {t + 1}; "
                f"local.lr is {parts.settings.local.lr:g}: try a smaller one"
            )
    return finite


class Kept:
    """Updates of one round, as far as memory allows; beyond that, who is asked again trains again to the same."""

    def __init__(self, parts: Parts, train: Train, clients: int) -> None:
        self._train = train
        device = parts.trainer.device
        free = psutil.virtual_memory().available if device.type == "cpu" else torch.cuda.mem_get_info(device)[0]
        self._fits = BYTES_PER_FLOAT * parts.trainer.dimension * clients < free / 4
        self._chunks: list[Updates] = []

    def add(self, chunk: Updates) -> None:
        if self._fits:
            self._chunks.append(chunk)

    def answer(self, ids: Ints) -> Iterator[Updates]:
        if not self._fits:
            yield from self._train(ids)
        for chunk in self._chunks:
            at = np.flatnonzero(np.isin(chunk.ids, ids))
            if len(at):
                yield chunk.only(at)


def _context(parts: Parts, memory: State, t: int) -> Context:
    return Context(
        seed=parts.settings.seed,
        round=t,
        aggregate=None if stale(parts) else memory.get("aggregate"),  # one codebook as long as old vectors count
        output_bias=parts.output_bias,
    )


def _validation(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Rows that the server holds: drawn from the clients', never the test set, which must not choose."""
    federation = parts.federation
    rows = int(federation.offsets[-1])
    picked = stream(parts.settings.seed, "validation").choice(rows, min(rows, VALIDATION_ROWS), replace=False)
    picked.sort()
    return federation.x[picked], federation.y[picked]


def scatter(trainer: Trainer, work: LocalTraining, parameters: torch.Tensor, ids: Ints, t: int) -> Floats:
    """Each client's E‖g − E g‖² over minibatch gradients g at these parameters, from a few steps of one minibatch."""
    one = np.ones(len(ids), np.int64)
    total = np.zeros(len(ids))
    rates = [work.lr * work.lr_decay ** (t + j) for j in range(PROBES)]
    probes = [trainer.train(parameters, ids, t + j, steps=one) for j in range(PROBES)]
    done = 0
    for chunks in zip(*probes, strict=True):
        gradients = torch.stack([chunk.vectors.double() / rate for chunk, rate in zip(chunks, rates, strict=True)])
        scatter = gradients.var(dim=0).sum(dim=1).cpu().numpy()
        total[done : done + len(scatter)] = scatter
        done += len(scatter)
    return total
