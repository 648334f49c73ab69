"""What the server makes of what clients claim, before anything is decided by it: claims and updates are bounded.

A guard is one file and one line here. What is not finite is refused whatever the guard.
"""

from __future__ import annotations

from hcsfed.guard.contract import Guard, Trust
from hcsfed.guard.fixed import Fixed
from hcsfed.guard.median import Median
from hcsfed.registry import Registry

GUARDS: Registry[Guard] = Registry("guard")
GUARDS.add("none", Trust)
GUARDS.add("fixed", Fixed)
GUARDS.add("median", Median)

__all__ = ["GUARDS", "Fixed", "Guard", "Median", "Trust"]
