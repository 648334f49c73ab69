"""The client's side from a federation and a model: hcsfed's own trainers behind Flower's ``@app.train()``.

Flower starts a process for every message to a node, so what a message does not need is not loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp

from hcsfed.flower.client import Client, NotDoneError, Request, node_name, upload
from hcsfed.flower.order import Order
from hcsfed.types import Federation

if TYPE_CHECKING:
    from hcsfed.clients.build import Model
    from hcsfed.flower.workshop import Workshop

Shares = Federation | Callable[[], Federation]


def client_app(
    federation: Shares,
    model: Model = "logistic",
    *,
    number: Callable[[Context], int] | None = None,
    features: Collection[str] | None = None,
    noise: tuple[float, float] | None = None,
    device: str = "cpu",
    **options: object,
) -> ClientApp:
    """A Flower client that trains as the simulator's clients do, in every way that the server may ask for.

    A node is client ``partition-id`` of the federation, and its draws follow from the server's seed and that number, so
    that a federation gives the simulator's numbers. How it trains (rate, steps, algorithm) is for the server to say.

    Parameters
    ----------
    federation
        Data, or a function that loads them when they are first needed.
    model
        A name, a module, or a function that makes one; ``options`` are its own.
    number
        Node → which client of the federation it is; by default ``partition-id`` of its config.
    features, noise
        As in :func:`~hcsfed.flower.hcsfed_mod`.
    """
    shop = _shop(federation, model, device, options)

    def serve(message: Message, context: Context) -> Message:
        order = Order.of(message.content)
        if order is None:
            raise NotDoneError("this app answers to hcsfed.flower.Strategy only")
        request = Request(order, message, context)
        if order.phase == "upload":
            return upload(request)
        data = _loaded(federation)
        k = int(context.node_config["partition-id"]) if number is None else number(context)
        client = Client(
            node_name(context),
            int(data.sizes[k]),
            lambda request: shop().learn(k, request),
            lambda request: shop().measure(k, request),
            data.class_counts[k] if data.classes else None,
            features,
            noise,
            lambda: shop().output_bias(order.seed),
        )
        return client.respond(request)

    app = ClientApp()
    app.train()(serve)
    app.evaluate()(serve)
    return app


def initial_arrays(
    federation: Federation, model: Model = "logistic", *, seed: int = 0, **options: object
) -> ArrayRecord:
    """The model of round 0, as the simulator starts it with this seed."""
    return _shop(federation, model, "cpu", options)().initial(seed)


def evaluator(
    federation: Shares, model: Model = "logistic", *, device: str = "cpu", **options: object
) -> Callable[[int, ArrayRecord], MetricRecord]:
    """What :meth:`~hcsfed.flower.Strategy.start` takes as ``evaluate_fn``: loss and accuracy on the test rows."""
    shop = _shop(federation, model, device, options)
    return lambda server_round, arrays: shop().evaluate(arrays)


@cache
def _loaded(federation: Shares) -> Federation:
    return federation if isinstance(federation, Federation) else federation()


def _shop(federation: Shares, model: Model, device: str, options: Mapping[str, object]) -> Callable[[], Workshop]:
    """What opens when something is first asked of it."""

    @cache
    def shop() -> Workshop:
        from hcsfed.flower.workshop import Workshop

        return Workshop(partial(_loaded, federation), model, device, tuple(sorted(options.items())))

    return shop
