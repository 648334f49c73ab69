"""Features: an update → a short vector by which the server compares clients. NumPy arrays and torch tensors alike.

A feature is one file and one line here.
"""

from __future__ import annotations

from hcsfed.features.contract import Context, Feature
from hcsfed.features.cosine import Cosine
from hcsfed.features.gc import GradientCompression, as_published
from hcsfed.features.gc_shared import SharedCompression
from hcsfed.features.labels import Labels
from hcsfed.features.noise import Noisy, epsilon
from hcsfed.features.output_layer import OutputLayer
from hcsfed.features.raw import Raw
from hcsfed.features.sketch import Sketch
from hcsfed.features.stack import stack
from hcsfed.registry import Registry

FEATURES: Registry[Feature] = Registry("feature")
FEATURES.add("gc", GradientCompression)
FEATURES.add("gc-published", as_published)
FEATURES.add("gc-shared", SharedCompression)
FEATURES.add("sketch", Sketch)
FEATURES.add("raw", Raw)
FEATURES.add("cosine", Cosine)
FEATURES.add("output-layer", OutputLayer)
FEATURES.add("labels", Labels)

__all__ = [
    "FEATURES",
    "Context",
    "Cosine",
    "Feature",
    "GradientCompression",
    "Labels",
    "Noisy",
    "OutputLayer",
    "Raw",
    "SharedCompression",
    "Sketch",
    "epsilon",
    "stack",
]
