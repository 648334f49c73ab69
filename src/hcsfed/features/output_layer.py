"""The last layer's bias: one number per class, which leans towards the classes that a client holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hcsfed.errors import bad
from hcsfed.features.contract import Context, as_numpy, float_bytes
from hcsfed.types import Features


@dataclass(frozen=True)
class OutputLayer:
    """Δb, the update of the bias of the output layer.

    With cross-entropy its gradient is the mean predicted minus the held share of each class, so it tells the label
    distribution roughly (Chen & Vikalo, "Heterogeneity-Guided Client Sampling", HiCS-FL, arXiv:2310.00198).
    """

    name: ClassVar[str] = "output-layer"
    privacy: ClassVar[str] = "Shows roughly which classes a client holds."

    def encode(self, updates: Any, context: Context) -> Features:
        if context.output_bias is None:
            raise bad("model", "feature output-layer", "one whose last layer has a bias", None)
        return as_numpy(updates[:, context.output_bias])

    def nbytes(self, k: int) -> int:
        return float_bytes(k)
