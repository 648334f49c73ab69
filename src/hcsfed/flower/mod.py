"""The client's side for a Flower app that stands already: one mod, and ``@app.train()`` stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable, Mod

from hcsfed.flower.arrays import Packing
from hcsfed.flower.client import Client, Learned, NotDoneError, Request, node_name
from hcsfed.flower.order import Order
from hcsfed.types import Ints

LOSSES, STEPS, EXAMPLES = ("train_loss", "train-loss", "loss"), ("num-steps", "num_steps"), ("num-examples",)


def hcsfed_mod(
    *,
    name: Callable[[Context], str] = node_name,
    examples: Callable[[Context], int] | None = None,
    labels: Callable[[Context], Ints] | None = None,
    features: Collection[str] | None = None,
    noise: tuple[float, float] | None = None,
    algorithms: Collection[str] = ("fedavg",),
) -> Mod:
    """Make an ordinary Flower client one that :class:`~hcsfed.flower.Strategy` can select.

    ``ClientApp(mods=[hcsfed_mod()])`` is all that an app needs whose ``@app.train()`` takes the model as ``arrays``,
    trains it, and replies with the trained arrays. What the app answers is turned into an update, and goes to the
    server when it is asked for. Messages of other strategies pass through.

    Parameters
    ----------
    name
        The client's stable name; by default ``name`` or ``partition-id`` of the node's config.
    examples
        How many examples the client holds, by which it is weighted. Without it the server learns the number from
        ``num-examples`` in the app's metrics, if that comes before the first pick, and else weighs all alike.
    labels
        Its class counts, for selectors and features that compare labels.
    features
        Names of the features that the server may ask for; None: any.
    noise
        (clip, multiplier) of Gaussian noise on features, see :class:`~hcsfed.features.Noisy`. Norms are then those of
        the noisy features.
    algorithms
        Those that the app follows. ``fedprox`` needs an app that adds the proximal term with ``proximal-mu`` of its
        config; ``scaffold`` one that adds the record ``hcsfed.arrays``' ``correction`` to every gradient.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        order = Order.of(message.content) if message.has_content() else None
        if order is None:
            return call_next(message, context)

        def learn(request: Request) -> Learned:
            if order.algorithm not in algorithms:
                raise NotDoneError(f"its app does not follow {order.algorithm!r} but {', '.join(algorithms)}")
            return _learned(call_next(message, context), request)

        def measure(request: Request) -> float:
            if order.phase != "losses":
                raise NotDoneError(f"{order.phase} of an app can't be measured; take hcsfed.flower.client_app")
            return _number(call_next(message, context), ("eval_loss", "eval-loss", "loss"))

        client = Client(
            name(context),
            examples(context) if examples else 0,
            learn,
            measure,
            None if labels is None else np.asarray(labels(context), np.int64),
            features,
            noise,
        )
        return client.respond(Request(order, message, context))

    return mod


def _learned(reply: Message, request: Request) -> Learned:
    """The difference between what the app gave back and what it was given."""
    if not reply.has_content():
        raise NotDoneError(f"its app answered with an error: {reply.error.reason}")
    records = list(reply.content.array_records.values())
    if len(records) != 1:
        raise NotDoneError(f"its app must answer with one ArrayRecord, the trained model, got {len(records)}")
    before, after = request.model, records[0]
    packing = Packing.of(before)
    steps = _metric(reply, STEPS)
    return Learned(
        packing.flatten(after) - packing.flatten(before),
        float(_metric(reply, LOSSES, np.nan)),
        int(steps),
        int(_metric(reply, EXAMPLES)),
    )


def _metric(reply: Message, names: tuple[str, ...], default: float = 0) -> float:
    for record in reply.content.metric_records.values():
        for name in names:
            if isinstance(value := record.get(name), int | float):
                return value
    return default


def _number(reply: Message, names: tuple[str, ...]) -> float:
    value = _metric(reply, names, np.nan) if reply.has_content() else np.nan
    if np.isnan(value):
        raise NotDoneError(f"its @app.evaluate() must answer with a metric {' or '.join(names)}")
    return float(value)
