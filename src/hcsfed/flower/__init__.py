"""hcsfed on real machines: a strategy for Flower's server, and the client's side as a mod or as ready handlers.

Names are looked up when first used: the parts of a federation on loopback are of use where Flower itself is not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hcsfed.flower.handlers import client_app, evaluator, initial_arrays
    from hcsfed.flower.local_grid import LocalGrid
    from hcsfed.flower.mod import hcsfed_mod
    from hcsfed.flower.strategy import Strategy

_HOME = {
    "LocalGrid": "hcsfed.flower.local_grid",
    "Strategy": "hcsfed.flower.strategy",
    "client_app": "hcsfed.flower.handlers",
    "evaluator": "hcsfed.flower.handlers",
    "hcsfed_mod": "hcsfed.flower.mod",
    "initial_arrays": "hcsfed.flower.handlers",
}

__all__ = ["LocalGrid", "Strategy", "client_app", "evaluator", "hcsfed_mod", "initial_arrays"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hcsfed.flower' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
