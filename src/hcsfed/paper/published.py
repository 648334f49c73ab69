"""The figures of the paper's tables."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from hcsfed.paper.preset import Point, table


@dataclass(frozen=True)
class Cell:
    """A figure as printed, in shares where it is an accuracy; ``censored`` where it is only known to be more."""

    value: float
    plus_minus: float = 0.0
    censored: bool = False


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """The lines of a table's file."""
    text = (files("hcsfed.paper") / "tables" / f"{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def rounds(point: Point, target: float) -> Cell | None:
    """Table 1's cell for a point, at the target that it states; what is swept there stands in pictures alone."""
    if target != 0.8 or point.sweep or point.model != "logistic" or point.partition != "non-iid":
        return None
    row = _row("table1", point)
    return None if row is None else Cell(float(row["rounds_to_80pct"]), censored=row["censored"] == "yes")


def accuracy(point: Point) -> Cell | None:
    """The cell of Table 3 or 4 for a point; a model of ours in place of the paper's has none."""
    if point.data != "mnist" and point.model == "mlp":
        return None
    row = _row("table3" if point.model == "logistic" else "table4", point)
    return None if row is None else Cell(float(row["final_accuracy"]) / 100, float(row["plus_minus"]) / 100)


def _row(name: str, point: Point) -> dict[str, str] | None:
    data = table("common")["data"].get(point.data, {}).get("paper")
    for row in rows(name):
        if (row["dataset"], row["method"], float(row["sampling_ratio"])) == (data, point.paper, point.q) and row.get(
            "partition", point.partition
        ) == point.partition:
            return row
    return None


def heterogeneity() -> dict[int, list[int]]:
    """Table 2: rows of each class by client."""
    return {int(row["client"]): [int(row[f"c{c}"]) for c in range(10)] for row in rows("table2")}
