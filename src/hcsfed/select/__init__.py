"""Selectors: what the server may know of the clients → who answers, and with what weight. NumPy only.

A selector is one file and one line here.
"""

from __future__ import annotations

from hcsfed.registry import Registry
from hcsfed.select.contract import Claims, Learner, Selector, observe, pick, start
from hcsfed.select.full import Full
from hcsfed.select.md import Multinomial
from hcsfed.select.random import Random, RandomShrunk

SELECTORS: Registry[Selector] = Registry("selector")
SELECTORS.add("full", Full)
SELECTORS.add("random", Random)
SELECTORS.add("random-shrunk", RandomShrunk)
SELECTORS.add("md", Multinomial)

__all__ = [
    "SELECTORS",
    "Claims",
    "Full",
    "Learner",
    "Multinomial",
    "Random",
    "RandomShrunk",
    "Selector",
    "observe",
    "pick",
    "start",
]
