"""Along the path of honest full participation, as a server would live there with the clients that it has.

All selectors, guards and circumstances then meet the same updates, and what a round would have given with everyone is
known. The server remembers what it heard and learned from round to round, as in a run; only the model that comes out of
a round is not its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from hcsfed.aggregate import WeightedSum
from hcsfed.asking import Within, ask, learn, uncertain, within
from hcsfed.assemble import Parts
from hcsfed.collecting import Collected, collect
from hcsfed.hearing import Hearing, Kept, hear, wait
from hcsfed.standing import Standing, advance
from hcsfed.types import Selection
from hcsfed.updates import Updates


@dataclass(frozen=True, eq=False)
class Scene:
    """A round of the path: the model, what each client would honestly send, and the mean of it."""

    round: int
    parameters: torch.Tensor
    updates: Sequence[Updates]
    mean: torch.Tensor

    def error(self, estimate: torch.Tensor) -> float:
        """‖estimate − mean‖² / ‖mean‖²."""
        mean = self.mean.double()
        return float(((estimate.double() - mean) ** 2).sum() / (mean**2).sum())


def scenes(parts: Parts, rounds: int) -> list[Scene]:
    """The first rounds of full participation in which everyone is there and honest."""
    parameters, memory = parts.trainer.initial(), parts.server.start(parts.trainer.dimension)
    ids, found = np.arange(parts.federation.clients), list[Scene]()
    for t in range(rounds):
        chunks = [replace(c, vectors=c.vectors.clone()) for c in parts.trainer.train(parameters, ids, t)]
        total = WeightedSum(parts.trainer.dimension, parts.trainer.device)
        for chunk in chunks:
            total.add(chunk.vectors, parts.federation.weights[chunk.ids])
        found.append(Scene(t, parameters, chunks, total.value()))
        parameters, memory = parts.server.step(parameters, found[-1].mean, memory)
    return found


def lived(parts: Parts, path: Sequence[Scene]) -> Standing:
    """Where a server stands that went along, before the last of the scenes."""
    standing = Standing.first(parts)
    for scene in path[:-1]:
        standing = replace(standing, parameters=scene.parameters)
        now = within(parts, standing.reach, scene.round)
        heard = listen(parts, standing, scene, now)
        selector, asked = ask(parts, standing, now, heard.view)
        selection, _ = wait(parts, now, heard, asked)
        got = collect(parts, standing, heard, selection)
        standing = advance(parts, standing, selector, asked, got.answers, got.estimate)
        standing = replace(standing, reach=learn(parts, standing.reach, now, asked.ids, selection.ids))
    return replace(standing, parameters=path[-1].parameters)


def again(parts: Parts, standing: Standing, scene: Scene, draws: int) -> Iterator[tuple[Selection, Collected]]:
    """The same round many times, nothing remembered of it: who is asked, and what comes of it.

    It is drawn anew under the numbers of later rounds: who is there, who is picked, who answers.
    """
    changing = parts.settings.availability.name != "always" or uncertain(parts)
    now = within(parts, standing.reach, scene.round)
    heard = listen(parts, copied(standing), scene, now)
    for t in range(scene.round, scene.round + draws):
        fresh = copied(standing)
        if changing:
            now = within(parts, fresh.reach, t)
            heard = listen(parts, fresh, scene, now)
        _, asked = ask(parts, replace(fresh, round=t), now, heard.view)
        selection, _ = wait(parts, now, heard, asked)
        yield asked, collect(parts, fresh, heard, selection)


def listen(parts: Parts, standing: Standing, scene: Scene, now: Within) -> Hearing:
    """What the server hears before it picks, attackers' messages and guard included."""
    train = partial(parts.trainer.train, scene.parameters, round=scene.round)
    kept = Kept(parts, parts.adversaries.behind(train), parts.federation.clients)
    for chunk in parts.adversaries.sends(iter(scene.updates)):
        kept.add(chunk)
    heard = hear(parts, standing.heard, scene.parameters, scene.round, kept.answer, now)
    return replace(heard, view=parts.guard.view(heard.view))


def copied(standing: Standing) -> Standing:
    """The same standing with memories of its own: a round writes into them."""
    arrays = {name: array.copy() for name, array in standing.arrays().items()}
    return Standing.of(standing.round, arrays, standing.parameters.device)
