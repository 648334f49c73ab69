"""Features that a client may deny: clipped, with Gaussian noise, and the privacy that this has spent so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hcsfed.errors import bad
from hcsfed.features.contract import Context, Feature
from hcsfed.rng import stream
from hcsfed.types import Features


@dataclass(frozen=True)
class Noisy:
    """Any feature, clipped to length C, with N(0, (σC)²) added to each number by the client itself.

    The guarantee is for all data of a client (local, client-level differential privacy): what it sends would have been
    about as likely from any other data. Two clipped vectors are up to 2C apart, so one round is a Gaussian mechanism
    with μ = 2/σ. It covers the features alone: norms sent beside them, and the updates of the picked, are not covered;
    take norms from the noisy features.

    Parameters
    ----------
    feature
        What is encoded.
    clip
        C.
    noise
        σ, the noise in multiples of C.
    secret
        What the noise is drawn from, in place of the run's seed. A real client takes a number that nobody else knows:
        a server that can draw the same noise can take it away.
    """

    feature: Feature
    clip: float = 1.0
    noise: float = 1.0
    secret: int | None = None

    name: ClassVar[str] = "noisy"
    privacy: ClassVar[str] = "Differentially private towards the server; see `spent`."

    def __post_init__(self) -> None:
        if not 0 < self.clip < math.inf:
            raise bad("clip", "noisy features", "a number > 0", self.clip)
        if not 1e-6 <= self.noise < math.inf:  # below, it hides nothing, and ε is beyond all numbers
            raise bad("noise", "noisy features", "a number >= 1e-6", self.noise)

    def encode(self, updates: Any, context: Context) -> Features:
        x = self.feature.encode(updates, context).astype(np.float64)
        lengths = np.linalg.norm(x, axis=1, keepdims=True)
        x /= np.maximum(lengths / self.clip, 1)
        ids = np.arange(len(x)) if context.ids is None else context.ids
        seed = context.seed if self.secret is None else self.secret
        for row, client in zip(x, ids, strict=True):
            rng = stream(seed, "feature-noise", context.round, int(client))
            row += rng.normal(0, self.noise * self.clip, len(row))
        return x.astype(np.float32)

    def nbytes(self, k: int) -> int:
        return self.feature.nbytes(k)

    def spent(self, times: int, delta: float = 1e-5) -> float:
        """ε after a client has sent its features this many times."""
        return epsilon(2 / self.noise, times, delta)


def epsilon(mu: float, times: int, delta: float) -> float:
    """The ε of (ε, δ)-differential privacy after ``times`` Gaussian mechanisms with μ = sensitivity/standard deviation.

    Exact, no bound: together they are one Gaussian mechanism with √times·μ (Dong, Roth & Su, "Gaussian differential
    privacy", JRSS-B 2022), for which δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (Balle & Wang, ICML 2018).
    """
    from scipy.optimize import brentq  # half of what the import of all features would cost
    from scipy.special import log_ndtr, ndtr

    if not 0 < delta < 1:
        raise bad("delta", "the privacy accountant", "a number in (0, 1)", delta)
    total = mu * math.sqrt(times)
    if total == 0:
        return 0.0

    def excess(eps: float) -> float:
        high = ndtr(total / 2 - eps / total)
        return float(high - math.exp(eps + float(log_ndtr(-total / 2 - eps / total))) - delta)

    if excess(0.0) <= 0:
        return 0.0
    top = 1.0
    while excess(top) > 0:
        top *= 2
    return float(brentq(excess, 0.0, top, xtol=1e-10))
