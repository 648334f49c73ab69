"""Where a run stands, what a checkpoint of it holds, and how a round moves it on: whoever the clients are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from hcsfed import memory
from hcsfed.aggregate import Estimator, as_array
from hcsfed.aggregate import Server as ServerStep
from hcsfed.rng import stream
from hcsfed.select import Full, Selector, longer, observe, pick, start
from hcsfed.shelf import Shelves
from hcsfed.types import Answers, Floats, Selection, State, View
from hcsfed.updates import Vectors

if TYPE_CHECKING:
    import torch

MEMORIES = ("notes", "heard", "reach", "algorithm", "estimator", "server")


class Server(memory.Server, Protocol):
    """The server's share of what a run works with."""

    @property
    def estimator(self) -> Estimator: ...

    @property
    def server(self) -> ServerStep: ...

    @property
    def size(self) -> int:
        """How many answer a round, m."""
        ...

    def initial(self) -> Vectors:
        """The parameters of round 0."""
        ...


@dataclass(frozen=True, eq=False)
class Standing:
    """Where a run stands after some rounds: with the settings, all that the next round depends on.

    Parameters
    ----------
    notes
        What the selector wrote down.
    heard
        What the server remembers of the clients' small messages.
    reach
        What it has learned of who is within reach and who answers.
    algorithm, estimator, server
        What each of them carries from round to round.
    """

    round: int
    parameters: Vectors
    notes: State = field(default_factory=dict)
    heard: State = field(default_factory=dict)
    reach: State = field(default_factory=dict)
    algorithm: State = field(default_factory=dict)
    estimator: State = field(default_factory=dict)
    server: State = field(default_factory=dict)

    @classmethod
    def first(cls, parts: Server) -> Standing:
        """Before the first round."""
        return cls(
            round=0,
            parameters=parts.initial(),
            notes=start(parts.selector, parts.setup.clients),
            algorithm=parts.algorithm.start(parts.setup),
            estimator=parts.estimator.start(parts.setup),
            server=parts.server.start(parts.setup.dimension),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        memories = {f"{head}.{name}": array for head in MEMORIES for name, array in getattr(self, head).items()}
        return {"parameters": as_array(self.parameters), **memories}

    def kept(self, shelves: Shelves) -> dict[str, int]:
        """What a server keeps that stands here, as a round's line has it: in memory, and rows that lie in files."""
        memories = (array for head in MEMORIES for array in getattr(self, head).values())
        held = self.parameters.nbytes + sum(array.nbytes for array in memories)
        return {"server_bytes": int(held), "disk_bytes": shelves.in_use}

    @classmethod
    def of(cls, round: int, arrays: Mapping[str, NDArray[Any]], device: torch.device | None) -> Standing:
        """What :meth:`arrays` gave, with parameters on that device, or left as an array."""
        memories: dict[str, State] = {head: {} for head in MEMORIES}
        for name, array in arrays.items():
            head, _, rest = name.partition(".")
            if head in memories:
                memories[head][rest] = array
        parameters: Vectors = arrays["parameters"]
        if device is not None:
            import torch

            parameters = torch.from_numpy(parameters).to(device)
        return cls(round, parameters, **memories)


def adapt(parts: Server, standing: Standing, before: Floats) -> Standing:
    """The same standing where clients have joined behind those of the weights ``before``, or weights have changed."""
    old, now = len(before), parts.setup.clients
    parts.algorithm.adapt(parts.setup, standing.algorithm, before)
    parts.estimator.adapt(parts.setup, standing.estimator, before)
    memory.extend(standing.heard, now)
    return replace(standing, notes=longer(standing.notes, start(parts.selector, old), start(parts.selector, now)))


def choose(
    parts: Server, standing: Standing, view: View, seed: int, size: int | None = None
) -> tuple[Selector, Selection]:
    """Who is asked in this round, and who said so; ``size`` where more are asked than are to answer."""
    everyone = standing.round == 0 and parts.estimator.everyone_first
    selector = Full() if everyone else parts.selector
    view = replace(view, state=standing.notes)
    return selector, pick(selector, view, size or parts.size, stream(seed, "select", standing.round))


def advance(
    parts: Server, standing: Standing, selector: Selector, asked: Selection, answers: Answers, estimate: Vectors
) -> Standing:
    """Where the run stands after a round that gave this estimate."""
    parameters, server = parts.server.step(standing.parameters, estimate, standing.server)
    parts.algorithm.close(parts.setup, standing.algorithm)
    notes = observe(selector, standing.notes, asked, answers)
    heard = memory.remember(parts, standing.heard, answers, as_array(estimate))
    return replace(standing, round=standing.round + 1, parameters=parameters, notes=notes, heard=heard, server=server)
