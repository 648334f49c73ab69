"""How long does ``clustered-updates`` take for thousands of clients, and is its partition the exact one's?"""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
from sklearn.metrics import adjusted_rand_score

from hcsfed.cli.bench.selection.finding import Finding, turns
from hcsfed.rng import stream
from hcsfed.select import ClusteredUpdates, pick, ward
from hcsfed.types import Features, View

TIME = "Clustered sampling on updates"
KINDS, WIDTH, COHORT = 50, 7_850, 50


def updates(clients: int, width: int, noise: float) -> Features:
    """Gaussian around 50 kinds of client, which lie at distance √2 in units of ``noise`` = 1."""
    rng = stream(0, "updates", clients, width)
    kinds = rng.standard_normal((KINDS, width), dtype=np.float32)
    x = rng.standard_normal((clients, width), dtype=np.float32)
    x *= np.float32(noise)
    x += kinds[np.arange(clients) % KINDS]
    return x


def agreement(clients: int, width: int, noise: float) -> float:
    """1 where the partition found by the sketch is the one of all coordinates."""
    x = updates(clients, width, noise)
    found = []
    for limit in (clients, 1):  # up to here, distances are exact
        with patch.object(ward, "_EXACT", limit):
            found.append(ward.cut(ward.ward(ward.condensed(x, "arccos")), clients - KINDS))
    return float(adjusted_rand_score(*found))


def findings(quick: bool, repeats: int) -> Iterator[Finding]:
    clients, width = (1_200, 500) if quick else (5_000, WIDTH)
    sizes = stream(0, "sizes").integers(10, 500, clients)
    view = View(sizes, sizes / sizes.sum(), np.ones(clients, bool), features=updates(clients, width, 1.0))
    mine = ClusteredUpdates()
    seconds = turns({mine.name: lambda seed: pick(mine, view, COHORT, stream(seed, "select"))}, repeats)
    case = f"N = {clients:,}, d = {width:,}, m = {COHORT}"
    yield Finding(TIME, "arccos: seconds", case, min(seconds[mine.name]), 2.0, seconds=seconds)
    for noise in (1.0, 2.0):
        for n in (300,) if quick else (1_000, clients):
            index = agreement(n, width, noise)
            case = f"N = {n:,}, d = {width:,}, noise {noise}"
            yield Finding(TIME, "its partition against that of exact distances: adjusted Rand index", case, index)
