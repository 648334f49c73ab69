"""``hcsfed bench engine``: how long the paper's round takes, here and in the frameworks that one would take instead."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hcsfed.cli.bench import figures as f
from hcsfed.cli.bench.machine import machine
from hcsfed.cli.bench.peers import PEERS, Peer, home, launch, scripts
from hcsfed.cli.bench.task import Score, learned_alike, load, score
from hcsfed.cli.bench.worker import Worker
from hcsfed.errors import HcsfedError, bad, unknown

METHOD = (
    "One round of m clients, 500 MNIST images of one class each, 50 SGD steps of 50 rows, rate 0.01, float32. Every "
    "competitor is a process of its own that waits its turn; in every repeat all take it one after the other, so that "
    "whatever else the machine does hits all alike. A turn is as many rounds as fit in a fifth of a second, at least "
    "one, and counts as their median; the best turn is compared. Start-up, compilation and a first round are off the "
    "clock. hcsfed hands over every client's update; the others hand over their average. The roofline is the round's "
    "floating-point operations at the rate of a 2048 x 2048 sgemm in the same repeat, by PyTorch or NumPy, whichever "
    "is faster. The CNN trains 10 clients for 10 "
    "steps of 50 random images shaped like CIFAR-10's. The whole round is hcsfed.simulate with a test evaluation in "
    "every round and the random selector."
)
SCORED = tuple(f.MODELS)
CLIENTS = 100
Say = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """What everyone runs: ``m`` clients of a model."""

    model: str
    m: int

    @property
    def name(self) -> str:
        return f"{self.model} m={self.m}"

    @property
    def ids(self) -> list[int]:
        """Spread evenly, since neighbours may hold the same class."""
        return list(range(self.m)) if self.model == "cnn" else list(range(0, CLIENTS, CLIENTS // self.m))


@dataclass(frozen=True, eq=False)
class Competitor:
    """An engine behind a worker, and the models that it takes part with."""

    label: str
    worker: Worker
    models: tuple[str, ...] = SCORED
    extra: dict[str, str] = field(default_factory=dict)

    def turn(self, case: Case, save: Path | None = None) -> float:
        """Seconds of a round: the median of this turn."""
        request = {"model": case.model, "ids": case.ids, "save": str(save) if save else None, **self.extra}
        return float(statistics.median(self.worker.ask(request)["seconds"]))


def cases(quick: bool) -> list[Case]:
    sizes = (10,) if quick else (10, 100)
    return [Case(model, m) for model in f.MODELS for m in sizes] + [Case("cnn", 10)]


def ours(worker: Worker) -> list[Competitor]:
    """What our own worker runs."""
    scope = {f.OURS: (*SCORED, "cnn"), f.VMAP: ("mlp",), f.LOOP: SCORED, f.ROUND: SCORED, f.SGEMM: (*SCORED, "cnn")}
    return [Competitor(engine, worker, models, {"engine": engine}) for engine, models in scope.items()]


def wanted(peers: str) -> list[Peer]:
    """The peers named in ``flower,pfl,fedjax`` or ``none``."""
    names = [] if peers == "none" else [name.strip() for name in peers.split(",")]
    for name in names:
        if name not in PEERS:
            raise unknown("peer", name, [*PEERS, "none"])
    return [way for name in names for way in PEERS[name]]


class Turns:
    """Who takes turns. Who fails is left out from then on, with the reason."""

    def __init__(self, rivals: Sequence[Competitor]) -> None:
        self._rivals = rivals
        self.failed: dict[str, str] = {}

    def of(self, case: Case) -> Iterator[Competitor]:
        for rival in self._rivals:
            if case.model in rival.models and rival.label not in self.failed:
                yield rival

    def take(self, rival: Competitor, case: Case, save: Path | None = None) -> float | None:
        try:
            return rival.turn(case, save)
        except HcsfedError as error:
            self.failed[rival.label] = str(error)
            return None


def measure(turns: Turns, todo: Sequence[Case], repeats: int, say: Say) -> dict[str, dict[str, list[float]]]:
    """Repeat by repeat, case by case, everyone's turn."""
    seconds: dict[str, dict[str, list[float]]] = {case.name: {} for case in todo}
    for repeat in range(repeats):
        for case in todo:
            say(f"repeat {repeat + 1} of {repeats}, {case.name}")
            for rival in turns.of(case):
                took = turns.take(rival, case)
                if took is not None:
                    seconds[case.name].setdefault(rival.label, []).append(took)
    return seconds


def check(turns: Turns, todo: Sequence[Case], folder: Path, say: Say) -> dict[str, dict[str, Any]]:
    """Everyone's first round, off the clock: it warms up, and it shows that training was real."""
    about = json.loads((folder / "task.json").read_text())
    x = np.load(folder / "test_x.npy").astype(np.float32) * np.float32(about["scale"]) + np.float32(about["shift"])
    y = np.load(folder / "test_y.npy")
    path = folder / "averaged.npz"
    checks: dict[str, dict[str, Any]] = {}
    for case in todo:
        mine: Score | None = None
        for rival in turns.of(case):
            say(f"warming up: {rival.label}, {case.name}")
            scored = case.model in SCORED and rival.label not in (f.SGEMM, f.ROUND)
            if turns.take(rival, case, path if scored else None) is None or not scored:
                continue
            before, after = (score(load(p), x, y) for p in (folder / f"{case.model}.npz", path))
            mine = mine or after
            alike = {"learned_alike": learned_alike(before, mine, after)}
            checks.setdefault(case.name, {"before": asdict(before)})[rival.label] = asdict(after) | alike
    return checks


def engine(
    peers: Annotated[str, typer.Option(help="Which peers: names with commas between them, or none.")] = ",".join(PEERS),
    repeats: Annotated[int, typer.Option(help="Turns that everyone takes.")] = 5,
    quick: Annotated[bool, typer.Option(help="Two repeats, ten clients: to see that it runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where the figures go, as JSON.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Seconds for one round of the paper, beside Flower, pfl-research, FedJAX and the sgemm roofline."""
    if repeats < 1:
        raise bad("repeats", "bench engine", "an int >= 1", repeats)
    ways = wanted(peers)
    benchmarks = scripts()
    if ways and benchmarks is None:
        print("hcsfed: the peers need the repository's benchmarks folder: run this in a checkout", file=sys.stderr)
        ways = []
    began, here = time.perf_counter(), machine()

    def say(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hcsfed-bench-")))
        say("starting hcsfed")
        own = Worker(
            "hcsfed", [sys.executable, "-m", "hcsfed.cli.bench.ours", str(folder)], home() / "logs" / "hcsfed.log"
        )
        stack.callback(own.close)
        versions = {"hcsfed": own.hear(300)["versions"]}
        rivals, absent = ours(own), {}
        for way in ways:
            say(f"starting {way.label} (its environment is made on first use, which takes minutes)")
            try:
                worker = launch(way, benchmarks or Path(), folder)
                stack.callback(worker.close)
                versions[way.label] = worker.hear(300)["versions"]
                rivals.append(Competitor(way.label, worker))
            except HcsfedError as error:
                absent[way.label] = str(error)
        todo = cases(quick)
        turns = Turns(rivals)
        checks = check(turns, todo, folder, say)
        seconds = measure(turns, todo, 2 if quick else repeats, say)
        say("")
    result = {
        "method": METHOD,
        **here,
        "versions": versions,
        "repeats": 2 if quick else repeats,
        "quick": quick,
        "took": round(time.perf_counter() - began, 1),
        "failed": absent | turns.failed,
        "seconds": seconds,
        "verdicts": [asdict(v) for v in f.verdicts(seconds)],
        "checks": checks,
    }
    write(result, out or default_file("engine", benchmarks, quick))
    if json_:
        print(json.dumps(result))
    else:
        from hcsfed.cli.bench.show import show

        show(result)


def default_file(name: str, benchmarks: Path | None, quick: bool) -> Path | None:
    """In a checkout, the results' folder; a quick look never takes the place of a real result."""
    return None if benchmarks is None or quick else benchmarks / "results" / f"{name}.json"


def write(result: dict[str, Any], path: Path | None) -> None:
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
    except OSError as error:
        raise HcsfedError(f"the figures can't be written to {path}: {error.strerror}") from error
