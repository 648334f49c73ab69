"""How likely each client answers, before the pick and after it, learned from who was asked and who came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hcsfed.select import ResponseRates, longer
from hcsfed.types import Floats, Ints, State

Kind = Literal["note", "answer"]
"""What everybody is asked for before the pick, or the picked for after it."""
KINDS: tuple[Kind, ...] = ("note", "answer")


@dataclass
class Responses:
    """Two records of who answers.

    Parameters
    ----------
    rates
        How chances follow from them; None: everyone counts as sure to answer.
    """

    rates: ResponseRates | None
    clients: int = 0
    records: dict[str, State] = field(default_factory=dict)

    def grow(self, clients: int) -> None:
        """More clients are there, of whom nothing is known."""
        if self.rates is not None:
            old, new = self.rates.start(self.clients), self.rates.start(clients)
            self.records = {kind: longer(self.records.get(kind, old), old, new) for kind in KINDS}
        self.clients = clients

    def chances(self, kind: Kind) -> Floats:
        """Of all clients."""
        return np.ones(self.clients) if self.rates is None else self.rates.chances(self.records[kind])

    def learn(self, kind: Kind, asked: Ints, came: Ints) -> None:
        """After a round."""
        if self.rates is not None:
            self.records[kind] = self.rates.observe(self.records[kind], asked, came)

    def arrays(self) -> State:
        """For the checkpoint."""
        return {f"responses.{kind}.{name}": a for kind, state in self.records.items() for name, a in state.items()}

    def take_up(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """What :meth:`arrays` gave."""
        for name, array in arrays.items():
            if name.startswith("responses."):
                _, kind, part = name.split(".")
                self.records.setdefault(kind, {})[part] = array
                self.clients = len(array)
