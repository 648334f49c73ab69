"""How long does one selection among a million clients take, and how much memory, beside one pass of faiss's k-means?

Run as a module it is a process of its own, so that nothing else counts towards its memory.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hcsfed.cli.bench.selection.finding import Finding, ratio, turns
from hcsfed.errors import HcsfedError
from hcsfed.rng import stream
from hcsfed.select import Cube, Hybrid, LocalPivotal, Selector, pick
from hcsfed.types import Features, View

TIME, MEMORY = "One selection among very many, against faiss's k-means", "Peak memory of that selection"
LIMIT = 1024.0
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Size:
    """N clients with k features each, H clusters, m places."""

    clients: int
    width: int
    clusters: int
    cohort: int

    def __str__(self) -> str:
        return f"N = {self.clients:,}, k = {self.width}, H = {self.clusters}, m = {self.cohort:,}"


FULL = Size(1_000_000, 64, 100, 1_000)
QUICK = Size(20_000, 16, 10, 100)


def selectors(size: Size) -> dict[str, Selector]:
    return {
        "hcsfed": Hybrid(clusters=size.clusters),
        "pivotal": LocalPivotal(),
        "cube": Cube(),
        "cube, local": Cube(local=True),
    }


def population(size: Size) -> View:
    """Clients of H kinds, one apart from the other by as much as clients of a kind; made without a second copy."""
    rng = stream(0, "population")
    kinds = rng.standard_normal((size.clusters, size.width), dtype=np.float32)
    x = np.empty((size.clients, size.width), np.float32)
    norms = np.empty(size.clients)
    for start in range(0, size.clients, _BLOCK):
        rows = x[start : start + _BLOCK]
        rng.standard_normal(dtype=np.float32, out=rows)
        rows += kinds[rng.integers(size.clusters, size=len(rows))]
        norms[start : start + _BLOCK] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    sizes = rng.integers(10, 100, size.clients)
    return View(sizes, sizes / sizes.sum(), np.ones(size.clients, bool), features=x, norms=norms)


def faiss_pass(x: Features, clusters: int) -> Callable[[int], object] | None:
    """Faiss's k-means as it comes (25 iterations on 256 points per centre), then everyone's centre."""
    if importlib.util.find_spec("faiss") is None:
        return None
    import faiss

    def run(seed: int) -> object:
        quantiser = faiss.Kmeans(x.shape[1], clusters, seed=seed + 1)
        quantiser.train(x)
        return quantiser.index.search(x, 1)

    return run


def times(size: Size, repeats: int) -> dict[str, list[float]]:
    """Everyone's turns on the same features."""
    view = population(size)
    rivals: dict[str, Callable[[int], object]] = {}
    other = faiss_pass(view.features, size.clusters) if view.features is not None else None
    if other is not None:
        rivals["faiss"] = other
    for name, selector in selectors(size).items():
        rivals[name] = lambda seed, s=selector: pick(s, view, size.cohort, stream(seed, s.name))  # type: ignore[misc]
    return turns(rivals, repeats)


def peak(size: Size, name: str) -> dict[str, float]:
    """MiB of this whole process after one selection, and of the features."""
    view = population(size)
    pick(selectors(size)[name], view, size.cohort, stream(0, name))
    return {"peak": most() / 2**20, "features": size.clients * size.width * 4 / 2**20}


def most() -> int:
    """Bytes of memory that this process has held at most."""
    status = Path("/proc/self/status")  # Linux's ru_maxrss begins with what the parent held
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def elsewhere(*arguments: str) -> dict[str, object]:
    """The answer of this module from a fresh process."""
    done = subprocess.run([sys.executable, "-m", __name__, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise HcsfedError(f"bench select failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def findings(quick: bool, repeats: int) -> Iterator[Finding]:
    which = "quick" if quick else "full"
    size = QUICK if quick else FULL
    seconds: dict[str, list[float]] = elsewhere("times", which, str(repeats))  # type: ignore[assignment]
    for name in selectors(size):
        if "faiss" in seconds:
            # A small pass is over before threads have started: nothing is promised there.
            pair = {key: seconds[key] for key in ("faiss", name)}
            yield Finding(TIME, f"{size}: time / faiss", name, ratio(pair, name, "faiss"),
                          None if quick else 2.0, seconds=pair)  # fmt: skip
        else:
            note = "pip install faiss-cpu to compare"
            yield Finding(TIME, f"{size}: seconds", name, min(seconds[name]), note=note,
                          seconds={name: seconds[name]})  # fmt: skip
    for name in selectors(size):
        found: dict[str, float] = elsewhere("peak", which, name)  # type: ignore[assignment]
        note = f"peak {found['peak']:,.0f} MiB, features {found['features']:,.0f} MiB"
        yield Finding(MEMORY, f"{size}: MiB beside the features", name, found["peak"] - found["features"],
                      LIMIT, note=note)  # fmt: skip


def main(task: str, which: str, detail: str) -> None:
    size = QUICK if which == "quick" else FULL
    print(json.dumps(times(size, int(detail)) if task == "times" else peak(size, detail)))


if __name__ == "__main__":
    main(*sys.argv[1:4])
