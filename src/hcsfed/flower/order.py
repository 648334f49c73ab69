"""What the server asks of a client, and what comes back: the records that travel inside Flower's messages.

A message to a client holds the model and the app's own config where a Flower app expects them (``arrays``, ``config``),
and an order beside them. An answer holds one record of numbers and one of arrays. Everything is numbers, text and
arrays; nothing is pickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from hcsfed.flower.arrays import RefusedError, read, short
from hcsfed.settings import LocalTraining

ORDER, ANSWER, EXTRAS, MODEL, CONFIG = "hcsfed", "hcsfed.answer", "hcsfed.arrays", "arrays", "config"
CLASSES = 100_000  # more than anybody counts
LARGEST = 1e18  # its square is still a float32; far beyond any update that is of use
COUNT = 1 << 53  # whole numbers up to here are the same in every format

Phase = Literal["hello", "losses", "variances", "opening", "features", "upload", "full"]
"""What is asked for.

``hello``: a name and a number of examples. ``losses``, ``variances``: one number about the model that was sent.
``opening``: a note from a few steps. ``features``: train, keep the update, send a note. ``upload``: the update that was
kept. ``full``: train, send update and note.
"""


@dataclass(frozen=True)
class Order:
    """One request.

    Parameters
    ----------
    round
        Rounds before this one.
    client
        The number that the server gave the client.
    feature, options
        The feature that a note holds, by name; none where the name is empty.
    steps
        Of an opening; 0: a round's.
    whole
        Steps that the server takes a round of this client to have.
    factor
        What the update is multiplied by.
    gradient
        Whether the gradient over all rows is sent beside the update.
    labels
        Whether class counts are sent with the hello.
    algorithm, local
        How clients train, for handlers that train by themselves.
    """

    phase: Phase
    round: int = 0
    seed: int = 0
    client: int = 0
    feature: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0
    whole: int = 0
    factor: float = 1.0
    gradient: bool = False
    labels: bool = False
    algorithm: str = "fedavg"
    local: LocalTraining = field(default_factory=LocalTraining)

    def record(self) -> ConfigRecord:
        """As it travels."""
        return ConfigRecord({"order": json.dumps(asdict(self))})

    @classmethod
    def of(cls, content: RecordDict) -> Order | None:
        """The order inside a message; None where it holds none."""
        record = content.get(ORDER)
        if not isinstance(record, ConfigRecord):
            return None
        table = json.loads(str(record["order"]))
        return cls(**{**table, "local": LocalTraining(**table["local"])})


def extras(arrays: Mapping[str, NDArray[Any] | None]) -> ArrayRecord | None:
    """What travels beside the model: arrays by name, those that are None left out."""
    given = {name: Array(np.ascontiguousarray(array)) for name, array in arrays.items() if array is not None}
    return ArrayRecord(given) if given else None


@dataclass(frozen=True, eq=False)
class Answer:
    """What one client says. A note is a feature and a norm; an update, the whole vector."""

    name: str = ""
    examples: int = 0
    loss: float = math.nan
    norm: float = math.nan
    steps: int = 0
    value: float = math.nan
    feature: NDArray[np.float32] | None = None
    update: NDArray[np.float32] | None = None
    gradient: NDArray[np.float32] | None = None
    labels: NDArray[np.int64] | None = None

    def content(self) -> RecordDict:
        """As it travels."""
        numbers = MetricRecord({"examples": self.examples, "steps": self.steps})
        for figure in ("loss", "norm", "value"):
            if not math.isnan(number := getattr(self, figure)):
                numbers[figure] = number
        content = RecordDict({ANSWER: numbers})
        if self.name:
            content[ORDER] = ConfigRecord({"name": self.name})
        arrays = extras({k: getattr(self, k) for k in ("feature", "update", "gradient", "labels")})
        if arrays is not None:
            content[EXTRAS] = arrays
        return content


def read_answer(content: RecordDict, shapes: Mapping[str, tuple[int, ...]]) -> Answer:
    """An answer that holds arrays of these shapes, and finite numbers of a sane size; anything else is refused."""
    numbers = content.get(ANSWER)
    arrays = content.get(EXTRAS, ArrayRecord())
    if not isinstance(numbers, MetricRecord) or not isinstance(arrays, ArrayRecord):
        raise RefusedError("it holds no answer to hcsfed; does its app have hcsfed_mod?")
    found: dict[str, Any] = {}
    for name, shape in shapes.items():
        array = read(arrays, name, shape, "int64" if name == "labels" else "float32")
        largest = float(np.abs(array).max(initial=0))
        if not largest <= LARGEST:
            raise RefusedError(f"its {name} holds {largest:.3g}; numbers must be finite and at most {LARGEST:g}")
        found[name] = array
    for name in ("examples", "steps"):
        count = numbers.get(name, 0)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < COUNT:
            raise RefusedError(f"{name} must be an int ≥ 0, got {short(count, 40)}")
        found[name] = count
    for name in ("loss", "norm", "value"):
        number = numbers.get(name, math.nan)
        if not isinstance(number, int | float) or (name in numbers and not abs(number) <= LARGEST):
            raise RefusedError(f"its {name} must be a finite number of at most {LARGEST:g}, got {short(number, 40)}")
        found[name] = float(number)
    if found["norm"] < 0:
        raise RefusedError("its norm is negative")
    said = content.get(ORDER)
    called = said.get("name", "") if isinstance(said, ConfigRecord) else ""
    if not isinstance(called, str) or len(called) > 256 or not called.isprintable():
        raise RefusedError("its name must be a printable text of at most 256 letters")
    return Answer(name=called, **found)


def read_hello(content: RecordDict, labels: bool) -> Answer:
    """A first answer; how many classes there are, it says itself."""
    arrays = content.get(EXTRAS)
    shape = tuple(arrays["labels"].shape) if isinstance(arrays, ArrayRecord) and "labels" in arrays else ()
    if labels and (len(shape) != 1 or not 1 <= shape[0] <= CLASSES):
        raise RefusedError(f"labels must be 1 to {CLASSES} counts, got shape {short(list(shape), 40)}")
    answer = read_answer(content, {"labels": shape} if labels else {})
    if answer.labels is not None and not ((answer.labels >= 0) & (answer.labels < COUNT)).all():
        raise RefusedError("its class counts are no counts")
    return answer
