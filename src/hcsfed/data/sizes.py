"""How many rows each client is to have, from the ways a user may say it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hcsfed.errors import bad
from hcsfed.types import Ints

# The unequal federation of CIFAR-10 experiments: (clients, rows each), N = 100 in all.
PAPER_SIZES = ((10, 100), (30, 250), (30, 500), (20, 750), (10, 1000))


def resolve_sizes(
    sizes: str | Sequence[int] | None,
    samples_per_client: int | None,
    clients: int,
    rows: int,
    owner: str,
    *,
    replace: bool = False,
) -> Ints:
    """n_k of every client: as listed, all the same, or by default all rows, sizes differing by at most one."""
    if sizes is not None and samples_per_client is not None:
        raise bad("samples_per_client", owner, "left out when sizes are given", samples_per_client)
    if isinstance(sizes, str):
        if sizes != "paper":
            raise bad("sizes", owner, "'paper' or a list of ints", sizes)
        if clients != 100:
            raise bad("clients", owner, "100 when sizes are 'paper'", clients)
        n = np.concatenate([np.full(many, each, np.int64) for many, each in PAPER_SIZES])
    elif sizes is not None:
        given = list(sizes) if isinstance(sizes, (Sequence, np.ndarray)) else [sizes]
        if len(given) != clients or not all(isinstance(n, (int, np.integer)) and n >= 1 for n in given):
            got = f"{len(given)} entries" if len(given) > 10 else sizes
            raise bad("sizes", owner, f"'paper' or {clients} ints >= 1, one per client", got)
        n = np.array(given, np.int64)
    elif samples_per_client is not None:
        n = np.full(clients, check_samples(samples_per_client, owner))
    else:
        n = np.full(clients, rows // clients, np.int64)
        n[: rows % clients] += 1
    total = int(n.sum())
    if total > rows and not replace:
        what = "sizes" if sizes is not None else "samples_per_client"
        got = f"{total} rows over {clients} clients"
        raise bad(what, owner, f"at most {rows} rows in all", got, "take fewer clients or smaller ones")
    return n


def check_samples(samples: object, owner: str) -> int:
    """A number of rows per client."""
    if isinstance(samples, bool) or not isinstance(samples, (int, np.integer)) or samples < 1:
        raise bad("samples_per_client", owner, "an int >= 1", samples)
    return int(samples)
