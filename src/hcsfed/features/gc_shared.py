"""Gradient compression with one grouping for all clients: the means of groups that the last aggregate defines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hcsfed.features.contract import Context, as_numpy, encode_rows, float_bytes
from hcsfed.features.gc import check_size, size_of
from hcsfed.features.grouping import group, histogram
from hcsfed.rng import stream
from hcsfed.types import Features, Floats, Ints


@dataclass(frozen=True)
class SharedCompression:
    """GC with a shared codebook: parameters are grouped by their value in the last aggregate, clients send group means.

    The aggregate is known to all clients, so the grouping costs no message, and the j-th number of two clients' vectors
    speaks of the same parameters. Before there is an aggregate, groups are stretches of neighbouring parameters, which
    mostly belong to one unit of the model.

    Since groups change with the aggregate, so does what a vector means. Where vectors of several rounds are compared
    (``refresh=stale``) they must share one codebook, so the first one, which is known before anybody has trained, stays
    for the whole run.

    Parameters
    ----------
    ratio
        R = d′/d.
    centres
        d′ itself; 0 means: by ``ratio``.
    """

    ratio: float = 0.1
    centres: int = 0

    name: ClassVar[str] = "gc-shared"
    shared: ClassVar[bool] = True
    """Who encodes needs the last aggregate."""
    privacy: ClassVar[str] = (
        "Shows means of a client's update over groups of parameters: with R = 10 %, of about ten each."
    )

    def __post_init__(self) -> None:
        check_size(self.name, self.ratio, self.centres)

    def encode(self, updates: Any, context: Context) -> Features:
        width = size_of(self.ratio, self.centres, updates.shape[1])
        key = f"{self.name}-{width}-{updates.shape[1]}"
        if key not in context.memo:
            context.memo[key] = self.groups(updates.shape[1], width, context)
        of, sizes = context.memo[key]
        return encode_rows(updates, width, lambda row: np.bincount(of, row, width) / sizes)

    def groups(self, dimension: int, width: int, context: Context) -> tuple[Ints, Floats]:
        """The group of each parameter, and the groups' sizes (1 where a group is empty, so that its mean is 0)."""
        if context.aggregate is None:
            of = np.arange(dimension) * width // dimension
        else:
            values = as_numpy(context.aggregate)
            points, masses = np.unique(values, return_counts=True) if dimension < 100_000 else histogram(values, width)
            centres = group(points, masses, width, "density", stream(context.seed, self.name, context.round))
            of = np.searchsorted((centres[1:] + centres[:-1]) / 2, values)
        return of, np.maximum(np.bincount(of, minlength=width), 1).astype(np.float64)

    def nbytes(self, k: int) -> int:
        return float_bytes(k)
