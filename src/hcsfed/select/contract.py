"""What a selector is, and the one gate through which every selection passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hcsfed.errors import bad
from hcsfed.select.refresh import overdue
from hcsfed.types import Answers, Bools, Floats, Ints, Selection, State, View

Need = Literal["norms", "features", "losses", "labels", "accuracies", "variances"]


@dataclass(frozen=True)
class Claims:
    """What a selector promises; the conformance suite measures each promise.

    Parameters
    ----------
    unbiased
        E[Σ weights·u] = Σ ω·u for any u, or, where fresh norms are needed, for any u of these norms: a client whose
        update is known to be 0 need never be picked.
    fixed_size
        Exactly m distinct clients are picked.
    needs
        What must stand in the view.
    trains
        Whether all available clients train before the pick (as in the paper), or the picked alone.
    """

    unbiased: bool
    fixed_size: bool
    needs: frozenset[Need] = frozenset()
    trains: Literal["picked", "all"] = "picked"


@runtime_checkable
class Selector(Protocol):
    """A frozen dataclass of settings with one method. A selector that learns from answers also has ``observe``."""

    @property
    def name(self) -> str: ...

    @property
    def claims(self) -> Claims:
        """May follow from the settings; for most it is a class variable."""
        ...

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        """Pick ``size`` clients of a view in which everyone is available, has a positive weight and sane features."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A selector with a memory. The memory is a dict of arrays that travels with the checkpoint, not an attribute.

    It speaks of all clients by their number in the federation; ``view.ids`` and ``selection.ids`` give these numbers.
    """

    def start(self, clients: int) -> State: ...

    def observe(self, state: State, selection: Selection, answers: Answers) -> State: ...


def start(selector: Selector, clients: int) -> State:
    """The selector's memory before the first round."""
    return selector.start(clients) if isinstance(selector, Learner) else {}


def observe(selector: Selector, state: State, selection: Selection, answers: Answers) -> State:
    """The selector's memory after a round."""
    return selector.observe(state, selection, answers) if isinstance(selector, Learner) else state


def longer(state: Mapping[str, NDArray[Any]], old: State, new: State) -> State:
    """A memory that began as ``old``, on in one that began as ``new`` for more clients: theirs is the axis in which
    the two beginnings differ.
    """
    longer: State = {}
    for name, array in state.items():
        longer[name] = array
        if name in old and old[name].shape != new[name].shape:
            longer[name] = new[name].copy()
            longer[name][tuple(slice(length) for length in array.shape)] = array
    return longer


def recall(selector: Learner, view: View) -> Mapping[str, NDArray[Any]]:
    """The memory that came with the view, or a fresh one where a selector is used for a single pick."""
    return view.state or selector.start(int(view.ids.max()) + 1)


def pick(selector: Selector, view: View, size: int, rng: np.random.Generator) -> Selection:
    """Let the selector pick, among those who can be picked.

    Unavailable clients and clients of weight 0 are taken out first; the weights of the others are scaled to sum to 1,
    so the target of a round is the mean over who is reachable. Clients who claim something that is not finite, or a
    negative norm or variance, are left out too and named in ``info["left_out"]``. Where no more than ``size`` clients
    remain, all of them answer. A selector with a ``max_age`` picks among those who are not due for a visit;
    ``info["revisited"]`` names those who are.
    """
    n = view.clients
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size <= n:
        raise bad("cohort size", selector.name, f"an int in [1, {n}]", size)
    usable = view.available & (view.weights > 0)
    if not usable.any():  # of nobody can anything be known
        return Selection(np.zeros(0, np.int64), np.zeros(0), np.zeros(n))
    sane = _sane(view, selector.claims.needs)
    ids = np.flatnonzero(usable & sane)
    info: dict[str, Any] = {}
    left_out = np.flatnonzero(usable & ~sane)
    if len(left_out):
        info["left_out"] = left_out
    if not len(ids):
        return Selection(ids, np.zeros(0), np.zeros(n), info)
    size = min(int(size), len(ids))
    due, others = ids[:0], ids
    if view.ages is not None and size < len(ids):
        due = ids[overdue(view.ages[ids], getattr(selector, "max_age", 0), size, rng)]
        others = np.setdiff1d(ids, due) if len(due) else ids
    # Only a design that depends on nothing but the names may be asked for all: `random-shrunk` shrinks even then.
    picked = selector.select(view.only(others), size - len(due), rng)
    who, weights = _in_order(selector, picked)
    if "labels" in picked.info:
        info["labels"] = _spread(picked.info["labels"], others, n, -1)
    selection = Selection(
        ids=others[who],
        weights=weights,
        inclusion=None if picked.inclusion is None else _spread(picked.inclusion, others, n, 0.0),
        info={**picked.info, **info},
    )
    return _with(selection, due, view, ids) if len(due) else selection


def _with(selection: Selection, due: Ints, view: View, ids: Ints) -> Selection:
    """The selection from the others, and those who are picked for certain, each for itself."""
    shares = view.weights / view.weights[ids].sum()
    who = np.concatenate([due, selection.ids])
    weights = np.concatenate([shares[due], selection.weights * (1 - shares[due].sum())])
    order = np.argsort(who)
    inclusion = selection.inclusion
    if inclusion is not None:
        inclusion = inclusion.copy()
        inclusion[due] = 1.0
    return Selection(who[order], weights[order], inclusion, {**selection.info, "revisited": due})


def _in_order(selector: Selector, picked: Selection) -> tuple[Ints, Floats]:
    """Ids and their weights, ascending, as everything after this counts on."""
    who, weights = np.asarray(picked.ids, np.int64), np.asarray(picked.weights, np.float64)
    if who.shape != weights.shape or who.ndim != 1:
        got = f"shapes {list(who.shape)} and {list(weights.shape)}"
        raise bad("weights", selector.name, "one number for each of its ids", got)
    order = np.argsort(who, kind="stable")
    if len(who) > 1 and not np.diff(who[order]).all():
        raise bad("ids", selector.name, "distinct, a client's draws added up in its weight", who.tolist())
    return who[order], weights[order]


def _spread(values: NDArray[Any], ids: Ints, n: int, others: float) -> NDArray[Any]:
    """One entry per client of the whole view, where there is one per client that could be picked."""
    whole = np.full(n, others, values.dtype)
    whole[ids] = values
    return whole


def _sane(view: View, needs: frozenset[Need]) -> Bools:
    sane = np.ones(view.clients, bool)
    given: Mapping[Need, NDArray[Any] | None] = {
        "features": view.features,
        "norms": view.norms,
        "losses": view.losses,
        "labels": view.labels,
        "accuracies": view.accuracies,
        "variances": view.variances,
    }
    for need in needs:
        values = given[need]
        if values is None:
            raise bad("view", "selection", f"given with {need}", None)
        sane &= _finite(values)
        if need in ("norms", "variances"):
            sane &= values >= 0
    return sane


def _finite(values: NDArray[Any]) -> Bools:
    """Which clients' entries are all finite. A finite sum has finite terms; where it is not, each term is looked at."""
    rows = values.reshape(len(values), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(rows @ np.ones(rows.shape[1], rows.dtype))
    doubtful = np.flatnonzero(~finite)
    finite[doubtful] = np.isfinite(rows[doubtful]).all(axis=1)
    return np.asarray(finite)
