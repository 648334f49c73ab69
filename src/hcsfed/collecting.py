"""What the server makes of the answers: who counts, how far an update may go, and what all of them estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from hcsfed.assemble import Parts
from hcsfed.hearing import Hearing, Kept, listen, usable
from hcsfed.memory import count, join, stale
from hcsfed.standing import Standing
from hcsfed.types import Answers, Bools, Floats, Selection
from hcsfed.updates import Updates


@dataclass(frozen=True, eq=False)
class Collected:
    """What a round brought.

    Parameters
    ----------
    estimate
        Of the mean update.
    selection, answers
        Of those who count.
    received
        All that was received, which is what a round costs.
    """

    estimate: torch.Tensor
    selection: Selection
    answers: Answers
    received: Answers


def collect(parts: Parts, standing: Standing, heard: Hearing, selection: Selection) -> Collected:
    """Receive the updates of the picked, leave out what is not finite, and make the estimate of the others.

    The weights of the others stay as they are: they are right whoever else answers.
    """
    t = standing.round
    kept = Kept(parts, heard.answer, len(selection.ids))
    messages: list[Answers] = []
    for chunk in heard.answer(selection.ids):
        messages.append(listen(parts, chunk, heard.context))
        kept.add(chunk)
    received = join(messages)
    if stale(parts):  # a feature comes with the answer
        count(parts, standing.heard, received.ids, parts.federation.clients)
    finite = usable(parts, standing.heard, received, t)
    measured = only(received, finite)
    said = replace(parts.adversaries.says(measured), norms=measured.norms)  # the norm of what is here needs no claim
    answers = parts.guard.answers(said, standing.heard)
    scale = np.divide(answers.norms, measured.norms, out=np.ones(len(measured.ids)), where=measured.norms > 0)
    left_out = np.union1d(selection.info.get("left_out", answers.ids[:0]), received.ids[~finite])
    used = replace(
        selection,
        ids=answers.ids,
        weights=selection.weights[finite],
        info={**selection.info, "left_out": left_out},
    )

    parts.algorithm.open(parts.setup, standing.algorithm, standing.parameters, heard.view)
    total = parts.estimator.open(parts.setup, standing.estimator, heard.view, used)
    done = 0
    for chunk in kept.answer(answers.ids):
        here = slice(done, done + len(chunk.ids))
        chunk = shortened(chunk, scale[here])
        total.add(chunk, used.weights[here])
        parts.algorithm.learn(parts.setup, standing.algorithm, standing.parameters, chunk, t)
        done += len(chunk.ids)
    return Collected(total.value(), used, answers, received)


def only(answers: Answers, at: Bools) -> Answers:
    """The answers of some."""
    return Answers(
        answers.ids[at],
        answers.norms[at],
        answers.losses[at],
        answers.steps[at],
        None if answers.features is None else answers.features[at],
        None if answers.seconds is None else answers.seconds[at],
    )


def shortened(updates: Updates, scale: Floats) -> Updates:
    """Each update times its own number in [0, 1]; as it is where all are 1."""
    if (scale == 1).all():
        return updates
    factors = torch.from_numpy(scale).to(updates.vectors)
    return replace(updates, vectors=updates.vectors * factors[:, None])
