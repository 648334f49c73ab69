"""Clustered sampling by similarity: one draw from each of m urns that hold clients with like updates.

Fraboni, Vidal, Kameni, Lorenzi, "Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection
in Federated Learning", ICML 2021, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hcsfed.errors import bad
from hcsfed.select.contract import Claims
from hcsfed.select.refresh import Refresh, check_refresh, who_trains
from hcsfed.select.urns import Pieces, draw, whole_sizes
from hcsfed.select.ward import Distance, condensed, cut, ward
from hcsfed.types import Floats, Ints, Selection, View


@dataclass(frozen=True)
class ClusteredUpdates:
    """Ward's clusters of the clients' last known updates seed the urns; each urn names one client.

    Needs features: the last known updates (or a feature of them), zero vectors for clients never seen. The picked alone
    train. Distances are the paper's ``arccos``, ``l2`` or ``l1``; from 1,000 clients on, features wider than ``sketch``
    are projected to so many dimensions first (0: never), see :func:`hcsfed.select.ward.condensed`.

    Two departures from the text. It asks for clusters of at most M tokens, which don't exist once some ω_k > 1/m: its
    rule is then silently biased (ω = (½, …), m = 3). Here a client first gets the ⌊m·ω_k⌋ whole urns that it fills, and
    the tree is cut over what remains of everyone. And ties, of distance and of cluster size, are broken by coin.

    The cut is the text's: one level of the tree, the highest whose clusters all fit an urn. The largest clusters take
    an urn each, the rest is poured into what room is left.

    With ``unseen="heard"`` everyone trains and sends its update in the first round; with ``"zero"``, as in the source,
    nobody does, and a client is a vector of zeros until it has been picked.

    Parameters
    ----------
    refresh, max_age
        As in :class:`~hcsfed.select.hybrid.Hybrid`.
    """

    distance: Distance = "arccos"
    sketch: int = 256
    unseen: Literal["heard", "zero"] = "heard"
    refresh: Refresh = "stale"
    max_age: int = 0

    name: ClassVar[str] = "clustered-updates"

    def __post_init__(self) -> None:
        check_refresh(self.name, self.refresh, self.max_age)

    @property
    def claims(self) -> Claims:
        return Claims(True, False, frozenset({"features"}), who_trains(self.refresh))

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        if self.unseen not in ("heard", "zero"):
            raise bad("unseen", self.name, "'heard' or 'zero'", self.unseen)
        if self.distance not in ("arccos", "l2", "l1"):
            raise bad("distance", self.name, "'arccos', 'l2' or 'l1'", self.distance)
        if view.features is None:
            raise bad("view", self.name, "given with features", None)
        order = rng.permutation(view.clients)
        sizes = whole_sizes(view, size)
        tree = ward(condensed(view.features[order], self.distance, self.sketch))
        pieces, labels = by_likeness(tree, sizes[order], size)
        of_rows = np.empty(view.clients, np.int64)
        of_rows[order] = labels
        pieces = Pieces(order[pieces.clients], pieces.tokens)
        return draw(pieces, size, int(sizes.sum()), view.clients, rng, labels=of_rows)


def by_likeness(tree: Floats, sizes: Ints, m: int) -> tuple[Pieces, Ints]:
    """The clients' m·n_k tokens in urns of Σn: first the urns that one client fills alone, then the rest by cluster."""
    total = int(sizes.sum())
    whole, rest = np.divmod(m * sizes, total)
    labels = clusters(tree, rest, total)
    filled = fill(labels, rest, total)
    clients = np.concatenate([np.flatnonzero(whole), filled.clients])
    return Pieces(clients, np.concatenate([whole[whole > 0] * total, filled.tokens])), labels


def clusters(tree: Floats, tokens: Ints, room: int) -> Ints:
    """The highest level of the tree at which no cluster holds more than ``room`` tokens."""
    n = len(tokens)
    held = np.concatenate([tokens, np.zeros(len(tree), np.int64)])
    for step, (left, right) in enumerate(tree[:, :2].astype(np.int64)):
        held[n + step] = held[left] + held[right]
        if held[n + step] > room:
            return cut(tree, step)
    return cut(tree, len(tree))


def fill(labels: Ints, tokens: Ints, room: int) -> Pieces:
    """Lay the clusters' tokens into urns of ``room``: the largest clusters an urn each, the others into the gaps."""
    urns = int(tokens.sum()) // room
    held = np.zeros(int(labels.max()) + 1, np.int64)
    np.add.at(held, labels, tokens)
    rank = np.empty(len(held), np.int64)
    rank[np.argsort(-held, kind="stable")] = np.arange(len(held))
    place = rank[labels]
    has = tokens > 0
    seeds = np.flatnonzero(has & (place < urns))
    others = np.flatnonzero(has & (place >= urns))
    others = others[np.argsort(place[others], kind="stable")]
    # Both the gaps and the others' tokens cut [0, Σ gaps) into stretches; together they cut it into the pieces wanted.
    gap_ends = np.cumsum(room - np.sort(held)[::-1][:urns])
    other_ends = np.cumsum(tokens[others])
    ends = np.union1d(gap_ends, other_ends)
    ends = ends[ends > 0]
    starts = ends - np.diff(ends, prepend=0)
    urn = np.concatenate([place[seeds], np.searchsorted(gap_ends, starts, side="right")])
    clients = np.concatenate([seeds, others[np.searchsorted(other_ends, starts, side="right")]])
    line = np.argsort(urn, kind="stable")
    return Pieces(clients[line], np.concatenate([tokens[seeds], ends - starts])[line])
