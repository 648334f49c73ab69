"""The same run twice: in the simulator, and on Flower nodes in this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from hcsfed.assemble import assemble
from hcsfed.data import load
from hcsfed.flower import LocalGrid, Strategy, client_app, initial_arrays
from hcsfed.flower.local_grid import Fault
from hcsfed.settings import Settings, merge
from hcsfed.simulate import rounds
from hcsfed.standing import Standing
from hcsfed.types import Federation

CLIENTS, SEED = 6, 3
WORK = {"local.lr": 0.05, "local.steps": 5}
_held: dict[str, Any] = {}


def federation() -> Federation:
    if "federation" not in _held:
        _held["federation"] = load("digits", clients=CLIENTS, seed=SEED)
    return _held["federation"]


def app() -> Any:
    """One for all tests: trainers are made once."""
    if "app" not in _held:
        _held["app"] = client_app(federation())
    return _held["app"]


def simulated(selector: str, rounds_: int, **options: Any) -> tuple[np.ndarray, list[dict]]:
    """The global model after a run of the simulator, and its history."""
    given = {"rounds": rounds_, "selector": selector, "cohort": 2, "seed": SEED, "device": "cpu"}
    parts = assemble(merge(Settings(), given, WORK, options), federation=federation())
    done = list(rounds(parts, Standing.first(parts)))
    return done[-1][1].parameters.numpy(), [entry for entry, _ in done]


def strategy(selector: str, *, given: dict[str, Any] | None = None, **options: Any) -> Strategy:
    return Strategy(selector, **{"cohort": 2, "seed": SEED, "wait": 0.0, **(given or {})}, options={**WORK, **options})


def run(asked: Strategy, rounds_: int, grid: LocalGrid | None = None, faults: list[Fault] | None = None) -> np.ndarray:
    """The global model after a run on nodes in this process."""
    grid = grid or LocalGrid(app(), CLIENTS, faults=faults or ())
    result = asked.start(grid, initial_arrays(federation(), seed=SEED), num_rounds=rounds_, timeout=5)
    return vector(result.arrays)


def vector(arrays: Any) -> np.ndarray:
    return np.concatenate([array.numpy().reshape(-1) for array in arrays.values()])
