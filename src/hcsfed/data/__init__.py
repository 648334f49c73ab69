"""Data: named sets or your own → rows dealt to clients → a packed federation. NumPy only.

``load`` is the one call; a set is a :class:`Source`, a partition is pure index maths, ``pack`` checks and joins them.
"""

from __future__ import annotations

from hcsfed.data.flower_partitioner import flower_partitioner
from hcsfed.data.folder import from_folder
from hcsfed.data.huggingface import from_huggingface
from hcsfed.data.load import load
from hcsfed.data.npz import from_npz
from hcsfed.data.own import from_arrays
from hcsfed.data.pack import pack
from hcsfed.data.partition import Partition
from hcsfed.data.quadratic import client_optimum, optimum
from hcsfed.data.registries import DATASETS, PARTITIONS
from hcsfed.data.source import Source
from hcsfed.data.torch_dataset import from_torch

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "Partition",
    "Source",
    "client_optimum",
    "flower_partitioner",
    "from_arrays",
    "from_folder",
    "from_huggingface",
    "from_npz",
    "from_torch",
    "load",
    "optimum",
    "pack",
]
