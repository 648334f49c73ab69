"""Any partitioner of the package flwr-datasets as a partition of ours.

Its partitioners deal out tables, not row numbers. So a column of row numbers is laid beside the labels, dealt out with
them, and read back: whatever a partitioner does with the rows, we learn which it gave to whom.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hcsfed.data.partition import Partition, from_lists
from hcsfed.data.source import Source
from hcsfed.errors import DataError

_ROW = "hcsfed_row"


def flower_partitioner(
    partitioner: Any,
    data: Source | ArrayLike,
    *,
    label: str = "label",
    columns: Mapping[str, ArrayLike] | None = None,
) -> Partition:
    """Deal the training rows of a source by a partitioner that has no dataset yet.

    Parameters
    ----------
    partitioner
        Such as ``flwr_datasets.partitioner.DirichletPartitioner(num_partitions=10, partition_by="label", alpha=0.5)``.
    data
        The source to deal out, or its labels.
    label
        The name under which the partitioner finds the labels (its ``partition_by``).
    columns
        Further columns that the partitioner looks at, one value per row, e.g. an id for ``NaturalIdPartitioner``.

    Examples
    --------
    Pass the result to :func:`hcsfed.data.load` together with the source::

        source = hcsfed.data.DATASETS["mnist"]()
        federation = hcsfed.data.load(source, flower_partitioner(partitioner, source))
    """
    labels = np.asarray(data.y if isinstance(data, Source) else data)
    try:
        from datasets import Dataset
    except ImportError as error:
        raise DataError("partitioners of flwr-datasets need their package (pip install flwr-datasets)") from error
    more = {name: np.asarray(values) for name, values in (columns or {}).items()}
    table = Dataset.from_dict({label: labels, **more, _ROW: np.arange(len(labels))})
    return deal(partitioner, table)


def deal(partitioner: Any, table: Any) -> Partition:
    """Give a table with a column of row numbers to a partitioner, and read the numbers back."""
    try:
        partitioner.dataset = table
        tables = [partitioner.load_partition(k) for k in range(partitioner.num_partitions)]
        whole = all(_ROW in part.column_names for part in tables)
        rows = [np.asarray(part[_ROW][:]) for part in tables] if whole else []
    except Exception as error:
        raise DataError(f"{type(partitioner).__name__} could not deal the rows: {error}") from error
    if not whole:
        raise DataError(f"{type(partitioner).__name__} deals out columns; a partition needs one that deals out rows")
    return from_lists(rows)
