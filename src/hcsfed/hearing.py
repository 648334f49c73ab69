"""What the server hears before it picks, what that costs, and how the picked then answer.

Most schemes hear nothing: the picked train and answer. Schemes that compare clients hear more; what a selector needs
stands in its claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from hcsfed.assemble import Parts
from hcsfed.clients import Updates
from hcsfed.record import BYTES_PER_FLOAT, Cost
from hcsfed.types import Ints, View


@dataclass(frozen=True, eq=False)
class Hearing:
    """The view of a round, its price so far, and a way to get the picked clients' whole updates."""

    view: View
    cost: Cost
    answer: Callable[[Ints], Iterator[Updates]]


def hear(parts: Parts, parameters: torch.Tensor, round: int) -> Hearing:
    """Ask the clients for what the selector needs to know."""
    federation, trainer, needs = parts.federation, parts.trainer, parts.selector.claims.needs
    everyone = np.arange(federation.clients)
    cost, losses = Cost(), None
    if "losses" in needs:
        losses = trainer.local_losses(parameters, everyone)
        cost += Cost(
            upload_bytes=BYTES_PER_FLOAT * federation.clients,
            download_bytes=BYTES_PER_FLOAT * trainer.dimension * federation.clients,
        )
    view = View(
        sizes=federation.sizes,
        weights=federation.weights,
        available=np.ones(federation.clients, bool),
        round=round,
        losses=losses,
        labels=federation.class_counts if "labels" in needs else None,
    )
    return Hearing(view, cost, lambda ids: trainer.train(parameters, ids, round))
