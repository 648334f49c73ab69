"""Ward's tree of the clients, from distances in condensed form: N·(N − 1)/2 numbers, never a square matrix.

Handing ``linkage`` a square matrix makes it take rows for observations and compute distances of distances; that mistake
is common in published client-selection code.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist

from hcsfed.errors import bad
from hcsfed.rng import stream
from hcsfed.types import Features, Floats, Ints

Distance = Literal["arccos", "l2", "l1"]

MOST = 20_000
_EXACT = 1_000
_BLOCK = 512


def ward(distances: Floats) -> Floats:
    """SciPy's (n − 1) × 4 table of merges; empty for one client."""
    return linkage(distances, "ward") if len(distances) else np.zeros((0, 4))


def condensed(features: Features, distance: Distance, sketch: int = 256) -> Floats:
    """All pairwise distances, in ``pdist``'s order; those of L1 and L2 in units of the largest entry.

    The angle from a zero vector (a client never seen) is π/2 to any other and 0 to another zero. Above 1,000 clients,
    wide features are first projected to ``sketch`` dimensions by one seeded Gaussian matrix (0: never), which keeps
    angles and L2 distances up to about 1/√sketch of themselves; L1 distances are always those of the features given.
    """
    n, width = features.shape
    if n > MOST:
        raise bad(
            "clients", "a selector that builds Ward's tree", f"at most {MOST}", n, "select with cluster or hcsfed"
        )
    peak = float(max(features.max(initial=0), -features.min(initial=0))) or 1.0
    # Squares of huge claims must not overflow; angles and Ward's order don't depend on the scale.
    if distance != "l1" and n > _EXACT and 0 < sketch < width:
        directions = stream(0, "ward-sketch").standard_normal((width, sketch)) / (peak * np.sqrt(sketch))
        x = (features @ directions.astype(features.dtype)).astype(np.float64)
    else:
        x = features.astype(np.float64)
        x /= peak
    if distance == "l1":
        return np.asarray(pdist(x, "cityblock"))
    if distance == "l2":
        x -= x.mean(axis=0)
        return _euclid(x)
    norms = np.sqrt(np.einsum("ij,ij->i", x, x))
    zero = norms == 0
    x /= np.where(zero, 1, norms)[:, None]
    if zero.any():
        x = np.column_stack([x, zero])  # zero vectors share an axis of their own, at right angles to everyone
    # arccos loses half its digits near 0; the chord of unit vectors does not: angle = 2·arcsin(chord / 2).
    angles = _euclid(x)
    angles *= 0.5
    np.arcsin(np.minimum(angles, 1, out=angles), out=angles)
    angles *= 2
    return angles


def _euclid(x: NDArray[np.float64]) -> Floats:
    """By ‖a‖² − 2a·b + ‖b‖², a block of rows at a time: one matrix product, where ``pdist`` goes through N²/2 pairs."""
    n = len(x)
    squares = np.einsum("ij,ij->i", x, x)
    out = np.empty(n * (n - 1) // 2)
    for start in range(0, n - 1, _BLOCK):
        stop = min(start + _BLOCK, n - 1)
        block = x[start:stop] @ x[start:].T
        block *= -2
        block += squares[start:stop, None]
        block += squares[None, start:]
        for row in range(stop - start):
            i = start + row
            at = i * n - i * (i + 1) // 2
            out[at : at + n - 1 - i] = block[row, row + 1 :]
    # Rounding leaves twins a little off 0, on either side; below that noise they are the same.
    out[out < 1e-14 * float(squares.max(initial=0))] = 0.0
    return np.sqrt(out, out=out)


def cut(tree: Floats, merges: int) -> Ints:
    """The clusters after so many merges, numbered 0, 1, …"""
    n = len(tree) + 1
    parent = np.arange(n + merges)
    for step in range(merges):
        parent[int(tree[step, 0])] = parent[int(tree[step, 1])] = n + step
    for node in range(n + merges - 1, -1, -1):  # parents come after children, so one pass downwards finds all roots
        parent[node] = parent[parent[node]]
    return np.unique(parent[:n], return_inverse=True)[1].astype(np.int64)
