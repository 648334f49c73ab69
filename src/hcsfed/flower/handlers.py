"""The client's side from a federation and a model: hcsfed's own trainers behind Flower's ``@app.train()``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from hcsfed.assemble import output_bias, whole_gradients
from hcsfed.clients import Layout, Trainer, build_module, make_trainer, steps_of
from hcsfed.clients.build import Model
from hcsfed.flower.arrays import Packing
from hcsfed.flower.client import Client, Learned, NotDoneError, Request, node_name
from hcsfed.flower.order import Order
from hcsfed.hearing import first_steps, scatter
from hcsfed.settings import LocalTraining
from hcsfed.types import Federation

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
    shop = Workshop(federation, model, device, tuple(sorted(options.items())))

    def serve(message: Message, context: Context) -> Message:
        order = Order.of(message.content)
        if order is None:
            raise NotDoneError("this app answers to hcsfed.flower.Strategy only")
        data = shop.data()
        k = int(context.node_config["partition-id"]) if number is None else number(context)
        client = Client(
            node_name(context),
            int(data.sizes[k]),
            partial(shop.learn, k),
            partial(shop.measure, k),
            data.class_counts[k] if data.classes else None,
            features,
            noise,
            output_bias(shop.module(order.seed)),
        )
        return client.respond(Request(order, message, context))

    app = ClientApp()
    app.train()(serve)
    app.evaluate()(serve)
    return app


def initial_arrays(
    federation: Federation, model: Model = "logistic", *, seed: int = 0, **options: object
) -> ArrayRecord:
    """The model of round 0, as the simulator starts it with this seed."""
    module = build_module(federation, model, seed, **options)
    layout, vector = Layout.of(module), Layout.of(module).flatten(module)
    views = {**layout.parameter_views(vector), **layout.buffer_views(vector)}
    return ArrayRecord({name: Array(view.numpy().copy()) for name, view in views.items()})


@dataclass(frozen=True)
class Workshop:
    """Trainers, made once a process for each way of training that was asked for."""

    federation: Shares
    model: Model
    device: str
    options: tuple[tuple[str, object], ...]

    def data(self) -> Federation:
        return _loaded(self.federation)

    def module(self, seed: int) -> torch.nn.Module:
        return _module(self, seed)

    def learn(self, k: int, request: Request) -> Learned:
        """One client's local training, as the order says."""
        order, packing = request.order, Packing.of(request.model)
        trainer, ids = _trainer(self, order.seed, order.local), np.array([k])
        parameters = torch.from_numpy(packing.flatten(request.model))
        if order.phase == "opening":
            whole = steps_of(order.local, self.data().sizes)
            few = next(first_steps(trainer, whole, parameters, ids, order.steps))
            return Learned(_vector(few.vectors), float(few.losses[0]), int(few.steps[0]))
        push = request.extra("correction")
        correction = None if push is None else torch.from_numpy(push[None].copy())
        done = next(trainer.train(parameters, ids, order.round, correction=correction))
        gradient = None
        if order.gradient:
            gradients = whole_gradients(self.data(), order.local, partial(_trainer, self, order.seed))
            gradient = _vector(next(gradients(parameters, ids)).vectors)
        return Learned(_vector(done.vectors), float(done.losses[0]), int(done.steps[0]), gradient=gradient)

    def measure(self, k: int, request: Request) -> float:
        """The number that the order asks for."""
        order, ids = request.order, np.array([k])
        trainer = _trainer(self, order.seed, order.local)
        parameters = torch.from_numpy(Packing.of(request.model).flatten(request.model))
        if order.phase == "losses":
            return float(trainer.local_losses(parameters, ids)[0])
        return float(scatter(trainer, order.local, parameters, ids, order.round)[0])


def _vector(vectors: torch.Tensor) -> np.ndarray:
    return np.asarray(vectors[0].cpu().numpy(), np.float32)


@lru_cache(maxsize=4)
def _loaded(federation: Shares) -> Federation:
    return federation if isinstance(federation, Federation) else federation()


@lru_cache(maxsize=4)
def _module(shop: Workshop, seed: int) -> torch.nn.Module:
    return build_module(shop.data(), shop.model, seed, **dict(shop.options))


@lru_cache(maxsize=8)
def _trainer(shop: Workshop, seed: int, work: LocalTraining) -> Trainer:
    return make_trainer(shop.data(), shop.module(seed), work, seed=seed, device=shop.device)
