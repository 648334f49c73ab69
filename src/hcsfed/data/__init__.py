"""Data: named sets or your own → rows dealt to clients → a packed federation. NumPy only.

``load`` is the one call; a set is a :class:`Source`, a partition is pure index maths, ``pack`` checks and joins them.
"""

from __future__ import annotations

from hcsfed.data.load import load
from hcsfed.data.pack import pack
from hcsfed.data.partition import Partition
from hcsfed.data.registries import DATASETS, PARTITIONS
from hcsfed.data.source import Source

__all__ = ["DATASETS", "PARTITIONS", "Partition", "Source", "load", "pack"]
