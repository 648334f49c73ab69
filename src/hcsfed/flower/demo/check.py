"""Whether a federation's run is right: the same in one process with the same nodes missing, and in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from logging import CRITICAL, getLogger
from typing import Any

import numpy as np
from flwr.app import ArrayRecord

from hcsfed.assemble import assemble
from hcsfed.flower.arrays import Packing
from hcsfed.flower.demo import app
from hcsfed.flower.demo.federation import node_name
from hcsfed.flower.local_grid import Fault, LocalGrid
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
    log, level = getLogger("flwr"), getLogger("flwr").level
    log.setLevel(CRITICAL)  # what it has to say was said by the federation
    try:
        model = app.train(Repeat(plan, history, chosen), plan, chosen)
    finally:
        log.setLevel(level)
    return chosen.history, vector(model)


def simulated(plan: dict[str, Any], count: int) -> tuple[list[RoundRecord], Floats]:
    """The first rounds in the simulator: their history, and the model after them."""
    given = {name: plan["strategy"][name] for name in ("selector", "cohort", "seed")}
    settings = merge(Settings(), {**given, "rounds": count, "device": "cpu"}, plan["strategy"]["options"])
    parts = assemble(settings, federation=app.shares(plan["nodes"], plan["seed"]))
    done = list(rounds(parts, Standing.first(parts)))
    return [record for record, _ in done], np.asarray(done[-1][1].parameters)


def undisturbed(history: Sequence[RoundRecord]) -> int:
    """In how many rounds from the first everyone was there and answered."""
    disturbed = (i for i, record in enumerate(history) if record["missing"] or record["away"])
    return next(disturbed, len(history))


def complaint(plan: dict[str, Any], history: Sequence[RoundRecord], model: Floats) -> str:
    """What is wrong with a federation's run; empty where nothing is."""
    if len(history) != plan["rounds"]:
        return f"{len(history)} of {plan['rounds']} rounds were done"
    if silent := [record["round"] for record in history if not record["ids"]]:
        return f"nobody answered in round {silent[0]}"
    again, wanted = repeated(plan, history)
    if (problem := differing(history, again)) or (problem := apart(model, wanted)):
        return f"{problem} in the same run in one process"
    if (count := undisturbed(history)) == 0:
        return ""
    simulation, wanted = simulated(plan, count)
    if problem := differing(history[:count], simulation):
        return f"{problem} in the simulator"
    return (apart(model, wanted) + " in the simulator") if count == len(history) and apart(model, wanted) else ""


def differing(history: Sequence[RoundRecord], other: Sequence[RoundRecord]) -> str:
    """The first round whose cohort, weights or loss differ."""
    for ours, theirs in zip(history, other, strict=True):
        if ours["ids"] != theirs["ids"]:
            return f"round {ours['round']} heard clients {ours['ids']}, and {theirs['ids']}"
        for name in ("weights", "loss"):
            if not np.allclose(ours[name], theirs[name], rtol=TOLERANCE, atol=TOLERANCE):
                return f"round {ours['round']} has {name} {ours[name]}, and {theirs[name]}"
    return ""


def apart(model: Floats, other: Floats) -> str:
    """Whether two models differ by more than the tolerance."""
    gap = difference(model, other)
    return "" if gap <= TOLERANCE else f"the model differs by {gap:.2g} from that"


def difference(model: Floats, other: Floats) -> float:
    """The largest of all parameters' differences."""
    return float(np.abs(model - other).max())


def vector(arrays: ArrayRecord) -> Floats:
    """All parameters."""
    return Packing.of(arrays).flatten(arrays).astype(np.float64)
