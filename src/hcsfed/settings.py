"""What a run is told: frozen, printable, the same dotted names in TOML, in ``--set key=value`` and in Python.

A section such as ``selector`` is a name and the options of what it names; which options those are is known to the
registries of the stages, so they are checked where the run is put together (:mod:`hcsfed.assemble`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from hcsfed.errors import SettingError, bad, unknown

if TYPE_CHECKING:
    from hcsfed.types import Ints


@dataclass(frozen=True)
class LocalTraining:
    """How a client trains in one round.

    Parameters
    ----------
    steps
        nSGD, minibatch steps; ignored where ``epochs`` is given.
    epochs
        E, passes over the client's rows; 0 means: count steps.
    batch
        B, rows of a minibatch (a client with fewer rows uses all of them).
    lr
        η, the rate in the first round; after t rounds it is ``lr · lr_decay**t``.
    lr_decay
        What the rate is multiplied by after each round.
    momentum
        of SGD; starts at zero in every round.
    weight_decay
        L2 term, added to the gradient.
    mu
        Weight of FedProx's proximal term (μ/2)·‖w − w_global‖².
    draw
        ``fresh``: every minibatch is drawn anew, without replacement inside the batch;
        ``permutation``: minibatches walk through a new permutation of the rows in every epoch.
    """

    steps: int = 50
    epochs: int = 0
    batch: int = 50
    lr: float = 0.01
    lr_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    mu: float = 0.0
    draw: Literal["fresh", "permutation"] = "fresh"


def steps_of(work: LocalTraining, sizes: Ints) -> Ints:
    """How many steps clients of these sizes take."""
    import numpy as np

    if work.epochs:
        return np.asarray(work.epochs * -(-sizes // np.minimum(work.batch, sizes)))
    return np.full(len(sizes), work.steps, np.int64)


@dataclass(frozen=True)
class Reach:
    """What becomes of those who can't be asked, and of answers that come late or never.

    Parameters
    ----------
    deadline
        Simulated seconds after which a round is over; what comes later is thrown away. 0: the server waits for all.
    lost
        Chance that a client that was asked never answers.
    over_select
        How many are asked, as a multiple of the cohort; 0: as many as it takes for about a cohort to answer, by what
        is known or learned of their chances. Those who train before they are picked are not picked in excess.
    response
        Weights of those who answered: ``ignore`` leaves them as they were; ``known`` divides them by the true chance of
        answering in time; ``estimated`` by what the server has learned of it.
    absence
        Whom a round stands for: ``ignore``, those within reach; ``known`` and ``estimated``, everyone, by weights
        divided by the chance of being within reach.
    floor
        Least chance that is divided by.
    """

    deadline: float = 0.0
    lost: float = 0.0
    over_select: float = 1.0
    response: Literal["ignore", "known", "estimated"] = "estimated"
    absence: Literal["ignore", "known", "estimated"] = "ignore"
    floor: float = 0.05


@dataclass(frozen=True)
class Privacy:
    """Noise that clients lay on their features before they send them, with norms to match.

    It covers all that a client's features and norms say of its data, and nothing else that it sends: neither its losses
    nor, if it is picked, its update.

    Parameters
    ----------
    noise
        σ, standard deviation of the Gaussian noise on each number, in multiples of ``clip``; 0: none, and no clipping.
    clip
        C, the length to which longer features are cut.
    delta
        δ of the (ε, δ) that is counted, in each round's ``epsilon`` for the client that has sent most often so far.
    """

    noise: float = 0.0
    clip: float = 1.0
    delta: float = 1e-5


@dataclass(frozen=True)
class Choice:
    """A thing by its name, with the options that are its own."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Everything that a run's numbers depend on, and what it is to reach.

    Parameters
    ----------
    data, partition, model, selector
        What is used, by name, with options.
    algorithm
        What clients do in a round.
    estimator
        What is made of the answers; ``default`` is the selector's own choice, for most their weighted sum.
    server
        What the estimate of the mean update does to the model.
    features
        How clients are compared, where the selector compares them; ``default`` is the selector's own choice.
    attack
        What some of the clients do to the run.
    guard
        How the server bounds what clients claim and how far their updates go.
    availability
        Who is within reach in a round.
    speed
        How long local work takes; ``untimed``: there is no clock.
    local
        How clients train.
    reach
        What becomes of those out of reach, and of answers that come late or never.
    privacy
        Noise that clients lay on their features.
    cohort
        How many answer a round: a share of the clients (0.1) or a count (10).
    rounds
        How many rounds are run.
    seed
        Everything random follows from it.
    target
        Test accuracy whose first round is reported; 0 means none.
    eval_every
        Rounds between two evaluations on the test set; the last round is always evaluated.
    device
        Where clients are computed.
    backend
        ``batched`` is the fast way that fits model and device, ``loop`` the plain one; ``auto`` is ``batched``.
    dtype
        ``bfloat16`` speeds convolutions up at the price of other last digits.
    row_memory
        MiB that an algorithm's or estimator's rows, one of the model's size per client, may take in memory and in every
        checkpoint; beyond, they lie in a file of the run's folder. No number depends on it.
    """

    data: Choice = Choice("digits")
    partition: Choice = Choice("default")
    model: Choice = Choice("logistic")
    selector: Choice = Choice("random")
    features: Choice = Choice("default")
    algorithm: Choice = Choice("fedavg")
    estimator: Choice = Choice("default")
    server: Choice = Choice("sgd")
    attack: Choice = Choice("none")
    guard: Choice = Choice("none")
    availability: Choice = Choice("always")
    speed: Choice = Choice("untimed")
    local: LocalTraining = LocalTraining()
    reach: Reach = Reach()
    privacy: Privacy = Privacy()
    cohort: int | float = 0.1
    rounds: int = 100
    seed: int = 0
    target: float = 0.0
    eval_every: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    backend: Literal["auto", "loop", "batched"] = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    row_memory: int = 64

    def nested(self) -> dict[str, Any]:
        """Plain nested tables, as they would stand in TOML."""
        tables = asdict(self)
        for name in CHOICES:
            tables[name] = {"name": tables[name]["name"], **tables[name]["options"]}
        return tables


CHOICES = tuple(f.name for f in fields(Settings) if isinstance(f.default, Choice))
SECTIONS: dict[str, type[Any]] = {"local": LocalTraining, "reach": Reach, "privacy": Privacy}

_MOST = 2**63 - 1
_RANGES: dict[str, tuple[str, float, float]] = {
    "rounds": ("an int ≥ 1", 1, _MOST),
    "seed": ("an int ≥ 0", 0, _MOST),
    "target": ("a number in [0, 1]", 0, 1),
    "eval_every": ("an int ≥ 1", 1, _MOST),
    "row_memory": ("an int ≥ 0", 0, _MOST >> 20),
    "local.steps": ("an int ≥ 1", 1, _MOST),
    "local.epochs": ("an int ≥ 0", 0, _MOST),
    "local.batch": ("an int ≥ 1", 1, _MOST),
    "local.lr": ("a number > 0", 5e-324, 1.7e308),
    "local.lr_decay": ("a number in (0, 1]", 5e-324, 1),
    "local.momentum": ("a number in [0, 1)", 0, 1 - 1e-16),
    "local.weight_decay": ("a number ≥ 0", 0, 1.7e308),
    "local.mu": ("a number ≥ 0", 0, 1.7e308),
    "reach.deadline": ("a number ≥ 0", 0, 1.7e308),
    "reach.lost": ("a number in [0, 1)", 0, 1 - 1e-16),
    "reach.over_select": ("0 or a number ≥ 1", 0, 1.7e308),
    "reach.floor": ("a number in (0, 1]", 5e-324, 1),
    "privacy.noise": ("a number ≥ 0", 0, 1e100),
    "privacy.clip": ("a number > 0", 1e-100, 1e100),
    "privacy.delta": ("a number in (0, 1)", 1e-100, 1 - 1e-9),
}


def merge(base: Settings, *layers: Mapping[str, Any]) -> Settings:
    """Lay tables (nested, dotted or both) over settings; later layers win, and everything is checked."""
    tables = base.nested()
    for layer in layers:
        for key, value in _flat(layer):
            head, _, option = key.partition(".")
            if head not in tables:
                raise unknown("setting", key, _names())
            if head in CHOICES:
                option = option or "name"
                if option == "name" and value != tables[head]["name"]:
                    tables[head] = {}  # another thing, whose options are other ones
                tables[head][option] = value
            elif head in SECTIONS:
                if option not in tables[head]:
                    raise unknown("setting", key, _names())
                tables[head][option] = value
            elif option:
                raise unknown("setting", key, _names())
            else:
                tables[head] = value
    return _typed(tables)


def _flat(layer: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Dotted keys, the names before the options, whose place in the layer means nothing."""
    pairs: list[tuple[str, Any]] = []
    for key, value in layer.items():
        if isinstance(value, Mapping):
            pairs += [(f"{key}.{k}", _plain(v)) for k, v in value.items()]
        else:
            pairs.append((key, _plain(value)))
    return sorted(pairs, key=lambda pair: "." in pair[0] and not pair[0].endswith(".name"))


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's own, which a header can hold."""
    return value.tolist() if hasattr(value, "tolist") else value


def _names() -> list[str]:
    inner = [f"{head}.{f.name}" for head, section in SECTIONS.items() for f in fields(section)]
    return [f.name for f in fields(Settings) if f.name not in SECTIONS] + inner


def _typed(tables: dict[str, Any]) -> Settings:
    hints = get_type_hints(Settings)
    values: dict[str, Any] = {}
    for name, value in tables.items():
        if name in CHOICES:
            options = dict(value)
            chosen = options.pop("name")
            if not isinstance(chosen, str) or not chosen:
                raise bad(name, "run", "a name", chosen)
            values[name] = Choice(chosen, options)
        elif name in SECTIONS:
            inner = get_type_hints(SECTIONS[name])
            values[name] = SECTIONS[name](**{k: _checked(f"{name}.{k}", v, inner[k]) for k, v in value.items()})
        elif name == "cohort":
            values[name] = _cohort(value)
        else:
            values[name] = _checked(name, value, hints[name])
    if 0 < values["reach"].over_select < 1:
        raise bad("reach.over_select", "run", "0 or a number ≥ 1", values["reach"].over_select)
    return Settings(**values)


def _checked(name: str, value: Any, hint: Any) -> Any:
    choices = get_args(hint)
    if choices:
        if value not in choices:
            raise bad(name, "run", "one of " + ", ".join(choices), value)
        return value
    allowed, low, high = _RANGES[name]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not number or (hint is int and not whole) or not low <= value <= high:
        raise bad(name, "run", allowed, value)
    return hint(value)


def _cohort(value: Any) -> int | float:
    """A count (int) or a share (float); only later is it known how many clients there are."""
    share = isinstance(value, float) and 0 < value <= 1
    count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not share and not count:
        raise bad("cohort", "run", "a share in (0, 1] such as 0.1, or a count ≥ 1 such as 10", value)
    return value  # type: ignore[no-any-return]


def cohort_size(cohort: int | float, clients: int) -> int:
    """The number m that a share or a count means among N clients: ``max(round(q·N), 1)`` for a share q."""
    if isinstance(cohort, float):
        return max(round(cohort * clients), 1)
    if cohort > clients:
        raise bad("cohort", "run", f"a share in (0, 1] or a count in [1, {clients}] (the number of clients)", cohort)
    return cohort


def read_toml(path: Path) -> dict[str, Any]:
    """Tables of a settings file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"config must be a readable TOML file, got {str(path)!r}: {_reason(error)}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"config {str(path)!r} is no valid TOML: {error}") from error


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """``["partition.alpha=0.3"]`` → ``{"partition.alpha": 0.3}``; a value is read as TOML, else as text."""
    table: dict[str, Any] = {}
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign or not key.strip():
            raise SettingError(f"--set must be key=value such as partition.alpha=0.3, got {assignment!r}")
        table[key.strip()] = parse_value(text.strip())
    return table


def parse_value(text: str) -> Any:
    """What a text means as a TOML value; where it is none, the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def with_seed(settings: Settings, seed: int) -> Settings:
    """The same settings with another seed."""
    return replace(settings, seed=seed)
