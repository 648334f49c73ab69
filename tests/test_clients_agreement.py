"""Every way of local training gives what the plain loop gives, client by client."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from federations import images, lines, texts
from hcsfed.clients import MODELS, LocalTraining, build_module, make_trainer
from hcsfed.clients.loop import LoopTrainer
from hcsfed.clients.one_by_one import OneByOne
from hcsfed.clients.trainer import TorchTrainer
from hcsfed.clients.vmapped import VmapTrainer
from hcsfed.errors import DataError

RAGGED = [20, 1, 5, 8, 30]
NORMED = [24, 3, 7, 12, 31]  # minibatches of three rows or more: two make batch-norm a step function, ill-conditioned
EVERYTHING = LocalTraining(steps=5, batch=8, lr=0.1, momentum=0.5, weight_decay=0.01, mu=0.1, lr_decay=0.9)
EPOCHS = LocalTraining(epochs=2, batch=7, lr=0.1)
WALK = LocalTraining(steps=12, batch=8, lr=0.1, draw="permutation")
ROUND = 3


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small products are slower on more
    yield
    torch.set_num_threads(threads)


class Normed(nn.Module):
    """Batch-norm and dropout, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Linear(8, 5)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(torch.tanh(self.drop(self.norm(self.first(x))))))


class TimeFirst(nn.Module):
    """Dropout on a tensor whose first axis is time: filling minibatches up would move its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop, self.norm, self.out = (
            nn.Embedding(9, 6),
            nn.Dropout(0.4),
            nn.LayerNorm(6),
            nn.Linear(6, 9),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(self.drop(self.embed(x).transpose(0, 1)).transpose(0, 1)))


class Tied(nn.Module):
    """A frozen layer, a tied weight, a buffer that is only read, a parameter that is one number."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.frozen, self.back = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12, bias=False)
        self.frozen.requires_grad_(False)
        self.back.weight = self.first.weight
        self.register_buffer("offset", torch.linspace(-1, 1, 12))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.out = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * self.out(self.back(torch.sigmoid(self.frozen(self.first(x) + self.offset))))


def tanh() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Dropout(0.4), nn.Linear(8, 5))


def small_convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(4 * 36, 5)
    )


def result(trainer: TorchTrainer, ids=None, **options):
    """Updates, losses and steps of some clients, from parameters that are not the initial ones."""
    ids = np.arange(trainer.federation.clients) if ids is None else ids
    start = trainer.initial() * 1.01
    chunks = list(trainer.train(start, ids, ROUND, **options))
    assert np.concatenate([c.ids for c in chunks]).tolist() == list(ids)
    return (
        torch.cat([c.vectors for c in chunks]),
        np.concatenate([c.losses for c in chunks]),
        np.concatenate([c.steps for c in chunks]),
    )


def assert_same(one, other, tolerance=1e-4):
    assert one[0].norm(dim=1).gt(0).sum() == other[0].norm(dim=1).gt(0).sum() > 0
    assert torch.all((one[0] - other[0]).norm(dim=1) <= tolerance * other[0].norm(dim=1))
    np.testing.assert_allclose(one[1], other[1], rtol=tolerance)
    assert (one[2] == other[2]).all()


def seeded(factory):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return factory()


CASES = {
    "tanh": (tanh, images(RAGGED)),
    "tied": (Tied, images(RAGGED)),
    "batch-norm": (Normed, images(NORMED)),
    "time-first": (TimeFirst, texts(RAGGED)),
    "convolutions": (small_convolutions, images(RAGGED, (1, 8, 8))),
}


@pytest.mark.parametrize("work", [EVERYTHING, EPOCHS, WALK], ids=["everything", "epochs", "walk"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", [VmapTrainer, OneByOne])
def test_agrees_with_the_loop(kind, case, work):
    factory, data = CASES[case]
    module = seeded(factory)
    fast, slow = kind(data, module, work, seed=1), LoopTrainer(data, module, work, seed=1)
    correction = torch.linspace(-0.1, 0.1, data.clients)[:, None].expand(-1, slow.dimension)
    assert_same(result(fast, correction=correction), result(slow, correction=correction))


@pytest.mark.parametrize("name", [n for n in MODELS if n not in ("char-lstm", "linear")])
@pytest.mark.parametrize("kind", [VmapTrainer, OneByOne])
def test_every_image_model_agrees_with_the_loop(kind, name):
    data = images([9, 1, 4], (1, 8, 8))
    work = LocalTraining(steps=3, batch=5, lr=0.1)
    module = build_module(data, name, 0)
    assert_same(result(kind(data, module, work, seed=1)), result(LoopTrainer(data, module, work, seed=1)))


@pytest.mark.parametrize("name", MODELS)
def test_the_chosen_engine_agrees_with_the_loop(name):
    data = texts([9, 1, 4]) if name == "char-lstm" else images([9, 1, 4], (1, 8, 8))
    work = LocalTraining(steps=3, batch=5, lr=0.1)
    fast, slow = (make_trainer(data, name, work, seed=1, backend=b) for b in ("batched", "loop"))
    assert fast.engine != slow.engine == "loop"
    (u,), (v,) = (list(t.train(t.initial(), np.arange(3), ROUND)) for t in (fast, slow))
    assert_same((u.vectors, u.losses, u.steps), (v.vectors, v.losses, v.steps))


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    batch=st.integers(1, 9),
    chunk=st.integers(1, 6),
    data=st.data(),
)
def test_ragged_sizes_and_steps_agree(sizes, batch, chunk, data):
    steps = np.array(data.draw(st.lists(st.integers(1, 6), min_size=len(sizes), max_size=len(sizes))))
    clients = images(sizes)
    work = replace(EVERYTHING, batch=batch)
    module = seeded(tanh)
    fast = result(VmapTrainer(clients, module, work, seed=2, chunk=chunk), steps=steps)
    assert_same(fast, result(LoopTrainer(clients, module, work, seed=2), steps=steps))
    assert (fast[2] == steps).all()


def test_a_traced_step_is_the_untraced_one():
    """Shapes met often are traced: thirty steps go through both forms."""
    data, work = images([40, 40, 3]), LocalTraining(steps=30, batch=8, lr=0.1)
    module = seeded(tanh)
    trainer = VmapTrainer(data, module, work, seed=1)
    assert_same(result(trainer), result(LoopTrainer(data, module, work, seed=1)))
    assert trainer._traced


def test_a_client_with_no_steps_stays_and_has_no_loss():
    data, module = images(RAGGED), seeded(tanh)
    for kind in (VmapTrainer, OneByOne, LoopTrainer):
        vectors, losses, _ = result(kind(data, module, EVERYTHING, seed=1), steps=np.array([2, 0, 1, 0, 2]))
        assert (vectors[[1, 3]] == 0).all()
        assert np.isnan(losses).tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("kind", [VmapTrainer, OneByOne, LoopTrainer])
def test_company_order_and_chunks_do_not_matter(kind):
    data, module = images(NORMED), seeded(Normed)
    whole, losses, _ = result(kind(data, module, EVERYTHING, seed=1, chunk=5))
    for chunk in (1, 3):
        parts, part_losses, _ = result(kind(data, module, EVERYTHING, seed=1, chunk=chunk))
        torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(part_losses, losses, rtol=1e-5)
    some, _, _ = result(kind(data, module, EVERYTHING, seed=1), ids=np.array([4, 1]))
    torch.testing.assert_close(some, whole[[4, 1]], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [VmapTrainer, OneByOne, LoopTrainer])
def test_training_again_gives_the_same_floats_and_leaves_the_generator(kind):
    data, module = images(NORMED), seeded(Normed)
    before = torch.get_rng_state()
    trainer = kind(data, module, EVERYTHING, seed=1)
    first, second = result(trainer)[0], result(trainer)[0]
    assert torch.equal(first, second)
    other = kind(data, module, EVERYTHING, seed=2)
    assert not torch.allclose(result(other)[0], first)
    assert torch.equal(torch.get_rng_state(), before)


def test_batch_norm_buffers_are_learned_and_counters_are_not():
    data, module = images(NORMED), seeded(Normed)
    trainer = VmapTrainer(data, module, EVERYTHING, seed=1)
    assert trainer.dimension == trainer.layout.trainable + 16
    assert (result(trainer)[0][:, trainer.layout.trainable :] != 0).all(dim=1).all()
    untouched = {name: b for name, b in module.named_buffers() if b.is_floating_point()}
    assert all(torch.equal(b, dict(trainer.module.named_buffers())[name]) for name, b in untouched.items())
    assert trainer.module.norm.num_batches_tracked == 0


def test_a_counter_starts_anew_with_every_client():
    """With ``momentum=None`` batch-norm weighs by its counter, which no client may inherit from the one before."""
    data = images(NORMED)
    module = nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8, momentum=None), nn.Linear(8, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = make_trainer(data, module, EVERYTHING, seed=1)
    whole = result(chosen)[0]
    for kind in (OneByOne, LoopTrainer):
        for ids in ([3], [0, 3]):
            vectors = result(kind(data, module, EVERYTHING, seed=1), ids=np.array(ids))[0]
            torch.testing.assert_close(vectors[-1], whole[3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [VmapTrainer, OneByOne, LoopTrainer])
def test_batch_norm_names_the_client_with_one_row(kind):
    trainer = kind(images(RAGGED), seeded(Normed), EVERYTHING, seed=1)
    with pytest.raises(DataError, match="client 1 has"):
        result(trainer)


class Wild(nn.Module):
    """What can't be batched: a branch on the data, and a draw from the global generator."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x + torch.rand(12)
        return self.out(x)


def test_a_module_that_cannot_be_batched_is_trained_one_by_one_with_one_warning():
    data, work, module = images(RAGGED), LocalTraining(steps=3, batch=8), seeded(Wild)
    before = torch.get_rng_state()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        trainer = make_trainer(data, module, work, seed=1)
    assert trainer.engine == "one-by-one"
    assert len(seen) == 1
    assert "Wild" in str(seen[0].message)
    assert "\n" not in str(seen[0].message)
    assert_same(result(trainer), result(LoopTrainer(data, module, work, seed=1)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("backend", ["batched", "loop"])
def test_full_batches_of_least_squares_follow_the_closed_form(backend):
    """Gradient descent on ½·mean‖Xw − y‖²: w_t − w* = (I − ηH)^t (w_0 − w*), with H = XᵀX/n."""
    data = lines([7, 30, 5])
    steps, lr = 20, 0.1
    trainer = make_trainer(data, "linear", LocalTraining(steps=steps, batch=100, lr=lr), seed=0, backend=backend)
    start = torch.linspace(-1, 1, 4)
    (updates,) = trainer.train(start, np.arange(3), 0)
    for k in range(3):
        x, y = (a.astype(np.float64) for a in data.client(k))
        hessian = x.T @ x / len(x)
        optimum = np.linalg.lstsq(x, y[:, 0], rcond=None)[0]
        path = np.linalg.matrix_power(np.eye(4) - lr * hessian, steps)
        expected = optimum + path @ (start.double().numpy() - optimum) - start.double().numpy()
        np.testing.assert_allclose(updates.vectors[k].numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("model", "engine"), [("cnn", "one-by-one"), ("mlp", "vmap")])
def test_bfloat16_is_near_float32(model, engine):
    data, work = images([20, 20], (1, 8, 8)), LocalTraining(steps=3, batch=8, lr=0.1)
    half, full = (make_trainer(data, model, work, seed=1, dtype=d) for d in ("bfloat16", "float32"))
    assert half.engine == engine
    (u,), (v,) = (list(t.train(t.initial(), np.arange(2), 0)) for t in (half, full))
    assert u.vectors.dtype == torch.float32
    assert 0 < (u.vectors - v.vectors).norm() < 0.1 * v.vectors.norm()
