"""One call from names to a federation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hcsfed.data.pack import pack
from hcsfed.data.partition import Partition
from hcsfed.data.registries import DATASETS, FILES, PARTITIONS
from hcsfed.data.source import Source
from hcsfed.errors import bad
from hcsfed.types import Federation

DEFAULT_CLIENTS = 100


def load(
    data: str | Path | Source = "digits",
    partition: str | Partition | None = None,
    clients: int | None = None,
    seed: int = 0,
    *,
    data_options: Mapping[str, Any] | None = None,
    partition_options: Mapping[str, Any] | None = None,
) -> Federation:
    """Read a set, deal it to clients, check and pack it.

    Parameters
    ----------
    data
        A name in ``DATASETS``, a path to an ``.npz`` file or to a folder of images by class, or a :class:`Source`.
    partition
        A name in ``PARTITIONS``, or a partition made elsewhere. None or ``"default"``: ``natural`` where the set has
        clients of its own, else ``shard`` (one class per client), or ``iid`` where rows have no class.
    clients
        N; by default all clients of a natural partition, else 100.
    seed
        Of the partition, and of sets that are generated.
    data_options, partition_options
        What the named set and partition take, e.g. ``{"alpha": 0.3}``.

    Examples
    --------
    >>> from hcsfed.data import load
    >>> federation = load("digits", "dirichlet", clients=20, partition_options={"alpha": 0.5})
    >>> federation.clients, federation.x.dtype
    (20, dtype('uint8'))
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise bad("seed", "load", "an int >= 0", seed)
    if clients is not None and (isinstance(clients, bool) or not isinstance(clients, (int, np.integer)) or clients < 1):
        raise bad("clients", "load", "an int >= 1", clients)
    seed = int(seed)
    source = read_source(data, clients, seed, data_options or {})
    name = default_partition(source) if partition in (None, "default") else partition
    if isinstance(partition, Partition):
        if partition_options:
            raise bad("partition_options", "load", "empty when a partition is given", dict(partition_options))
        if clients not in (None, partition.clients):
            raise bad("clients", "load", f"left out or {partition.clients}, as in the given partition", clients)
        name, dealt = "given", partition
    elif not isinstance(name, str):
        raise bad("partition", "load", "a name or a Partition", partition)
    elif name == "natural" and source.offsets is not None and clients in (None, len(source.offsets) - 1):
        PARTITIONS.check(name, partition_options or {})
        dealt = None  # the rows lie as they should: no index, no copy
    else:
        dealt = split(source, name, clients, seed, partition_options or {})
    about = {
        "data": {"name": source.name, **(data_options or {})},
        "partition": {"name": name, **(partition_options or {})},
        "seed": seed,
        **source.about,
    }
    return pack(
        source.x,
        source.y,
        source.test_x,
        source.test_y,
        index=None if dealt is None else dealt.index,
        offsets=source.offsets if dealt is None else dealt.offsets,  # type: ignore[arg-type]
        classes=source.classes,
        task=source.task,
        name=source.name,
        scale=source.scale,
        shift=source.shift,
        overwrite=source.owned and source is not data,
        about=about,
    )


def read_source(data: str | Path | Source, clients: int | None, seed: int, options: Mapping[str, Any]) -> Source:
    """The set by its name, its path, or as it is."""
    if isinstance(data, Source):
        if options:
            raise bad("data_options", "load", "empty when a Source is given", dict(options))
        return data
    if str(data) not in DATASETS:
        path = Path(data).expanduser()
        kind = "folder of images" if path.is_dir() else ".npz file"
        if path.is_dir() or path.suffix == ".npz":
            FILES.check(kind, options)
            return FILES[kind](path, **{"seed": seed, **options})
    name = str(data)
    DATASETS.check(name, options)
    # Sets that are generated need a seed and a number of clients, which are the caller's and not options of the set.
    given: dict[str, Any] = {"seed": seed, "clients": DEFAULT_CLIENTS if clients is None else clients}
    wanted = inspect.signature(DATASETS[name]).parameters
    return DATASETS[name](**{k: v for k, v in given.items() if k in wanted}, **options)


def default_partition(source: Source) -> str:
    if source.offsets is not None:
        return "natural"
    return "shard" if source.task == "classification" and source.y.ndim == 1 else "iid"


def split(source: Source, name: str, clients: int | None, seed: int, options: Mapping[str, Any]) -> Partition:
    """Deal the training rows of a set by a named partition."""
    PARTITIONS.check(name, options)
    if name == "natural":
        if source.offsets is None:
            others = ", ".join(p for p in PARTITIONS if p != "natural")
            raise bad("partition", f"data {source.name!r}", f"one of {others} (it has no clients of its own)", name)
        return PARTITIONS[name](source.y, clients, seed=seed, offsets=source.offsets)
    return PARTITIONS[name](source.y, DEFAULT_CLIENTS if clients is None else clients, seed=seed, **options)
