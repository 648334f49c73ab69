"""First features: by what clients are compared who may never have sent an update."""

from __future__ import annotations

import numpy as np

from hcsfed.errors import bad
from hcsfed.types import Bools, Features, Floats, State, View

LONGEST = 4.0  # times the median length


def newcomers(state: State, view: View, owner: str) -> tuple[Features, Bools, Bools] | None:
    """Features of all, who has sent one, and who has sent it for the first time; None where nobody has.

    Of whom the server has heard nothing yet, it thinks what it thinks of a client like the mean of the others: nobody
    may be left out of Σ ω_k·ŷ_k because it was out of reach.
    """
    begun = "begun" in state
    if (begun and "met" not in state) or not view.available.any():  # everyone is known, or nobody there
        return None
    x, there = filled(view, owner)
    earlier = state["met"] if begun else np.zeros_like(there)
    met = there | earlier
    state["begun"], state["met"] = np.ones(1, bool), met
    if met.all():
        del state["met"]
    return x, met, there & ~earlier


def grown(state: State, before: int, clients: int) -> None:
    """Room for clients that have come, who are like the mean of the others until they say something."""
    nobody = np.zeros(clients - before, bool)
    if not len(nobody):
        return
    if "known" in state:
        state["known"] = np.append(state["known"], nobody)
    if "begun" in state:
        state["met"] = np.append(state.get("met", np.ones(before, bool)), nobody)
    if "features" in state:
        middle = state["features"].mean(axis=0, keepdims=True)
        state["features"] = np.concatenate([state["features"], np.repeat(middle, len(nobody), axis=0)])


def remember(state: State, view: View, owner: str) -> bool:
    """Keep everyone's first feature in ``state["features"]``; whether there are any yet."""
    came = newcomers(state, view, owner)
    if came is not None:
        x, met, new = came
        x = shortened(x, x[met])
        kept = state.setdefault("features", x.copy())
        kept[new | ~met] = x[new | ~met]
    return "features" in state


def filled(view: View, owner: str) -> tuple[Features, Bools]:
    """The features of a view that must have them, and of whom they are known; of the others the mean of the known."""
    if view.features is None:
        raise bad("view", owner, "given with features", None)
    if np.isfinite(view.features.sum()):
        return view.features, np.ones(len(view.features), bool)
    met = np.asarray(np.isfinite(view.features).all(axis=1))
    middle = view.features[met].mean(axis=0, dtype=np.float64) if met.any() else 0.0
    return np.where(met[:, None], view.features, middle).astype(view.features.dtype), met


def shortened(x: Features, like: Features) -> Features:
    """Rows with none much longer than those of ``like`` are: a claim must not decide what is guessed of others."""
    most = LONGEST * float(np.sqrt(np.median(squares(like)))) if len(like) else 0.0
    lengths = np.sqrt(squares(x))
    if most == 0 or not (lengths > most).any():
        return x
    return np.asarray(x * np.minimum(1.0, most / np.maximum(lengths, most))[:, None], x.dtype)


def squares(x: Features) -> Floats:
    """Squared lengths of the rows."""
    return np.asarray(np.einsum("ij,ij->i", x, x, dtype=np.float64))
