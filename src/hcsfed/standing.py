"""Where a run stands: what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray

from hcsfed.assemble import Parts
from hcsfed.select import start
from hcsfed.types import State

MEMORIES = ("notes", "heard", "algorithm", "estimator", "server")


@dataclass(frozen=True, eq=False)
class Standing:
    """Where a run stands after some rounds: with the settings, all that the next round depends on.

    Parameters
    ----------
    notes
        What the selector wrote down.
    heard
        What the server remembers of the clients' small messages.
    algorithm, estimator, server
        What each of them carries from round to round.
    """

    round: int
    parameters: torch.Tensor
    notes: State = field(default_factory=dict)
    heard: State = field(default_factory=dict)
    algorithm: State = field(default_factory=dict)
    estimator: State = field(default_factory=dict)
    server: State = field(default_factory=dict)

    @classmethod
    def first(cls, parts: Parts) -> Standing:
        """Before the first round."""
        return cls(
            round=0,
            parameters=parts.trainer.initial(),
            notes=start(parts.selector, parts.federation.clients),
            algorithm=parts.algorithm.start(parts.setup),
            estimator=parts.estimator.start(parts.setup),
            server=parts.server.start(parts.trainer.dimension),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        memories = {f"{head}.{name}": array for head in MEMORIES for name, array in getattr(self, head).items()}
        return {"parameters": self.parameters.cpu().numpy(), **memories}

    @classmethod
    def of(cls, round: int, arrays: Mapping[str, NDArray[Any]], device: torch.device) -> Standing:
        memories: dict[str, State] = {head: {} for head in MEMORIES}
        for name, array in arrays.items():
            head, _, rest = name.partition(".")
            if head in memories:
                memories[head][rest] = array
        return cls(round, torch.from_numpy(arrays["parameters"]).to(device), **memories)
