"""One line of a run's history."""

from __future__ import annotations

import numpy as np

from hcsfed.record.ledger import Cost
from hcsfed.record.run import RoundRecord
from hcsfed.stopwatch import Stopwatch
from hcsfed.types import Answers, Selection


def entry(
    t: int,
    selection: Selection,
    answers: Answers,
    cost: Cost,
    loss: float | None,
    accuracy: float | None,
    watch: Stopwatch,
) -> RoundRecord:
    """Round t, the first being 0, as it is written down."""
    share = np.abs(selection.weights).sum()
    return {
        "round": t + 1,
        "loss": loss,
        "accuracy": None if accuracy is None or np.isnan(accuracy) else accuracy,
        "train_loss": float(np.abs(selection.weights) @ answers.losses / share) if share > 0 else None,
        "upload_bytes": cost.upload_bytes,
        "download_bytes": cost.download_bytes,
        "local_steps": cost.local_steps,
        "seconds": {stage: round(seconds, 6) for stage, seconds in watch.seconds.items()},
        "ids": selection.ids.tolist(),
        "weights": selection.weights.tolist(),
        "left_out": [int(k) for k in selection.info.get("left_out", ())],
    }
