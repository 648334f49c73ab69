"""Answers → an estimate of the full-participation update → the server's step."""

from __future__ import annotations

from hcsfed.aggregate.algorithms import ALGORITHMS, Algorithm, FedAvg, FedProx
from hcsfed.aggregate.estimate import WeightedSum, row_norms

__all__ = ["ALGORITHMS", "Algorithm", "FedAvg", "FedProx", "WeightedSum", "row_norms"]
