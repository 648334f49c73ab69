"""What a round costs: bytes over the wire, local steps, simulated time.

Rounds alone hide that some schemes make everybody train, and that others wait for the slowest.
"""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_FLOAT = 4


@dataclass(frozen=True)
class Cost:
    """Payload bytes from and to clients, minibatch steps that clients took, and how long the server waited for them."""

    upload_bytes: int = 0
    download_bytes: int = 0
    local_steps: int = 0
    simulated_seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.upload_bytes + other.upload_bytes,
            self.download_bytes + other.download_bytes,
            self.local_steps + other.local_steps,
            self.simulated_seconds + other.simulated_seconds,
        )
