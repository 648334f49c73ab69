"""What the server hears before it picks, what that costs, and how the picked then answer.

Most schemes hear nothing: the picked train and answer. What else a selector needs stands in its claims. Features and
norms come in two ways. *Fresh*, as in the HCSFed paper: everyone trains and sends a small message, and the picked are
then asked for the update that they hold already. *Stale*: everyone trains and sends a small message in the first round;
later it comes with the answers of the picked, and of the others the server knows what it heard last. Where the selector
says so (``opening``), that first message is of a few local steps alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import psutil
import torch

from hcsfed.aggregate import row_norms
from hcsfed.assemble import Parts
from hcsfed.errors import DivergedError
from hcsfed.features import Context
from hcsfed.record import BYTES_PER_FLOAT, Cost
from hcsfed.rng import stream
from hcsfed.types import Answers, Floats, Ints, State, View
from hcsfed.updates import Updates

Train = Callable[[Ints], Iterator[Updates]]
"""Ids → what these clients send if they train in this round."""

VALIDATION_ROWS = 1000
PROBES = 4  # gradients from which a client tells how much its gradients scatter


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
    needs = parts.selector.claims.needs | (frozenset({"features"}) if parts.feature is not None else frozenset())
    everyone = np.arange(federation.clients)
    view = View(
        sizes=federation.sizes,
        weights=federation.weights,
        available=np.ones(federation.clients, bool),
        round=t,
        labels=federation.class_counts if "labels" in needs else None,
    )
    cost, context = Cost(), _context(parts, memory, t)
    if "losses" in needs:
        view = replace(view, losses=trainer.local_losses(parameters, everyone))
        cost += _asked(parts, everyone, floats=1)
    if "variances" in needs:
        view = replace(view, variances=_scatter(parts, parameters, everyone, t))
        cost += _asked(parts, everyone, floats=1, steps=PROBES)

    known = "norms" in memory or not needs & {"features", "norms"}
    if parts.selector.claims.trains == "picked" and known:
        view = replace(view, features=memory.get("features"), norms=memory.get("norms"), ages=memory.get("ages"))
        return Hearing(view, cost, context, train)

    opening = getattr(parts.selector, "opening", 0)
    if parts.selector.claims.trains == "picked" and opening:
        heard = join([listen(parts, chunk, context, t) for chunk in _first_steps(parts, parameters, everyone, opening)])
        _begin(memory, heard)
        width = 0 if heard.features is None else heard.features.shape[1]
        cost += _asked(parts, everyone, floats=int("norms" in needs), width=width)
        cost += Cost(local_steps=int(heard.steps.sum()))
        view = replace(view, features=heard.features, norms=heard.norms, ages=memory["ages"])
        return Hearing(view, cost, context, train, sent=True)

    kept = Kept(parts, train)
    validation = _validation(parts) if "accuracies" in needs else None
    messages, accuracies = [], []
    for chunk in train(everyone):
        messages.append(listen(parts, chunk, context, t))
        kept.add(chunk)
        if validation is not None:
            accuracies += [trainer.evaluate(parameters + vector, *validation)[1] for vector in chunk.vectors]
    heard = join(messages)
    view = replace(
        view, features=heard.features, norms=heard.norms, accuracies=np.array(accuracies) if accuracies else None
    )
    width = 0 if heard.features is None else heard.features.shape[1]
    cost += _asked(parts, everyone, floats=len(needs & {"norms", "accuracies"}), width=width)
    cost += Cost(local_steps=int(heard.steps.sum()))
    if parts.selector.claims.trains == "picked":
        # The opening of a stale run: what is heard now is what the server remembers.
        _begin(memory, heard)
    return Hearing(view, cost, context, kept.answer, trained=True, sent=True)


def _begin(memory: State, heard: Answers) -> None:
    """What everyone has sent once is what the server remembers."""
    memory.update(norms=heard.norms, ages=np.zeros(len(heard.ids), np.int64))
    if heard.features is not None:
        memory["features"] = heard.features


def _first_steps(parts: Parts, parameters: torch.Tensor, ids: Ints, steps: int) -> Iterator[Updates]:
    """Updates of a few steps, scaled to the number of steps of a round; what an algorithm adds is left out."""
    few = np.minimum(steps, parts.setup.steps[ids])
    for chunk in parts.trainer.train(parameters, ids, 0, steps=few):
        scale = torch.from_numpy(parts.setup.steps[chunk.ids] / np.maximum(chunk.steps, 1)).float()
        yield replace(chunk, vectors=chunk.vectors * scale.to(chunk.vectors.device)[:, None])


def remember(parts: Parts, memory: State, answers: Answers, estimate: torch.Tensor) -> State:
    """What the server knows of the clients after a round. Large arrays are written in place."""
    if "ages" in memory:
        memory["ages"] += 1
        memory["ages"][answers.ids] = 0
        memory["norms"][answers.ids] = answers.norms
        if answers.features is not None:
            memory["features"][answers.ids] = answers.features
    if parts.feature is not None:
        memory["aggregate"] = estimate.cpu().numpy()
    return memory


def price(parts: Parts, heard: Hearing, answers: Answers) -> Cost:
    """What the picked cost: the model down and an update up, with a small message where the server keeps one."""
    m = len(answers.ids)
    model = BYTES_PER_FLOAT * parts.trainer.dimension * parts.algorithm.vectors * m
    extra = parts.algorithm.extra_steps(parts.setup, answers.ids)
    if heard.trained:
        return Cost(upload_bytes=model, local_steps=extra)
    note = 0
    if parts.feature is not None and answers.features is not None:
        note = m * parts.feature.nbytes(answers.features.shape[1])
    download = 0 if heard.sent else model
    return Cost(upload_bytes=model + note, download_bytes=download, local_steps=int(answers.steps.sum()) + extra)


def listen(parts: Parts, chunk: Updates, context: Context, t: int) -> Answers:
    """What the server may learn from these clients' updates."""
    norms = row_norms(chunk.vectors)
    if not np.isfinite(norms).all():
        client = chunk.ids[~np.isfinite(norms)][0]
        raise DivergedError(
            f"the update of client {client} is not finite in round {t + 1}; local.lr is "
            f"{parts.settings.local.lr:g}: try a smaller one"
        )
    features = None
    if parts.feature is not None:
        labels = parts.federation.class_counts[chunk.ids] if parts.federation.classes else None
        features = parts.feature.encode(chunk.vectors, replace(context, ids=chunk.ids, labels=labels))
    return Answers(chunk.ids, norms, chunk.losses, chunk.steps, features)


def join(messages: Sequence[Answers]) -> Answers:
    """Chunks end to end."""
    if not messages:
        return Answers(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    features = [m.features for m in messages if m.features is not None]
    return Answers(
        np.concatenate([m.ids for m in messages]),
        np.concatenate([m.norms for m in messages]),
        np.concatenate([m.losses for m in messages]),
        np.concatenate([m.steps for m in messages]),
        np.concatenate(features) if features else None,
    )


class Kept:
    """Everyone's updates of one round, as far as memory allows; beyond that, who is asked trains again to the same."""

    def __init__(self, parts: Parts, train: Train) -> None:
        self._train = train
        wanted = BYTES_PER_FLOAT * parts.trainer.dimension * parts.federation.clients
        self._fits = parts.trainer.device.type == "cpu" and wanted < psutil.virtual_memory().available / 4
        self._chunks: list[Updates] = []

    def add(self, chunk: Updates) -> None:
        if self._fits:
            self._chunks.append(chunk)

    def answer(self, ids: Ints) -> Iterator[Updates]:
        if not self._fits:
            yield from self._train(ids)
        # Everyone trained in the order of the numbers, so a chunk holds a stretch of them.
        for chunk in self._chunks:
            at = ids[(ids >= chunk.ids[0]) & (ids <= chunk.ids[-1])] - chunk.ids[0]
            if len(at):
                yield Updates(chunk.ids[at], chunk.vectors[at], chunk.losses[at], chunk.steps[at])


def _context(parts: Parts, memory: State, t: int) -> Context:
    return Context(
        seed=parts.settings.seed,
        round=t,
        aggregate=memory.get("aggregate"),
        output_bias=parts.output_bias,
    )


def _asked(parts: Parts, ids: Ints, *, floats: int, width: int = 0, steps: int = 0) -> Cost:
    """Everyone gets the model and sends some numbers and a feature."""
    note = BYTES_PER_FLOAT * floats + (parts.feature.nbytes(width) if parts.feature is not None and width else 0)
    return Cost(
        upload_bytes=note * len(ids),
        download_bytes=BYTES_PER_FLOAT * parts.trainer.dimension * parts.algorithm.vectors * len(ids),
        local_steps=steps * len(ids),
    )


def _validation(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Rows that the server holds: drawn from the clients', never the test set, which must not choose."""
    federation = parts.federation
    rows = int(federation.offsets[-1])
    picked = stream(parts.settings.seed, "validation").choice(rows, min(rows, VALIDATION_ROWS), replace=False)
    picked.sort()
    return federation.x[picked], federation.y[picked]


def _scatter(parts: Parts, parameters: torch.Tensor, ids: Ints, t: int) -> Floats:
    """Each client's E‖g − E g‖² over minibatch gradients g at these parameters, from a few steps of one minibatch."""
    work, one = parts.settings.local, np.ones(len(ids), np.int64)
    total = np.zeros(len(ids))
    rates = [work.lr * work.lr_decay ** (t + j) for j in range(PROBES)]
    probes = [parts.trainer.train(parameters, ids, t + j, steps=one) for j in range(PROBES)]
    done = 0
    for chunks in zip(*probes, strict=True):
        gradients = torch.stack([chunk.vectors.double() / rate for chunk, rate in zip(chunks, rates, strict=True)])
        scatter = gradients.var(dim=0).sum(dim=1).cpu().numpy()
        total[done : done + len(scatter)] = scatter
        done += len(scatter)
    return total
