"""What the server remembers of its clients, and what asking and answering cost: in the simulator and on real machines.

NumPy only. What it knows of a client is what that client sent last: a feature, a norm, and how many rounds ago.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hcsfed.aggregate import Algorithm, Setup
from hcsfed.features import Context, Feature, Noisy, Raw
from hcsfed.record import BYTES_PER_FLOAT, Cost
from hcsfed.select import Selector
from hcsfed.types import Answers, Bools, Floats, Ints, State, View

PROBES = 4  # gradients from which a client tells how much its gradients scatter


class Server(Protocol):
    """The server's share of what a run works with."""

    @property
    def selector(self) -> Selector: ...

    @property
    def algorithm(self) -> Algorithm: ...

    @property
    def feature(self) -> Feature | None: ...

    @property
    def setup(self) -> Setup: ...


def needs(parts: Server) -> frozenset[str]:
    """What must be known of the clients before a pick."""
    return parts.selector.claims.needs | (frozenset({"features"}) if parts.feature is not None else frozenset())


def stale(parts: Server) -> bool:
    """Whether what was heard last is good enough, so that the picked alone train."""
    return parts.selector.claims.trains == "picked"


def nothing(parts: Server, clients: int, context: Context) -> Answers:
    """Of every client a feature of zeros: as wide as one of an update, though nobody has said anything."""
    features = None
    if parts.feature is not None:
        blank = np.zeros((1, parts.setup.dimension), np.float32)
        one = parts.feature.encode(blank, replace(context, ids=np.zeros(1, np.int64)))
        features = np.zeros((clients, one.shape[1]), one.dtype)
    return Answers(np.arange(clients), np.zeros(clients), np.zeros(clients), np.zeros(clients, np.int64), features)


def recalled(view: View, memory: Mapping[str, NDArray[Any]]) -> View:
    """The view with what the server remembers."""
    return replace(view, features=memory.get("features"), norms=memory.get("norms"), ages=memory.get("ages"))


def remember(parts: Server, memory: State, answers: Answers, estimate: Floats) -> State:
    """What the server knows of the clients after a round. Large arrays are written in place."""
    if "ages" in memory:
        memory["ages"] += 1
        memory["ages"][answers.ids] = 0
        memory["norms"][answers.ids] = claimed(parts, answers)
        if answers.features is not None:
            memory["features"][answers.ids] = answers.features
    if parts.feature is not None and len(answers.ids) and not stale(parts):
        memory["aggregate"] = estimate
    return memory


def claimed(parts: Server, answers: Answers) -> Floats:
    """The norms by which clients are known: where features are noisy, those of the noisy features give nothing away."""
    if isinstance(parts.feature, Noisy) and answers.features is not None:
        return np.asarray(np.linalg.norm(answers.features.astype(np.float64), axis=1))
    return answers.norms


def count(parts: Server, memory: State, ids: Ints, clients: int) -> None:
    """These clients have sent noisy features once more."""
    if isinstance(parts.feature, Noisy):
        times = memory.get("times", np.zeros(clients, np.int64)).copy()
        times[ids] += 1
        memory["times"] = times


def spent(parts: Server, memory: Mapping[str, NDArray[Any]], delta: float) -> float | None:
    """ε of the client that has sent noisy features most often; None where none are sent."""
    if not isinstance(parts.feature, Noisy):
        return None
    return parts.feature.spent(int(memory["times"].max(initial=0)) if "times" in memory else 0, delta)


def note(parts: Server, *, floats: int = 0, width: int = 0) -> int:
    """Bytes of a small message: some numbers and a feature."""
    return BYTES_PER_FLOAT * floats + (parts.feature.nbytes(width) if parts.feature is not None and width else 0)


def asked(parts: Server, clients: int, *, floats: int, width: int = 0, steps: int = 0) -> Cost:
    """So many clients get the model and send some numbers and a feature."""
    return Cost(
        upload_bytes=note(parts, floats=floats, width=width) * clients,
        download_bytes=BYTES_PER_FLOAT * parts.setup.dimension * parts.algorithm.vectors * clients,
        local_steps=steps * clients,
    )


def price(
    parts: Server, answers: Answers, *, trained: Bools | bool, sent: Bools | bool, whom: Ints | None = None
) -> Cost:
    """What the picked cost: the model down and an update up, with a small message where the server keeps one.

    Who has ``trained`` before the pick sends the update and nothing else; whoever was ``sent`` the model has it. Of
    those ``whom`` it asked (by default, who answered) all have got the model and trained, also where no answer came.
    """
    ids = answers.ids if whom is None else whom
    ready, there = (np.full(len(ids), mask) if isinstance(mask, bool) else mask[ids] for mask in (trained, sent))
    came = np.isin(ids, answers.ids)
    steps = answers.steps
    if not came.all():
        steps = parts.setup.steps[ids].copy()
        steps[came] = answers.steps
    came[came] = True if answers.sent is None else answers.sent
    vectors = BYTES_PER_FLOAT * parts.setup.dimension * parts.algorithm.vectors
    # A feature that is the update itself has come with it.
    small = 0 if isinstance(parts.feature, Raw) else note(parts, width=width(answers))
    return Cost(
        upload_bytes=vectors * int(came.sum()) + small * int((came & ~ready).sum()),
        download_bytes=vectors * int((~there).sum()),
        local_steps=int(steps[~ready].sum()) + parts.algorithm.extra_steps(parts.setup, ids),
    )


def width(heard: Answers) -> int:
    """Numbers of the feature that came."""
    return 0 if heard.features is None else heard.features.shape[1]


def join(messages: Sequence[Answers]) -> Answers:
    """Chunks end to end."""
    if not messages:
        return Answers(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    features = [m.features for m in messages if m.features is not None]
    sent = [m.sent for m in messages if m.sent is not None]
    return Answers(
        np.concatenate([m.ids for m in messages]),
        np.concatenate([m.norms for m in messages]),
        np.concatenate([m.losses for m in messages]),
        np.concatenate([m.steps for m in messages]),
        np.concatenate(features) if features else None,
        sent=np.concatenate(sent) if sent else None,
    )


def meet(memory: State, heard: Answers, clients: int) -> None:
    """Some have sent their first message; of those never heard, what is remembered is NaN."""
    known = len(memory.get("norms", ()))
    norms, ages = np.full(clients, np.nan), np.zeros(clients, np.int64)
    if known:
        norms[:known], ages[:known] = memory["norms"], memory["ages"]
    norms[heard.ids], ages[heard.ids] = heard.norms, 0
    memory.update(norms=norms, ages=ages)
    if heard.features is not None:
        features = np.full((clients, heard.features.shape[1]), np.nan, np.float32)
        if "features" in memory:
            features[:known] = memory["features"]
        features[heard.ids] = heard.features
        memory["features"] = features


def extend(memory: State, clients: int) -> None:
    """More clients are known by name; of the newcomers nothing has been heard yet."""
    known = len(memory.get("norms", ()))
    if known and known < clients:
        meet(memory, join([]), clients)
        if "features" in memory:
            unheard = np.full((clients - known, memory["features"].shape[1]), np.nan, np.float32)
            memory["features"] = np.concatenate([memory["features"], unheard])


def unmet(memory: State, reached: Ints, clients: int) -> Ints:
    """Those of the reached who have sent nothing yet, and are taken down as met from now on."""
    if "norms" in memory and "unmet" not in memory:
        return reached[:0]
    left = memory.pop("unmet", np.ones(clients, bool)).copy()
    new = reached[left[reached]]
    left[new] = False
    if left.any():
        memory["unmet"] = left
    return new
