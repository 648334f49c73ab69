"""How much of a round adversaries decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hcsfed.assemble import Parts
from hcsfed.cli.study.path import Scene, again, lived


@dataclass(frozen=True)
class Influence:
    """What the attackers get of a round, in the mean over draws.

    Parameters
    ----------
    chance
        How likely an attacker is to be picked, in units of an honest client's chance.
    share
        Of Σ_i |weights_i|·‖u_i‖ over the answers that count, what is theirs.
    error
        ‖estimate − honest mean‖² / ‖honest mean‖².
    """

    chance: float
    share: float
    error: float


def influence(parts: Parts, path: Sequence[Scene], draws: int) -> Influence:
    """Live through all scenes but the last, and draw there many times."""
    who, picked = parts.adversaries.who, np.zeros(parts.federation.clients)
    shares, errors = [], []
    for asked, got in again(parts, lived(parts, path), path[-1], draws):
        picked[asked.ids] += 1
        strength = np.abs(got.selection.weights) * got.answers.norms
        shares.append(strength[who[got.answers.ids]].sum() / max(strength.sum(), np.finfo(float).tiny))
        errors.append(path[-1].error(got.estimate))
    chance = picked[who].mean() / picked[~who].mean() if who.any() else 1.0
    return Influence(float(chance), float(np.mean(shares)), float(np.mean(errors)))
