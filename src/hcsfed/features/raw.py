"""The whole update: what compression is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hcsfed.features.contract import Context, as_numpy, float_bytes
from hcsfed.types import Features


@dataclass(frozen=True)
class Raw:
    """All d numbers; every client sends as much as a picked one."""

    name: ClassVar[str] = "raw"
    privacy: ClassVar[str] = "Shows the whole update, from which much of a client's data can often be rebuilt."

    def encode(self, updates: Any, context: Context) -> Features:
        return as_numpy(updates)

    def nbytes(self, k: int) -> int:
        return float_bytes(k)
