"""Selectors: what the server may know of the clients → who answers, and with what weight. NumPy only.

A selector is one file and one line here.
"""

from __future__ import annotations

from hcsfed.registry import Registry
from hcsfed.select.cluster import Cluster, ClusterRealloc
from hcsfed.select.clustered_size import ClusteredSize
from hcsfed.select.clustered_updates import ClusteredUpdates
from hcsfed.select.contract import Claims, Learner, Selector, longer, observe, pick, recall, start
from hcsfed.select.cube import Cube
from hcsfed.select.data_variability import DataVariability
from hcsfed.select.divfl import DivFL
from hcsfed.select.fedcor import FedCor
from hcsfed.select.fedfast import FedFast
from hcsfed.select.frontier import Frontier
from hcsfed.select.full import Full
from hcsfed.select.hics import HiCS
from hcsfed.select.hybrid import Hybrid, Published
from hcsfed.select.importance import Importance, ImportanceIndependent
from hcsfed.select.local_rounds import LocalRounds
from hcsfed.select.loss_importance import LossImportance
from hcsfed.select.md import Multinomial
from hcsfed.select.oort import Oort
from hcsfed.select.picker import Picker
from hcsfed.select.pivotal import LocalPivotal
from hcsfed.select.power_of_choice import PowerOfChoice
from hcsfed.select.random import Random, RandomShrunk
from hcsfed.select.response import ResponseRates, answered, to_ask
from hcsfed.select.test_accuracy import TestAccuracy

SELECTORS: Registry[Selector] = Registry("selector")
SELECTORS.add("full", Full)
SELECTORS.add("random", Random)
SELECTORS.add("random-shrunk", RandomShrunk)
SELECTORS.add("md", Multinomial)
SELECTORS.add("importance", Importance)
SELECTORS.add("importance-independent", ImportanceIndependent)
SELECTORS.add("clustered-size", ClusteredSize)
SELECTORS.add("clustered-updates", ClusteredUpdates)
SELECTORS.add("power-of-choice", PowerOfChoice)
SELECTORS.add("divfl", DivFL)
SELECTORS.add("oort", Oort)
SELECTORS.add("loss-importance", LossImportance)
SELECTORS.add("data-variability", DataVariability)
SELECTORS.add("test-accuracy", TestAccuracy)
SELECTORS.add("local-rounds", LocalRounds)
SELECTORS.add("fedfast", FedFast)
SELECTORS.add("hics", HiCS)
SELECTORS.add("fedcor", FedCor)
SELECTORS.add("cluster", Cluster)
SELECTORS.add("cluster-realloc", ClusterRealloc)
SELECTORS.add("hcsfed", Hybrid)
SELECTORS.add("hcsfed-published", Published)
SELECTORS.add("pivotal", LocalPivotal)
SELECTORS.add("cube", Cube)
SELECTORS.add("frontier", Frontier)

__all__ = [
    "SELECTORS",
    "Claims",
    "Cluster",
    "ClusterRealloc",
    "ClusteredSize",
    "ClusteredUpdates",
    "Cube",
    "DataVariability",
    "DivFL",
    "FedCor",
    "FedFast",
    "Frontier",
    "Full",
    "HiCS",
    "Hybrid",
    "Importance",
    "ImportanceIndependent",
    "Learner",
    "LocalPivotal",
    "LocalRounds",
    "LossImportance",
    "Multinomial",
    "Oort",
    "Picker",
    "PowerOfChoice",
    "Published",
    "Random",
    "RandomShrunk",
    "ResponseRates",
    "Selector",
    "TestAccuracy",
    "answered",
    "longer",
    "observe",
    "pick",
    "recall",
    "start",
    "to_ask",
]
