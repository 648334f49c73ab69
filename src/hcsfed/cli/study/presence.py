"""What it does to the estimate who is there and who answers: many rounds at one model, where updates stay the same.

Round after round the server finds some clients within reach, asks, waits, and weighs who answered, exactly as in a run.
Only the model does not move, so that the weights of all rounds can be held against the same updates.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hcsfed.asking import ask, learn, within
from hcsfed.assemble import Parts
from hcsfed.cli.study.path import Scene
from hcsfed.hearing import Kept, hear, wait
from hcsfed.standing import Standing
from hcsfed.theory import error_of, inner_products
from hcsfed.types import State


def presence(parts: Parts, scene: Scene, rounds: int, before: int) -> dict[str, Any]:
    """Bias² and variance of the weighted sum in units of ‖full‖², and how many answered, after some rounds to learn."""
    clients = parts.federation.clients
    train = partial(parts.trainer.train, scene.parameters)
    kept = Kept(parts, partial(train, round=scene.round), clients)
    for chunk in scene.updates:
        kept.add(chunk)
    drawn, answers, seconds = np.zeros((rounds, clients)), np.zeros(rounds), np.zeros(rounds)
    standing, reach, heard_of = Standing.first(parts), State(), State()
    for t in range(before + rounds):
        now = within(parts, reach, t)
        heard = hear(parts, heard_of, scene.parameters, t, kept.answer, now)
        _, asked = ask(parts, Standing(t, scene.parameters, standing.notes), now, heard.view)
        selection, waited = wait(parts, now, heard, asked)
        reach = learn(parts, reach, now, asked.ids, selection.ids)
        if t >= before:
            drawn[t - before, selection.ids] = selection.weights
            answers[t - before] = len(selection)
            seconds[t - before] = (heard.cost + waited).simulated_seconds
    gram = inner_products(np.concatenate([chunk.vectors.cpu().numpy() for chunk in scene.updates]))
    error = error_of(drawn, parts.federation.weights, gram)
    return {
        "bias2": error.bias2,
        "variance": error.variance,
        "noise": error.noise,
        "answers": float(answers.mean()),
        "seconds": float(seconds.mean()),
    }
