"""What a peer and the harness say to each other: one JSON object a line, on the peer's standard input and output.

The harness starts ``peer.py FOLDER``. The folder holds the data that everyone trains on (see :class:`Task`). The peer
says ``{"ready": true, "versions": {...}}`` once, then answers every request such as
``{"model": "mlp", "ids": [3, 7], "save": null}`` with ``{"seconds": [0.12, 0.11]}``: rounds of exactly these clients,
each from the stored initial parameters, each timed by the peer itself from the call of its engine until the averaged
model is there; as many as fit in a fifth of a second, and at least one. Where ``save`` names a file, the averaged model
of the last is written to it, outside the clock, so that the harness can see that training was real.

Imported in the peers' own environments: standard library and NumPy only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SLICE = 0.2
"""Seconds after which no further round of a request begins."""

Parameters = list[np.ndarray]
"""As in PyTorch: weight [out, in], bias [out], layer by layer."""


@dataclass(frozen=True)
class Task:
    """The round that everyone runs: data, initial parameters, and how a client trains."""

    folder: Path
    steps: int
    batch: int
    lr: float
    scale: float
    shift: float
    clients: int
    classes: int

    @classmethod
    def read(cls, folder: str) -> Task:
        return cls(Path(folder), **json.loads((Path(folder) / "task.json").read_text()))

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All rows as float32, their classes, and where each client's rows begin."""
        x = np.load(self.folder / "x.npy").astype(np.float32) * np.float32(self.scale) + np.float32(self.shift)
        return x.reshape(len(x), -1), np.load(self.folder / "y.npy"), np.load(self.folder / "offsets.npy")

    def initial(self, model: str) -> Parameters:
        with np.load(self.folder / f"{model}.npz") as file:
            return [file[f"p{i}"] for i in range(len(file.files))]


def save(path: str | Path, parameters: Sequence[np.ndarray]) -> None:
    np.savez(path, **{f"p{i}": np.asarray(p, np.float32) for i, p in enumerate(parameters)})


def serve(
    versions: dict[str, str], round_of: Callable[[str, list[int]], tuple[float, Callable[[], Parameters]]]
) -> None:
    """Answer requests until standard input ends. ``round_of(model, ids)``: seconds, and a way to read the result."""
    # Frameworks print to standard output as they please: what they say goes to the error stream.
    mouth = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    mouth.write(json.dumps({"ready": True, "versions": versions}) + "\n")
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        seconds: list[float] = []
        while not seconds or (sum(seconds) < SLICE and not request.get("once")):
            took, result = round_of(request["model"], request["ids"])
            seconds.append(took)
        if request["save"]:
            save(request["save"], result())
        mouth.write(json.dumps({"seconds": seconds}) + "\n")
