"""A client's half of a round: train when asked, keep the update, send a note, send the update if picked."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from numpy.typing import NDArray

from hcsfed.aggregate import row_norms
from hcsfed.errors import HcsfedError, bad
from hcsfed.features import FEATURES, Noisy
from hcsfed.features import Context as Known
from hcsfed.flower.arrays import Packing
from hcsfed.flower.order import ANSWER, EXTRAS, MODEL, ORDER, Answer, Order
from hcsfed.types import Ints

KEPT = "hcsfed.kept"


class NotDoneError(HcsfedError):
    """A client can't do what the server asks; the server hears why."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What local training gave: w_k − w_global, the mean loss on the way, and how many steps it took (0: not known)."""

    update: NDArray[np.float32]
    loss: float
    steps: int
    examples: int = 0
    gradient: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """An order, and what came with it."""

    order: Order
    message: Message
    context: Context

    @property
    def model(self) -> ArrayRecord:
        record = self.message.content.get(MODEL)
        if not isinstance(record, ArrayRecord):
            raise NotDoneError(f"no model came with phase {self.order.phase}")
        return record

    def extra(self, name: str) -> NDArray[np.float32] | None:
        """An array that came beside the model."""
        record = self.message.content.get(EXTRAS)
        return record[name].numpy() if isinstance(record, ArrayRecord) and name in record else None


@dataclass(frozen=True, eq=False)
class Client:
    """Who answers, and what it is willing to tell.

    Parameters
    ----------
    name
        By which the server knows this client from one connection to the next.
    learn
        Local training.
    measure
        The number that phases ``losses`` and ``variances`` ask for.
    labels
        Its class counts.
    allowed
        Features that the server may ask for; None: any.
    noise
        Clip and noise multiplier of :class:`~hcsfed.features.Noisy`; None: features are sent as they are.
    output_bias
        Where the bias of the last layer stands in an update, where that is not plain from the model's arrays.
    """

    name: str
    examples: int
    learn: Callable[[Request], Learned]
    measure: Callable[[Request], float] | None = None
    labels: Ints | None = None
    allowed: Collection[str] | None = None
    noise: tuple[float, float] | None = None
    output_bias: Callable[[], slice | None] = lambda: None

    def respond(self, request: Request) -> Message:
        """The reply to one order."""
        phase = request.order.phase
        if phase == "hello":
            labels = self.labels if request.order.labels else None
            if request.order.labels and labels is None:
                raise NotDoneError(
                    "its class counts are not known here; give them, or take another selector or feature"
                )
            answer = Answer(name=self.name, examples=self.examples, labels=labels)
        elif phase in ("losses", "variances"):
            if self.measure is None:
                raise NotDoneError(f"its {phase} can't be measured here")
            answer = Answer(value=self.measure(request))
        elif phase == "upload":
            return upload(request)
        else:
            answer = self._train(request)
        return Message(answer.content(), reply_to=request.message)

    def _train(self, request: Request) -> Answer:
        order, learned = request.order, self.learn(request)
        factor = order.factor
        if order.phase == "opening" and learned.steps and order.whole:
            factor = order.whole / learned.steps
        update = learned.update if factor == 1 else learned.update * np.float32(factor)
        answer = replace(
            self._note(request, update),
            loss=learned.loss,
            steps=learned.steps,
            examples=learned.examples or self.examples,
        )
        if order.phase == "full":
            return replace(answer, update=update, gradient=learned.gradient)
        if order.phase == "features":
            _keep(request.context, order.round, replace(answer, feature=None, update=update, gradient=learned.gradient))
        return answer

    def _note(self, request: Request, update: NDArray[np.float32]) -> Answer:
        order, row = request.order, update[None]
        norm = float(row_norms(row)[0])
        if not order.feature:
            return Answer(norm=norm)
        if self.allowed is not None and order.feature not in self.allowed:
            raise NotDoneError(f"feature {order.feature!r} is not among those that it sends: {', '.join(self.allowed)}")
        feature = FEATURES.build(order.feature, **order.options)
        known = Known(
            seed=order.seed,
            round=order.round,
            aggregate=request.extra("aggregate"),
            output_bias=self.output_bias() or Packing.of(request.model).output_bias,
            ids=np.array([order.client]),
            labels=None if self.labels is None else self.labels[None],
        )
        if self.noise is None:
            return Answer(norm=norm, feature=feature.encode(row, known)[0])
        # The server knows the run's seed, so the noise must come from elsewhere.
        denied = Noisy(feature, *self.noise, secret=secrets.randbits(63)).encode(row, known)[0]
        return Answer(norm=float(np.linalg.norm(denied.astype(np.float64))), feature=denied)


def upload(request: Request) -> Message:
    """The update that was kept when its feature was sent."""
    return Message(_kept(request.context, request.order.round).content(), reply_to=request.message)


def node_name(context: Context) -> str:
    """The stable name of a node: ``name`` of its config, else ``partition-id``."""
    for key in ("name", "partition-id"):
        if key in context.node_config:
            return str(context.node_config[key])
    raise bad("node config", "a client of hcsfed", "given with name or partition-id", dict(context.node_config))


def _keep(context: Context, round: int, answer: Answer) -> None:
    """Keep what may be asked for later in this round, in place of what was kept before."""
    content = answer.content()
    content[ORDER] = ConfigRecord({"round": round})
    for name, record in content.items():
        context.state[f"{KEPT}.{name}"] = record


def _kept(context: Context, round: int) -> Answer:
    """Take out what was kept; state crosses a process border with every message, so nothing stays for long."""
    names = [name for name in context.state if name.startswith(KEPT)]
    kept = {name.removeprefix(f"{KEPT}."): context.state[name] for name in names}
    for name in names:
        del context.state[name]
    mark, numbers, arrays = kept.get(ORDER), kept.get(ANSWER), kept.get(EXTRAS)
    if not (isinstance(mark, ConfigRecord) and isinstance(numbers, MetricRecord) and isinstance(arrays, ArrayRecord)):
        raise NotDoneError("no update is kept here; was the node restarted?")
    if mark["round"] != round:
        raise NotDoneError(f"the update kept here is of another round than {round + 1}")
    return Answer(
        steps=int(cast(int, numbers["steps"])),
        loss=float(cast(float, numbers.get("loss", np.nan))),
        norm=float(cast(float, numbers["norm"])),
        update=arrays["update"].numpy(),
        gradient=arrays["gradient"].numpy() if "gradient" in arrays else None,
    )
