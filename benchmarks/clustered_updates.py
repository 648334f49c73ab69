"""How long does ``clustered-updates`` take for thousands of clients, and is its partition the exact one's?

Run ``python benchmarks/clustered_updates.py``. Updates are Gaussian around 50 kinds of client; times are of one whole
selection, best and median of some repeats. The partition found on the sketch is compared with that of exact distances
on all coordinates by the adjusted Rand index (1: the same), at an N where the exact one is cheap.
"""

from __future__ import annotations

import platform
from time import perf_counter
from unittest.mock import patch

import numpy as np
import scipy
from sklearn.metrics import adjusted_rand_score

from hcsfed.rng import stream
from hcsfed.select import ClusteredUpdates, pick, ward
from hcsfed.select.ward import Distance
from hcsfed.types import Features, View

KINDS = 50
DISTANCES: tuple[Distance, ...] = ("arccos", "l2")


def updates(n: int, width: int, noise: float) -> Features:
    rng = stream(0, "updates", n, width)
    centres = rng.standard_normal((KINDS, width), dtype=np.float32)
    return centres[np.arange(n) % KINDS] + np.float32(noise) * rng.standard_normal((n, width), dtype=np.float32)


def seconds(n: int, width: int, distance: Distance, repeats: int = 5) -> list[float]:
    sizes = stream(0, "sizes").integers(10, 500, n)
    view = View(sizes, sizes / sizes.sum(), np.ones(n, bool), features=updates(n, width, 1.0))
    times = []
    for i in range(repeats):
        start = perf_counter()
        pick(ClusteredUpdates(distance), view, 50, stream(i, "select"))
        times.append(perf_counter() - start)
    return sorted(times)


def agreement(n: int, width: int, distance: Distance, noise: float, sketch: int) -> float:
    features = updates(n, width, noise)
    with patch.object(ward, "_EXACT", n):
        exact = ward.cut(ward.ward(ward.condensed(features, distance)), n - KINDS)
    with patch.object(ward, "_EXACT", 1):
        sketched = ward.cut(ward.ward(ward.condensed(features, distance, sketch)), n - KINDS)
    return float(adjusted_rand_score(exact, sketched))


def main() -> None:
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}")
    for n, width in ((100, 7850), (1000, 7850), (5000, 64), (5000, 7850)):
        for distance in DISTANCES:
            times = seconds(n, width, distance)
            print(f"{distance:6} N = {n}, d = {width}: best {times[0]:.2f} s, median {times[len(times) // 2]:.2f} s")
    for sketch in (64, 256):
        for noise in (1.0, 1.5, 2.0):
            for distance in DISTANCES:
                index = agreement(1000, 7850, distance, noise, sketch)
                print(f"{distance:6} N = 1000, d = 7850, noise {noise}, sketch {sketch}: agree to {index:.3f}")


if __name__ == "__main__":
    main()
