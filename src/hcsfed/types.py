"""The frozen records that pass between the stages: Federation → View → Selection → Answers.

They hold NumPy arrays only, so that selection runs where PyTorch is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Features = NDArray[np.float32]
State = dict[str, NDArray[Any]]
Task = Literal["classification", "regression"]


@dataclass(frozen=True, eq=False)
class Federation:
    """Who holds what: all clients' rows packed end to end, client k owning rows ``offsets[k]:offsets[k+1]``.

    Ragged sizes cost nothing, a million clients are still four arrays, and any of the arrays may be memory-mapped.
    Images stay uint8 until they are used: the model sees ``x · scale + shift``. Build one with
    :func:`hcsfed.data.pack`, which checks it.

    Parameters
    ----------
    x, y
        Rows of all clients. ``y`` holds a class per row, a row of classes (next-character sequences), or, for
        regression, float targets.
    offsets
        ``N + 1`` increasing row numbers, ``offsets[0] = 0``.
    weights
        ω_k ≥ 0 with Σω_k = 1; by default the client's share of the rows.
    classes
        Number of classes; 0 for regression.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[Any]
    offsets: Ints
    test_x: NDArray[Any]
    test_y: NDArray[Any]
    weights: Floats
    classes: int
    task: Task = "classification"
    scale: float = 1.0
    shift: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def clients(self) -> int:
        """N."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> Ints:
        """n_k, rows of each client."""
        return np.diff(self.offsets)

    def client(self, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The rows of client k, without a copy."""
        rows = slice(int(self.offsets[k]), int(self.offsets[k + 1]))
        return self.x[rows], self.y[rows]

    @cached_property
    def class_counts(self) -> Ints:
        """N × classes: how many labels of each class a client holds (a row of a sequence counts each of its labels)."""
        if not self.classes:
            return np.zeros((self.clients, 0), np.int64)
        per_row = int(np.prod(self.y.shape[1:], dtype=np.int64))
        owner = np.repeat(np.arange(self.clients), self.sizes * per_row)
        flat = owner * self.classes + self.y.reshape(-1)
        return np.bincount(flat, minlength=self.clients * self.classes).reshape(self.clients, self.classes)


@dataclass(frozen=True, eq=False)
class View:
    """What the server may look at when it picks: one entry per client, nothing else of them.

    Only ``sizes`` and ``weights`` are always there. The rest is there when the selector's claims ask for it.

    Parameters
    ----------
    features, norms, losses, labels
        Comparable vector, ‖u_k‖, loss of the current global model on the client's rows, class counts.
    accuracies
        How many of the server's validation rows the client's own model gets right, as a share.
    variances
        The client's mean squared distance of a minibatch gradient from its mean gradient.
    ages
        Rounds since the features were renewed.
    ids
        The number of each row's client in the whole federation; by default rows are clients.
    state
        What the selector itself wrote down in earlier rounds. It speaks of the whole federation even where the view was
        cut by :meth:`only`, so a selector reads its notes as ``state["…"][view.ids]``.
    """

    sizes: Ints
    weights: Floats
    available: Bools
    round: int = 0
    features: Features | None = None
    norms: Floats | None = None
    losses: Floats | None = None
    labels: NDArray[Any] | None = None
    accuracies: Floats | None = None
    variances: Floats | None = None
    ages: Ints | None = None
    ids: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    state: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.ids):
            object.__setattr__(self, "ids", np.arange(len(self.sizes)))

    @property
    def clients(self) -> int:
        return len(self.sizes)

    def only(self, ids: Ints) -> View:
        """The view of these rows alone, their weights scaled to sum to 1 (the new target population)."""
        total = float(self.weights[ids].sum())
        everyone = len(ids) == self.clients and bool((ids == np.arange(len(ids))).all())

        def cut(a: NDArray[Any] | None) -> Any:
            return a if a is None or everyone else a[ids]  # a million clients' features are not copied for nothing

        return replace(
            self,
            sizes=self.sizes[ids],
            weights=self.weights[ids] / total if total > 0 else np.full(len(ids), 1.0 / max(len(ids), 1)),
            available=self.available[ids],
            features=cut(self.features),
            norms=cut(self.norms),
            losses=cut(self.losses),
            labels=cut(self.labels),
            accuracies=cut(self.accuracies),
            variances=cut(self.variances),
            ages=cut(self.ages),
            ids=self.ids[ids],
        )


@dataclass(frozen=True, eq=False)
class Selection:
    """Who answers, and how much each answer counts.

    ``Σ_i weights[i] · u_{ids[i]}`` stands for ``Σ_k ω_k · u_k``; nothing after this renormalises. A client drawn more
    than once stands once in ``ids``, its draws added up in its weight. ``inclusion`` holds, for all N clients, the
    probability of being in the cohort, or None where it is not known.
    """

    ids: Ints
    weights: Floats
    inclusion: Floats | None = None
    info: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Answers:
    """What came back from the clients that trained, as far as a selector may learn from it.

    ``sent`` says who has sent an update, where not all have: the others let their last one stand.
    """

    ids: Ints
    norms: Floats
    losses: Floats
    steps: Ints
    features: Features | None = None
    seconds: Floats | None = None
    sent: Bools | None = None
