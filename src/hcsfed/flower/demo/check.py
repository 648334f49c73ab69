"""Whether a federation's run is right: the same in one process with the same nodes missing, and in the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord

from hcsfed.assemble import assemble
from hcsfed.flower.arrays import Packing
from hcsfed.flower.demo import app
from hcsfed.flower.demo.federation import node_name
from hcsfed.flower.local_grid import Fault, LocalGrid, hushed
from hcsfed.flower.strategy import Strategy
from hcsfed.record import RoundRecord
from hcsfed.settings import Settings, merge
from hcsfed.simulate import rounds
from hcsfed.standing import Standing
from hcsfed.types import Floats

TOLERANCE = 1e-5
"""What float32 sums may differ by. Parameters are of the order of 1."""


class Repeat(LocalGrid):
    """The nodes of a federation, in this process: away when they were away, silent when they were silent."""

    def __init__(self, plan: dict[str, Any], history: Sequence[RoundRecord], chosen: Strategy) -> None:
        self.names = [node_name(k) for k in range(plan["nodes"])]
        faults = [
            Fault(self.names.index(name), "silent", why.partition(":")[0], record["round"])
            for record in history
            for name, why in record["missing"].items()
        ]
        configs = [{"name": name, "partition-id": k} for k, name in enumerate(self.names)]
        super().__init__(app.clients(plan["nodes"], plan["seed"]), configs, faults=faults)
        self.history, self.chosen = history, chosen

    def get_node_ids(self) -> list[int]:
        away = self.history[len(self.chosen.history)]["away"]
        for name, node in zip(self.names, self.nodes, strict=True):
            node.here = name not in away
        return super().get_node_ids()


def repeated(plan: dict[str, Any], history: Sequence[RoundRecord]) -> tuple[list[RoundRecord], Floats]:
    """The same run once more, in this process: its history and its model."""
    chosen = Strategy(**{**plan["strategy"], "out": None, "keys": None})
    with hushed():
        model = app.train(Repeat(plan, history, chosen), plan, chosen)
    return chosen.history, vector(model)


def simulated(plan: dict[str, Any], count: int) -> tuple[list[RoundRecord], Floats]:
    """The first rounds in the simulator: their history, and the model after them."""
    given = {name: plan["strategy"][name] for name in ("selector", "cohort", "seed")}
    settings = merge(Settings(), {**given, "rounds": count, "device": "cpu"}, plan["strategy"]["options"])
    parts = assemble(settings, federation=app.shares(plan["nodes"], plan["seed"]))
    done = list(rounds(parts, Standing.first(parts)))
    return [record for record, _ in done], np.asarray(done[-1][1].parameters)


@dataclass(frozen=True)
class Verdict:
    """What there is to say about a federation's run.

    Parameters
    ----------
    complaint
        What is wrong with it; empty where nothing is.
    process
        By how much a parameter differs at most from the same run in one process.
    undisturbed, simulator
        Rounds from the first on in which everyone was there and answered, and by how much a parameter differs after
        them at most from the simulator's.
    """

    history: list[RoundRecord]
    complaint: str = ""
    process: float | None = None
    undisturbed: int = 0
    simulator: float | None = None


def judged(plan: dict[str, Any], history: Sequence[RoundRecord], models: Mapping[int, Floats]) -> Verdict:
    """Compare a run, and the models that were seen after its rounds."""
    told = list(history)
    if len(told) != plan["rounds"] or len(told) not in models:
        return Verdict(told, f"{len(told)} of {plan['rounds']} rounds were done")
    if silent := [record["round"] for record in told if not record["ids"]]:
        return Verdict(told, f"nobody answered in round {silent[0]}")
    count = max((done for done in models if done <= undisturbed(told)), default=0)
    again, model = repeated(plan, told)
    process = difference(models[len(told)], model)
    complaint = differing(told, again, process, "in one process")
    simulator: float | None = None
    if count and not complaint:
        simulation, model = simulated(plan, count)
        simulator = difference(models[count], model)
        complaint = differing(told[:count], simulation, simulator, "in the simulator")
    return Verdict(told, complaint, process, count, simulator)


def undisturbed(history: Sequence[RoundRecord]) -> int:
    """In how many rounds from the first everyone was there and answered."""
    disturbed = (i for i, record in enumerate(history) if record["missing"] or record["away"])
    return next(disturbed, len(history))


def differing(history: Sequence[RoundRecord], other: Sequence[RoundRecord], gap: float, where: str) -> str:
    """The first thing in which a run is another than that one: a cohort, its weights, the loss, the model."""
    for ours, theirs in zip(history, other, strict=True):
        if ours["ids"] != theirs["ids"]:
            return f"round {ours['round']} heard clients {ours['ids']}, but {theirs['ids']} {where}"
        for name in ("weights", "loss"):
            if not np.allclose(ours[name], theirs[name], rtol=TOLERANCE, atol=TOLERANCE):
                return f"round {ours['round']} has {name} {ours[name]}, but {theirs[name]} {where}"
    return "" if gap <= TOLERANCE else f"the model is off by {gap:.2g} from the one {where}"


def difference(model: Floats, other: Floats) -> float:
    """The largest of all parameters' differences."""
    return float(np.abs(model - other).max())


def vector(arrays: ArrayRecord) -> Floats:
    """All parameters."""
    return Packing.of(arrays).flatten(arrays).astype(np.float64)
