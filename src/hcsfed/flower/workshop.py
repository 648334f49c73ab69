"""What clients of ours do when they are asked: hcsfed's own trainers, made once a process for each way of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, MetricRecord

from hcsfed.assemble import output_bias, whole_gradients
from hcsfed.clients import Layout, Trainer, build_module, make_trainer, steps_of
from hcsfed.clients.build import Model
from hcsfed.flower.arrays import Packing
from hcsfed.flower.client import Learned, Request
from hcsfed.hearing import first_steps, scatter
from hcsfed.settings import LocalTraining
from hcsfed.types import Federation


@dataclass(frozen=True)
class Workshop:
    """A federation and a model, and what is made of them."""

    data: Callable[[], Federation]
    model: Model
    device: str
    options: tuple[tuple[str, object], ...]

    def initial(self, seed: int) -> ArrayRecord:
        """The model of round 0."""
        layout, vector = Layout.of(self.module(seed)), Layout.of(self.module(seed)).flatten(self.module(seed))
        views = {**layout.parameter_views(vector), **layout.buffer_views(vector)}
        return ArrayRecord({name: Array(view.numpy().copy()) for name, view in views.items()})

    def output_bias(self, seed: int) -> slice | None:
        """Where the bias of the last layer stands."""
        return output_bias(self.module(seed))

    def evaluate(self, arrays: ArrayRecord) -> MetricRecord:
        """Of a model on the test rows."""
        trainer, data = _trainer(self, 0, LocalTraining()), self.data()
        parameters = torch.from_numpy(Packing.of(arrays).flatten(arrays))
        loss, accuracy = trainer.evaluate(parameters, data.test_x, data.test_y)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    def module(self, seed: int) -> torch.nn.Module:
        return _module(self, seed)

    def learn(self, k: int, request: Request) -> Learned:
        """One client's local training, as the order says."""
        order, packing = request.order, Packing.of(request.model)
        trainer, ids = _trainer(self, order.seed, order.local), np.array([k])
        parameters = torch.from_numpy(packing.flatten(request.model))
        if order.phase == "opening":
            whole = steps_of(order.local, self.data().sizes)
            few = next(first_steps(trainer, whole, parameters, ids, order.steps, order.round))
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
def _module(shop: Workshop, seed: int) -> torch.nn.Module:
    return build_module(shop.data(), shop.model, seed, **dict(shop.options))


@lru_cache(maxsize=8)
def _trainer(shop: Workshop, seed: int, work: LocalTraining) -> Trainer:
    return make_trainer(shop.data(), shop.module(seed), work, seed=seed, device=shop.device)
