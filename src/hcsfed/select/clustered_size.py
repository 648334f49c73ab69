"""Clustered sampling by sizes: one draw from each of m urns that hold clients of like size.

Fraboni, Vidal, Kameni, Lorenzi, "Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection
in Federated Learning", ICML 2021, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hcsfed.select.contract import Claims
from hcsfed.select.urns import Pieces, draw, whole_sizes
from hcsfed.types import Ints, Selection, View


@dataclass(frozen=True)
class ClusteredSize:
    """Clients in descending order of n_k fill urn after urn, M tokens each; each urn names one client.

    Needs nothing, the picked alone train. A client's copies are spread over as few urns as possible, so it is drawn
    ⌊m·ω_k⌋ or a little more times: fewer repetitions than ``md``, the same expectation. Fewer than m distinct clients
    may answer.

    Left open by the source: who comes first among clients of one size. Here a coin decides, anew in every round, so
    that a client's number has no say in whom it shares an urn with.
    """

    name: ClassVar[str] = "clustered-size"
    claims: ClassVar[Claims] = Claims(unbiased=True, fixed_size=False)

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        sizes = whole_sizes(view, size)
        return draw(by_size(sizes, size, rng), size, int(sizes.sum()), view.clients, rng)


def by_size(sizes: Ints, m: int, rng: np.random.Generator) -> Pieces:
    """The clients' m·n_k tokens, largest first."""
    order = np.lexsort((rng.random(len(sizes)), -sizes))
    return Pieces(order, m * sizes[order])
