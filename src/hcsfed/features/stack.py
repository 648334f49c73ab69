"""Vectors as they came from clients → one array with a row for each, whatever some of them have sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hcsfed.errors import bad
from hcsfed.features.contract import as_numpy
from hcsfed.types import Features


def stack(vectors: Sequence[Any], width: int = 0) -> Features:
    """One row per client, for :class:`~hcsfed.types.View`; NaN for those whose message can't be used.

    That is who sent None, or a vector of another length. Selectors leave such clients out and name them in
    ``info["left_out"]``, as they do with numbers that are not finite.

    Parameters
    ----------
    vectors
        Arrays or tensors of k numbers, or None.
    width
        k; 0: the length that most have.
    """
    rows = [None if v is None else as_numpy(v) for v in vectors]
    flat = [row for row in rows if row is not None and row.ndim == 1]
    if not width and not flat:
        raise bad("vectors", "features", "at least one vector where no width is given", f"{len(rows)} messages")
    k = width or Counter(len(row) for row in flat).most_common(1)[0][0]
    out = np.full((len(rows), k), np.nan, np.float32)
    for target, row in zip(out, rows, strict=True):
        if row is not None and row.shape == (k,):
            target[:] = row
    return out
