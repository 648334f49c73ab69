"""Runs made up for the tests of the report and of tracking: shaped like real ones, computed from a formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from hcsfed.record import Run
from hcsfed.report import Scene


def federation(clients: int = 20, classes: int = 5, rows: int = 40, *, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    counts = np.zeros((clients, classes), int)
    for k in range(clients):
        counts[k] = rng.multinomial(rows + 3 * (k % 7), rng.dirichlet(np.full(classes, 0.2)))
    return {
        "name": "digits",
        "clients": clients,
        "classes": classes,
        "sizes": counts.sum(1).tolist(),
        "class_counts": counts.tolist() if clients <= 1000 else None,
        "rows": int(counts.sum()),
        "test_rows": 300,
        "task": "classification",
    }


def run(
    selector: str = "random",
    seed: int = 0,
    *,
    rate: float = 0.1,
    top: float = 0.9,
    rounds: int = 30,
    planned: int | None = None,
    target: float = 0.8,
    clients: int = 20,
    classes: int = 5,
    cohort: int = 4,
    eval_every: int = 1,
    noise: float = 0.01,
    regression: bool = False,
    busy: int = 1,
    **more: Any,
) -> Run:
    """Accuracy rises as ``top − exp(−rate·t)`` with a little noise; everyone trains ``busy`` times as much."""
    rng = np.random.default_rng([seed, sum(map(ord, selector))])
    settings: dict[str, Any] = {
        "data": {"name": "digits"},
        "partition": {"name": "dirichlet", "alpha": 0.1},
        "model": {"name": "logistic"},
        "selector": {"name": selector},
        "algorithm": {"name": "fedavg"},
        "local": {"steps": 50, "epochs": 0, "batch": 50, "lr": 0.01},
        "cohort": cohort,
        "rounds": planned or rounds,
        "seed": seed,
        "target": target,
        "eval_every": eval_every,
    }
    for key, value in more.items():
        head, _, option = key.partition("__")
        if option:
            settings[head][option] = value
        else:
            settings[head] = value
    tilt = np.ones(clients) if selector != "md" else rng.dirichlet(np.full(clients, 3.0))
    history = []
    for t in range(1, rounds + 1):
        ids = np.sort(rng.choice(clients, cohort, replace=False, p=tilt / tilt.sum()))
        accuracy = float(np.clip(top - 0.8 * np.exp(-rate * t) + rng.normal(0, noise), 0, 1))
        seen = t % eval_every == 0 or t == rounds
        history.append(
            {
                "round": t,
                "ids": ids.tolist(),
                "weights": (rng.uniform(0.8, 1.2, cohort) / cohort).tolist(),
                "loss": 2.3 * float(np.exp(-rate * t / 2)) + 0.2 if seen else None,
                "accuracy": accuracy if seen and not regression else None,
                "train_loss": 2.3 * float(np.exp(-rate * t / 2)),
                "upload_bytes": 4 * 7850 * cohort,
                "download_bytes": 4 * 7850 * cohort,
                "local_steps": 50 * cohort * busy,
                "simulated_seconds": None,
                "server_bytes": 4 * 7850,
                "disk_bytes": 0,
                "seconds": {"select": 0.0004, "train": 0.02 * busy, "aggregate": 0.001, "evaluate": 0.004},
            }
        )
    about = {
        "versions": {"hcsfed": "0", "python": "3", "numpy": "2"},
        "started": "2000-01-01T00:00:00+00:00",
        "dimension": 7850,
        "engine": "fused",
        "federation": federation(clients, classes),
    }
    if regression:
        about["federation"] |= {"classes": 0, "class_counts": None, "task": "regression"}
    return Run(settings, about, history)


def scenes(clients: int = 60, labels: bool = True) -> list[Scene]:
    """What a selector might see: twelve kinds of client."""
    rng = np.random.default_rng(0)
    updates = rng.normal(size=(clients, 30)) + 5 * rng.normal(size=(12, 30))[np.arange(clients) % 12]
    kinds = np.arange(clients) % 12 if labels else None
    chances = np.linspace(0.01, 1, clients)
    return [
        Scene(
            "hcsfed", updates, updates[:, :4].astype(np.float32), kinds, chances, np.unique([3 % clients, clients - 1])
        )
    ]
