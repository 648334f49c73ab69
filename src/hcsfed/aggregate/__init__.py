"""Answers → an estimate of the full-participation update → the server's step.

Three things, each orthogonal to the others and to the selector: the algorithm says what clients do, the estimator what
is made of the answers, the server what the estimate does to the model.
"""

from __future__ import annotations

from hcsfed.aggregate.algorithms import FedAvg, FedProx
from hcsfed.aggregate.contract import Algorithm, Setup
from hcsfed.aggregate.difference import Difference, clusterfedvarp, fedvarp, mifa
from hcsfed.aggregate.estimate import WeightedSum, add_rows, as_array, row_norms
from hcsfed.aggregate.estimator import Estimator, Total, Weighted
from hcsfed.aggregate.fednova import FedNova
from hcsfed.aggregate.lag import Lag
from hcsfed.aggregate.regression import Regression
from hcsfed.aggregate.robust import Robust, median, trimmed
from hcsfed.aggregate.scaffold import Scaffold
from hcsfed.aggregate.server import Adam, Momentum, Server, Sgd, Yogi
from hcsfed.registry import Registry

ALGORITHMS: Registry[Algorithm] = Registry("algorithm")
ALGORITHMS.add("fedavg", FedAvg)
ALGORITHMS.add("fedprox", FedProx)
ALGORITHMS.add("scaffold", Scaffold)
ALGORITHMS.add("fednova", FedNova)
ALGORITHMS.add("lag", Lag)

ESTIMATORS: Registry[Estimator] = Registry("estimator")
ESTIMATORS.add("weighted", Weighted)
ESTIMATORS.add("difference", Difference)
ESTIMATORS.add("fedvarp", fedvarp)
ESTIMATORS.add("clusterfedvarp", clusterfedvarp)
ESTIMATORS.add("mifa", mifa)
ESTIMATORS.add("regression", Regression)
ESTIMATORS.add("median", median)
ESTIMATORS.add("trimmed-mean", trimmed)

SERVERS: Registry[Server] = Registry("server")
SERVERS.add("sgd", Sgd)
SERVERS.add("momentum", Momentum)
SERVERS.add("adam", Adam)
SERVERS.add("yogi", Yogi)

__all__ = [
    "ALGORITHMS",
    "ESTIMATORS",
    "SERVERS",
    "Adam",
    "Algorithm",
    "Difference",
    "Estimator",
    "FedAvg",
    "FedNova",
    "FedProx",
    "Lag",
    "Momentum",
    "Regression",
    "Robust",
    "Scaffold",
    "Server",
    "Setup",
    "Sgd",
    "Total",
    "Weighted",
    "WeightedSum",
    "Yogi",
    "add_rows",
    "as_array",
    "clusterfedvarp",
    "fedvarp",
    "median",
    "mifa",
    "row_norms",
    "trimmed",
]
