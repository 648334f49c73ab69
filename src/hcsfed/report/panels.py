"""Small pictures, one per group: who was picked how often, and where the time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hcsfed.report import svg
from hcsfed.report.axes import Frame, ticks
from hcsfed.report.groups import Group
from hcsfed.report.words import count, number, tick
from hcsfed.types import Floats

# Up to here every client has a bar of its own, and can be pointed at.
MOST_BARS = 200
PANEL = Frame(280, 164, left=30, right=4, top=26, bottom=26)
HISTOGRAM = Frame(280, 178, left=30, right=4, top=26, bottom=40)


@dataclass(frozen=True, eq=False)
class Picks:
    """How often each client was picked: per run, the mean over the group's runs."""

    times: Floats
    rounds: float
    never: int

    @property
    def even(self) -> float:
        """What each would have if all picks were dealt out evenly."""
        return float(self.times.mean())


def picks(group: Group) -> Picks:
    """Count the cohorts that each client was in. A client drawn twice in one round counts once."""
    clients = max([_clients(run.about, run.history) for run in group.runs], default=0)
    counted = np.zeros((len(group.runs), clients))
    for row, run in zip(counted, group.runs, strict=True):
        for record in run.history:
            row[np.asarray(record["ids"], np.int64)] += 1
    rounds = float(np.mean([len(run.history) for run in group.runs]))
    return Picks(counted.mean(0), rounds, int((counted.sum(0) == 0).sum()))


def _clients(about: Mapping[str, object], history: Sequence[Mapping[str, Sequence[int]]]) -> int:
    federation = about.get("federation")
    told = federation.get("clients", 0) if isinstance(federation, Mapping) else 0
    return max(int(told), 1 + max((max(record["ids"], default=-1) for record in history), default=-1))


def common_top(picked: Picks, others: Sequence[Picks]) -> float:
    """The highest count among those with the same even share, so that their panels compare."""
    return max(float(p.times.max(initial=0)) for p in others if abs(p.even - picked.even) < 1e-6)


def picks_figure(picked: Picks, index: int, label: str, top: float, name: str) -> str:
    """Sorted bars up to the count ``top``, or for many clients a histogram."""
    many = len(picked.times) > MOST_BARS
    body = _histogram(picked) if many else _bars(picked, top)
    words = (
        f"{label}: the most picked client was picked {number(float(picked.times.max(initial=0)), 'rounds')} times, "
        f"an even share would be {number(picked.even, 'rounds')}; {count(picked.never, 'client')} never."
    )
    colour, _ = svg.style(index)
    frame = HISTOGRAM if many else PANEL
    return svg.figure(frame, name, f"Picks by {label}", words, body, class_=f"figure panel s{colour}")


def _bars(picked: Picks, top: float) -> list[str]:
    order = np.argsort(-picked.times, kind="stable")
    marks = ticks(0, max(top, 1.0), most=3)
    y = PANEL.y(0, marks[-1])
    left, right = PANEL.left, PANEL.width - PANEL.right
    step = (right - left) / max(len(order), 1)
    width = step - (1 if step > 5 else 0)
    bars = []
    for place, client in enumerate(order):
        times = float(picked.times[client])
        bars.append(
            svg.tag(
                "rect",
                svg.tag("title", f"client {client}: {number(times, 'rounds')} times"),
                x=left + place * step,
                y=y(times),
                width=width,
                height=max(y(0) - y(times), 0.0),
            )
        )
    grid = [_tick_line(y(t), number(t, "rounds")) for t in marks]
    even = svg.tag("line", x1=left, x2=right, y1=y(picked.even), y2=y(picked.even), class_="target")
    return [
        *grid,
        svg.tag("g", *bars, class_="bars"),
        even,
        svg.text("Times picked", 0, 12, class_="label"),
        svg.text("Clients, most picked first", right, PANEL.height - 8, text_anchor="end", class_="label"),
    ]


def _histogram(picked: Picks) -> list[str]:
    frame = HISTOGRAM
    edges = _edges(picked.times)
    held, _ = np.histogram(picked.times, edges)
    marks = ticks(0, max(float(held.max()), 1.0), most=3)
    y, x = frame.y(0, marks[-1]), frame.x(float(edges[0]), float(edges[-1]))
    bottom, right = frame.height - frame.bottom, frame.width - frame.right
    bars = [
        svg.tag(
            "rect",
            svg.tag("title", f"{_between(float(a), float(b))}: {count(int(n), 'client')}"),
            x=x(float(a)),
            y=y(float(n)),
            width=max(x(float(b)) - x(float(a)) - 1, 0.5),
            height=max(y(0) - y(float(n)), 0.0),
        )
        for n, a, b in zip(held, edges[:-1], edges[1:], strict=True)
    ]
    grid = [_tick_line(y(t), tick(t, "steps")) for t in marks]
    below = [t for t in ticks(x.low, x.high, most=5) if x.low <= t <= x.high and t == round(t)]
    names = [svg.text(number(t, "rounds"), x(t), bottom + 15, text_anchor="middle", class_="tick") for t in below]
    return [
        *grid,
        svg.tag("g", *bars, class_="bars"),
        *names,
        svg.tag("line", x1=x(picked.even), x2=x(picked.even), y1=frame.top, y2=bottom, class_="target"),
        svg.text("Clients", 0, 12, class_="label"),
        svg.text("Times picked", right, frame.height - 6, text_anchor="end", class_="label"),
    ]


def _edges(times: Floats, most: int = 24) -> Floats:
    """A bin for each whole number, or for each few of them."""
    high = int(np.ceil(times.max(initial=0)))
    wide = -(-(high + 1) // most)
    edges: Floats = np.arange(0, high + wide + 1, wide, dtype=np.float64) - 0.5
    return edges


def _between(low: float, high: float) -> str:
    first, last = number(low + 0.5, "rounds"), number(high - 0.5, "rounds")
    return f"about {first} times" if first == last else f"about {first} to {last} times"


def _tick_line(place: float, words: str) -> str:
    return svg.tag(
        "g",
        svg.tag("line", x1=PANEL.left, x2=PANEL.width - PANEL.right, y1=place, y2=place, class_="grid"),
        svg.text(words, PANEL.left - 6, place + 4, text_anchor="end", class_="tick"),
    )


def stage_seconds(group: Group) -> dict[str, float]:
    """Mean seconds of each stage in one round, over all rounds of all runs."""
    total: Counter[str] = Counter()
    for run in group.runs:
        for record in run.history:
            total.update(record["seconds"])
    rounds = sum(len(run.history) for run in group.runs)
    return {stage: spent / max(rounds, 1) for stage, spent in total.items()}


@dataclass(frozen=True)
class Weighing:
    """How the answers were weighed: means over all rounds of all runs.

    ``total`` is Σ_i weights_i with its standard deviation ``wobble``; ``largest`` the largest weight of any round;
    ``effective`` is (Σw)² / Σw², the number of equally weighed answers that would be as good (Kish 1965).
    """

    total: float
    wobble: float
    largest: float
    effective: float
    answers: float


def weighing(group: Group) -> Weighing | None:
    weights = [np.asarray(r["weights"], np.float64) for run in group.runs for r in run.history if len(r["weights"])]
    if not weights:
        return None
    sums = np.array([w.sum() for w in weights])
    squares = np.array([(w**2).sum() for w in weights])
    effective = np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0)
    return Weighing(
        float(sums.mean()),
        float(sums.std()),
        max(float(w.max()) for w in weights),
        float(effective.mean()),
        float(np.mean([len(w) for w in weights])),
    )
