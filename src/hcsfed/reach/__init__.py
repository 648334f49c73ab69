"""Models of who is within reach, and of how long local work takes. NumPy and SciPy only; one model a file."""

from __future__ import annotations

from hcsfed.reach.always import Always
from hcsfed.reach.by_class import ByClass
from hcsfed.reach.by_size import BySize
from hcsfed.reach.constant import Constant
from hcsfed.reach.contract import Availability, People, Speed
from hcsfed.reach.diurnal import Diurnal
from hcsfed.reach.groups import Groups
from hcsfed.reach.independent import Independent
from hcsfed.reach.lognormal import Lognormal
from hcsfed.reach.timed import Timed
from hcsfed.reach.trace import Trace
from hcsfed.reach.untimed import Untimed
from hcsfed.registry import Registry

AVAILABILITIES: Registry[Availability] = Registry("availability")
AVAILABILITIES.add("always", Always)
AVAILABILITIES.add("independent", Independent)
AVAILABILITIES.add("diurnal", Diurnal)
AVAILABILITIES.add("class", ByClass)
AVAILABILITIES.add("groups", Groups)
AVAILABILITIES.add("trace", Trace)

SPEEDS: Registry[Speed] = Registry("speed")
SPEEDS.add("untimed", Untimed)
SPEEDS.add("constant", Constant)
SPEEDS.add("lognormal", Lognormal)
SPEEDS.add("size", BySize)
SPEEDS.add("file", Timed)

__all__ = [
    "AVAILABILITIES",
    "SPEEDS",
    "Always",
    "Availability",
    "ByClass",
    "BySize",
    "Constant",
    "Diurnal",
    "Groups",
    "Independent",
    "Lognormal",
    "People",
    "Speed",
    "Timed",
    "Trace",
    "Untimed",
]
