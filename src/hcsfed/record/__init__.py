"""One line per round, the ledger of bytes and steps, checkpoints, and how to read it all back."""

from __future__ import annotations

from hcsfed.record.folder import RunFolder, read_run
from hcsfed.record.ledger import BYTES_PER_FLOAT, Cost
from hcsfed.record.line import entry
from hcsfed.record.run import RoundRecord, Run

__all__ = ["BYTES_PER_FLOAT", "Cost", "RoundRecord", "Run", "RunFolder", "entry", "read_run"]
