"""What the server hears before it picks, what that costs, and how the picked then answer.

Most schemes hear nothing: the picked train and answer. What else a selector needs stands in its claims. Features and
norms come in two ways. *Fresh*, as in the HCSFed paper: everyone trains and sends a small message, and the picked are
then asked for the update that they hold already. *Stale*: everyone trains and sends a small message in the first round;
later it comes with the answers of the picked, and of the others the server knows what it heard last. Where the selector
says so (``opening``), that first message is of a few local steps alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import psutil
import torch

from hcsfed.aggregate import row_norms
from hcsfed.assemble import Parts
from hcsfed.clients import LocalTraining, Trainer
from hcsfed.errors import DivergedError
from hcsfed.features import Context
from hcsfed.memory import PROBES, asked, begin, join, needs, nothing, recalled, stale
from hcsfed.record import BYTES_PER_FLOAT, Cost
from hcsfed.rng import stream
from hcsfed.types import Answers, Bools, Floats, Ints, State, View
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
        Whether they have trained already, so that an answer costs no more than its upload.
    sent
        Whether they have this round's model already.
    """

    view: View
    cost: Cost
    context: Context
    answer: Train
    trained: bool = False
    sent: bool = False


def hear(parts: Parts, memory: State, parameters: torch.Tensor, t: int, train: Train) -> Hearing:
    """Ask the clients for what the selector needs to know."""
    federation, trainer = parts.federation, parts.trainer
    wanted = needs(parts)
    everyone = np.arange(federation.clients)
    view = View(
        sizes=federation.sizes,
        weights=federation.weights,
        available=np.ones(federation.clients, bool),
        round=t,
        labels=federation.class_counts if "labels" in wanted else None,
    )
    cost, context = Cost(), _context(parts, memory, t)
    if "losses" in wanted:
        view = replace(view, losses=parts.adversaries.claims(trainer.local_losses(parameters, everyone)))
        cost += asked(parts, len(everyone), floats=1)
    if "variances" in wanted:
        scatters = scatter(trainer, parts.settings.local, parameters, everyone, t)
        view = replace(view, variances=parts.adversaries.claims(scatters))
        cost += asked(parts, len(everyone), floats=1, steps=PROBES)

    known = "norms" in memory or not wanted & {"features", "norms"}
    if stale(parts) and known:
        return Hearing(recalled(view, memory), cost, context, train)

    if stale(parts) and getattr(parts.selector, "unseen", "heard") == "zero":
        begin(memory, nothing(parts, federation.clients, context))
        return Hearing(recalled(view, memory), cost, context, train)

    opening = getattr(parts.selector, "opening", 0)
    if stale(parts) and opening:
        chunks = first_steps(trainer, parts.setup.steps, parameters, everyone, opening)
        messages = [listen(parts, chunk, context) for chunk in parts.adversaries.sends(chunks)]
        heard = parts.adversaries.says(join(messages))
        usable(parts, memory, heard, t)
        begin(memory, heard)
        width = 0 if heard.features is None else heard.features.shape[1]
        cost += asked(parts, len(everyone), floats=int("norms" in wanted), width=width)
        cost += Cost(local_steps=int(heard.steps.sum()))
        return Hearing(recalled(view, memory), cost, context, train, sent=True)

    kept = Kept(parts, train, federation.clients)
    validation = _validation(parts) if "accuracies" in wanted else None
    messages, accuracies = [], []
    for chunk in train(everyone):
        messages.append(listen(parts, chunk, context))
        kept.add(chunk)
        if validation is not None:
            accuracies += [trainer.evaluate(parameters + vector, *validation)[1] for vector in chunk.vectors]
    heard = parts.adversaries.says(join(messages))
    usable(parts, memory, heard, t)
    view = replace(
        view, features=heard.features, norms=heard.norms, accuracies=np.array(accuracies) if accuracies else None
    )
    width = 0 if heard.features is None else heard.features.shape[1]
    cost += asked(parts, len(everyone), floats=len(wanted & {"norms", "accuracies"}), width=width)
    cost += Cost(local_steps=int(heard.steps.sum()))
    if stale(parts):
        # The opening of a stale run: what is heard now is what the server remembers.
        begin(memory, heard)
    return Hearing(view, cost, context, kept.answer, trained=True, sent=True)


def first_steps(trainer: Trainer, whole: Ints, parameters: torch.Tensor, ids: Ints, steps: int) -> Iterator[Updates]:
    """Updates of a few steps, scaled to the ``whole`` number of a round; what an algorithm adds is left out."""
    few = np.minimum(steps, whole[ids])
    for chunk in trainer.train(parameters, ids, 0, steps=few):
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
        aggregate=memory.get("aggregate"),
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
