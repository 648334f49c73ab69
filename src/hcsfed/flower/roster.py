"""Who is who: clients by their stable names, numbered once, whatever node ids a connection gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hcsfed.types import Bools, Floats, State


@dataclass(eq=False)
class Roster:
    """The clients that the server has met, in the order of their numbers, and the nodes behind which they stand now.

    Parameters
    ----------
    names
        Their stable names.
    sizes
        Their examples; 0: not said yet.
    labels
        Their class counts, where they were asked for.
    nodes
        Number → node id, of those that are connected.
    """

    names: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    labels: list[NDArray[np.int64]] = field(default_factory=list)
    nodes: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def connected(self, node_ids: set[int]) -> None:
        """Forget the nodes that are gone; their clients keep their numbers."""
        self.nodes = {k: node for k, node in self.nodes.items() if node in node_ids}

    def enter(self, came: Mapping[int, tuple[str, int, Any]]) -> dict[int, str]:
        """Write down nodes that said (name, examples, labels), newcomers in the order of their names; gives back whom
        not, and why. A name that a connected node has is taken; a name that two say at once is nobody's.
        """
        refused: dict[int, str] = {}
        known = {name: k for k, name in enumerate(self.names)}
        said = [name for name, _, _ in came.values()]
        classes = _common([len(row) for row in self.labels[:1] or [r for *_, r in came.values() if r is not None]])
        for node, (name, size, labels) in sorted(came.items(), key=lambda item: natural(item[1][0])):
            k = known.get(name, len(self.names))
            if not name:
                refused[node] = "it gave no name"
            elif said.count(name) > 1:
                refused[node] = f"{name!r} is claimed by {said.count(name)} nodes at once"
            elif k in self.nodes:
                refused[node] = f"the name {name!r} belongs to another node that is connected"
            elif labels is not None and len(labels) != classes:
                refused[node] = f"it counts {len(labels)} classes where others count {classes}"
            else:
                if k == len(self.names):
                    self.names.append(name)
                    self.sizes.append(size)
                    if labels is not None:
                        self.labels.append(labels)
                self.nodes[k] = node
        return refused

    def learn_sizes(self, sizes: Mapping[int, int]) -> None:
        """Examples that clients tell of later than in their hello; what was said once stands."""
        for k, size in sizes.items():
            self.sizes[k] = self.sizes[k] or size

    def present(self) -> Bools:
        mask = np.zeros(len(self), bool)
        mask[list(self.nodes)] = True
        return mask

    def weights(self, largest: float) -> Floats:
        """ω by examples, no client's above ``largest``; who has not said how many it holds counts as the median."""
        sizes = np.array(self.sizes, np.float64)
        if not sizes.any():
            return np.full(len(self), 1 / max(len(self), 1))
        sizes[sizes == 0] = np.median(sizes[sizes > 0])
        return bounded(sizes, max(largest, 1 / len(self)))

    def arrays(self) -> State:
        """For the checkpoint."""
        text = json.dumps({"names": self.names, "sizes": self.sizes, "labels": [row.tolist() for row in self.labels]})
        return {"roster": np.frombuffer(text.encode(), np.uint8)}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Roster:
        table = json.loads(arrays["roster"].tobytes())
        return cls(table["names"], table["sizes"], [np.array(row, np.int64) for row in table["labels"]])


def _common(lengths: list[int]) -> int:
    return max(sorted(set(lengths)), key=lengths.count, default=0)


def natural(name: str) -> tuple[Any, ...]:
    """``client-2`` before ``client-10``."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name))


def bounded(amounts: Floats, largest: float) -> Floats:
    """Shares in the ratio of the amounts, those above ``largest`` cut to it and the rest scaled up."""
    shares = amounts / amounts.sum()
    cut = np.zeros(len(shares), bool)
    while (over := ~cut & (shares > largest * (1 + 1e-12))).any():
        cut |= over
        rest = amounts[~cut].sum()
        shares = np.where(cut, largest, amounts * ((1 - largest * cut.sum()) / rest) if rest > 0 else 0.0)
    return np.asarray(shares)
