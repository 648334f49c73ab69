"""Client selection for federated learning: which few clients should answer this round?

``import hcsfed`` is cheap: names are looked up when first used, and PyTorch is loaded by the simulator only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hcsfed.data import load, pack
    from hcsfed.errors import HcsfedError
    from hcsfed.record import Run, read_run
    from hcsfed.simulate import simulate
    from hcsfed.types import Answers, Federation, Selection, View

__version__ = "0.1.0"

_HOME = {
    "Answers": "hcsfed.types",
    "Federation": "hcsfed.types",
    "HcsfedError": "hcsfed.errors",
    "Run": "hcsfed.record",
    "Selection": "hcsfed.types",
    "View": "hcsfed.types",
    "load": "hcsfed.data",
    "pack": "hcsfed.data",
    "read_run": "hcsfed.record",
    "simulate": "hcsfed.simulate",
}

__all__ = [
    "Answers",
    "Federation",
    "HcsfedError",
    "Run",
    "Selection",
    "View",
    "__version__",
    "load",
    "pack",
    "read_run",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hcsfed' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
