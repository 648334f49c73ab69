"""The fused kernels compute what PyTorch computes: against autograd in float64, the loop, themselves."""

from __future__ import annotations

import copy
import multiprocessing
import os
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hcsfed.clients import LocalTraining, make_trainer
from hcsfed.clients.fused import FusedTrainer, supports
from hcsfed.clients.plan import plan
from hcsfed.errors import DataError
from hcsfed.types import Federation

CPU = torch.device("cpu")
SIZES = [40, 1, 7, 100, 33, 2]


def federation(
    width: int, classes: int, kind: type = np.uint8, scale: float = 1 / 255, shift: float = 0.0
) -> Federation:
    draw = np.random.default_rng(5)
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    shape = (offsets[-1], 1, width)
    x = draw.integers(0, 256, shape).astype(np.uint8) if kind is np.uint8 else draw.normal(size=shape).astype(kind)
    y = draw.integers(0, classes, len(x))
    weights = np.diff(offsets) / len(x)
    return Federation("small", x, y, offsets, x[:150], y[:150], weights, classes, scale=scale, shift=shift)


def stack(*widths: int, bias: bool = True) -> nn.Sequential:
    torch.random.manual_seed(0)
    layers: list[nn.Module] = [nn.Flatten()]
    for ins, outs in pairwise(widths):
        layers += [nn.Linear(ins, outs, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.fixture(autouse=True)
def _own_generator_and_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the loop's small products are slower on more
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


def reference(data: Federation, module: nn.Module, work: LocalTraining, k: int, round: int, correction=None):
    """Client k's update and mean loss in float64, by autograd, on the plan's minibatches."""
    module = copy.deepcopy(module).double()
    start = [p.detach().clone() for p in module.parameters()]
    drawn = plan(work, 3, round, np.array([k]), data.sizes[[k]])
    x, y = data.client(k)
    rate, losses = work.lr * work.lr_decay**round, []
    for s in range(drawn.steps[0]):
        rows = drawn.rows[0, s, : drawn.counts[0, s]]
        seen = torch.from_numpy(x[rows].astype(np.float64) * data.scale + data.shift)
        loss = nn.functional.cross_entropy(module(seen), torch.from_numpy(y[rows]))
        losses.append(loss.item())
        slopes, at = torch.autograd.grad(loss, list(module.parameters())), 0
        with torch.no_grad():
            for p, slope, origin in zip(module.parameters(), slopes, start, strict=True):
                push = 0 if correction is None else correction[at : at + p.numel()].view(p.shape)
                at += p.numel()
                p -= rate * (slope + work.weight_decay * p + work.mu * (p - origin) + push)
    update = [(p - origin).flatten() for p, origin in zip(module.parameters(), start, strict=True)]
    return torch.cat(update).detach(), np.mean(losses)


def one_chunk(trainer, *args, **kwargs):
    (chunk,) = trainer.train(*args, **kwargs)
    return chunk


PLAIN = LocalTraining(steps=20, batch=13, lr=0.05)
RICH = LocalTraining(epochs=2, batch=50, lr=0.1, lr_decay=0.9, weight_decay=0.01, mu=0.3)


@pytest.mark.parametrize("work", [PLAIN, RICH], ids=["plain", "rich"])
@pytest.mark.parametrize(
    ("kind", "scale", "shift"), [(np.uint8, 1 / 255, 0.0), (np.uint8, 0.01, -1.3), (np.float32, 1.0, 0.0)]
)
@pytest.mark.parametrize("widths", [(64, 10), (61, 3), (784, 50, 10), (61, 23, 17, 5), (3, 2)], ids=str)
def test_updates_are_autograds_in_float64(widths, kind, scale, shift, work):
    data, module = federation(widths[0], widths[-1], kind, scale, shift), stack(*widths)
    trainer = FusedTrainer(data, module, work, seed=3)
    ids = np.array([3, 1, 0, 5])  # client 1 has one row
    correction = 0.01 * torch.randn(len(ids), trainer.dimension) if work is RICH else None
    chunk = one_chunk(trainer, trainer.initial(), ids, 2, correction=correction)
    for i, k in enumerate(ids):
        update, loss = reference(data, module, work, k, 2, None if correction is None else correction[i])
        assert (chunk.vectors[i] - update).norm() <= 2e-5 * update.norm()
        assert chunk.losses[i] == pytest.approx(loss, rel=2e-5)


@settings(deadline=None, max_examples=15)
@given(
    widths=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    batch=st.integers(1, 45),
    steps=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    draw=st.sampled_from(["fresh", "permutation"]),
    bias=st.booleans(),
    mu=st.sampled_from([0.0, 0.5]),
    corrected=st.booleans(),
)
def test_any_stack_trains_as_in_the_loop(widths, batch, steps, draw, bias, mu, corrected):
    data, module = federation(widths[0], widths[-1]), stack(*widths, bias=bias)
    work = LocalTraining(batch=batch, lr=0.1, draw=draw, mu=mu)
    fused = make_trainer(data, module, work, seed=3)
    loop = make_trainer(data, module, work, seed=3, backend="loop")
    assert isinstance(fused, FusedTrainer)
    ids, counts = np.array([1, 4, 2]), np.array(steps)
    correction = 0.1 * torch.randn(3, fused.dimension) if corrected else None
    start = loop.initial()
    assert torch.equal(fused.initial(), start)
    a, b = (one_chunk(t, start, ids, 1, steps=counts, correction=correction) for t in (fused, loop))
    # Where ReLU's kink is met within rounding, the two may part: so compare with what a step can do, not with nothing.
    assert torch.allclose(a.vectors, b.vectors, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(a.losses, b.losses, rtol=1e-4)
    np.testing.assert_array_equal(a.steps, b.steps)


def test_a_client_gives_the_same_floats_alone_among_others_and_on_any_number_of_threads():
    data = federation(61, 5)
    trainer = FusedTrainer(data, stack(61, 20, 5), PLAIN, seed=3)
    start, everyone = trainer.initial(), {}
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        everyone[threads] = one_chunk(trainer, start, np.arange(6), 0)
    for k in range(6):
        alone = one_chunk(trainer, start, np.array([k]), 0)
        for chunk in everyone.values():
            assert torch.equal(alone.vectors[0], chunk.vectors[k])
            assert alone.losses[0] == chunk.losses[k]


def test_chunks_come_in_order_and_change_nothing(monkeypatch):
    data = federation(61, 5)
    trainer = FusedTrainer(data, stack(61, 5), PLAIN, seed=3)
    ids, start = np.array([4, 2, 0, 3, 1]), trainer.initial()
    whole = one_chunk(trainer, start, ids, 0)
    monkeypatch.setattr("hcsfed.clients.fused.trainer._CHUNK", 2 * trainer.dimension)
    chunks = list(trainer.train(start, ids, 0))
    assert [len(c.ids) for c in chunks] == [2, 2, 1]
    assert torch.equal(torch.cat([c.vectors for c in chunks]), whole.vectors)
    np.testing.assert_array_equal(np.concatenate([c.ids for c in chunks]), ids)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_scores_are_pytorchs(kind):
    data, module = federation(61, 5, kind), stack(61, 20, 5)
    trainer = FusedTrainer(data, module, PLAIN, seed=3)
    loop = make_trainer(data, module, PLAIN, seed=3, backend="loop")
    start, ids = trainer.initial(), np.array([3, 1, 0])
    assert trainer.evaluate(start, data.test_x, data.test_y) == pytest.approx(
        loop.evaluate(start, data.test_x, data.test_y), rel=1e-5
    )
    np.testing.assert_allclose(trainer.local_losses(start, ids), loop.local_losses(start, ids), rtol=1e-5)
    np.testing.assert_allclose(trainer.local_accuracies(start, ids), loop.local_accuracies(start, ids))
    assert np.isnan(trainer.evaluate(start, data.test_x[:0], data.test_y[:0])).all()


def test_of_equal_outputs_the_first_is_the_answer():
    data = federation(61, 5)
    trainer = FusedTrainer(data, stack(61, 5), PLAIN, seed=3)
    loss, accuracy = trainer.evaluate(torch.zeros(trainer.dimension), data.test_x, data.test_y)
    assert loss == pytest.approx(np.log(5))
    assert accuracy == pytest.approx(np.mean(data.test_y == 0))


def test_divergence_shows():
    data = federation(61, 5)
    trainer = FusedTrainer(data, stack(61, 20, 5), replace(PLAIN, lr=1e30), seed=3)
    chunk = one_chunk(trainer, trainer.initial(), np.array([0]), 0)
    assert not np.isfinite(chunk.losses).all()
    assert not chunk.vectors.isfinite().all()
    broken = torch.full((trainer.dimension,), torch.nan)
    loss, accuracy = trainer.evaluate(broken, data.test_x, data.test_y)
    assert np.isnan(loss)
    assert accuracy == 0


def test_extreme_logits_keep_a_finite_loss():
    data, module = federation(8, 3), stack(8, 3)
    trainer = FusedTrainer(data, module, PLAIN, seed=3)
    far = 1e4 * trainer.initial()
    with torch.no_grad():
        nn.utils.vector_to_parameters(far, module.parameters())
        outputs = module(torch.from_numpy(data.test_x / np.float32(255)).float())
        expected = nn.functional.cross_entropy(outputs, torch.from_numpy(data.test_y)).item()
    assert trainer.evaluate(far, data.test_x, data.test_y)[0] == pytest.approx(expected, rel=1e-4)


def test_mapped_rows_are_read_in_place(tmp_path):
    data = federation(61, 5)
    np.save(tmp_path / "x.npy", data.x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    trainer, usual = (FusedTrainer(replace(data, x=x), stack(61, 5), PLAIN, seed=3) for x in (mapped, data.x))
    assert np.shares_memory(trainer._x, mapped)
    start, ids = usual.initial(), np.arange(6)
    assert torch.equal(one_chunk(trainer, start, ids, 0).vectors, one_chunk(usual, start, ids, 0).vectors)


def test_what_is_supported():
    data = federation(61, 5)
    linear = nn.Linear(61, 5)
    nested = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(61, 7), nn.ReLU()), nn.Linear(7, 9))
    yes = [linear, nn.Sequential(nn.Flatten(), linear), nested]
    tied, frozen, hooked = nn.Linear(61, 61), stack(61, 5), stack(61, 5)
    frozen[1].bias.requires_grad_(False)
    hooked[1].register_forward_hook(lambda m, x, y: 2 * y)
    no = [
        stack(61, 4),  # an output short
        stack(60, 5),
        nn.Sequential(nn.Flatten(), tied, nn.ReLU(), tied, nn.ReLU(), linear),
        nn.Sequential(nn.Flatten(), nn.Linear(61, 5), nn.ReLU()),
        nn.Sequential(nn.Flatten(), nn.Linear(61, 7), nn.Tanh(), nn.Linear(7, 5)),
        nn.Sequential(nn.Flatten(), nn.Linear(61, 7), nn.ReLU(), nn.Dropout(0.5), nn.Linear(7, 5)),
        stack(61, 5).double(),
        nn.Conv1d(1, 5, 61),
        frozen,
        hooked,
    ]
    assert all(supports(m, data, PLAIN, CPU) for m in yes)
    assert not any(supports(m, data, PLAIN, CPU) for m in no)
    module = stack(61, 5)
    assert not supports(module, data, replace(PLAIN, momentum=0.9), CPU)
    assert not supports(module, data, PLAIN, torch.device("cuda"))
    assert not supports(module, replace(data, task="regression"), PLAIN, CPU)
    assert not supports(module, replace(data, x=data.x.astype(np.float64)), PLAIN, CPU)


def test_labels_outside_the_outputs_are_refused():
    data = federation(61, 5)
    trainer = FusedTrainer(data, stack(61, 5), PLAIN, seed=3)
    with pytest.raises(DataError, match=r"labels must be in \[0, 4\], got 1 to 5"):
        trainer.evaluate(trainer.initial(), data.test_x, data.test_y + 1)
    with pytest.raises(DataError, match="rows of 61 entries"):
        trainer.evaluate(trainer.initial(), data.test_x[:, :, 1:], data.test_y)


def test_a_failure_in_a_thread_reaches_the_caller():
    data = federation(61, 5)
    trainer = FusedTrainer(data, stack(61, 5), PLAIN, seed=3)
    torch.set_num_threads(2)
    with pytest.raises(IndexError):
        list(trainer.train(trainer.initial(), np.arange(6), 0, steps=np.ones(3, np.int64)))


def _in_a_child(trainer: FusedTrainer, start: torch.Tensor, results: multiprocessing.SimpleQueue) -> None:
    results.put(one_chunk(trainer, start, np.arange(6), 0).vectors.numpy())


def test_several_threads_and_forked_processes_train_at_once():
    trainer = FusedTrainer(federation(61, 5), stack(61, 5), PLAIN, seed=3)
    start = trainer.initial()
    here = one_chunk(trainer, start, np.arange(6), 0).vectors
    seen: list[torch.Tensor] = []
    threads = [
        threading.Thread(target=lambda: seen.append(one_chunk(trainer, start, np.arange(6), 0).vectors))
        for _ in range(3)
    ]
    torch.set_num_threads(2)
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    child = fork.Process(target=_in_a_child, args=(trainer, start, results))
    child.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(torch.from_numpy(results.get()), here)
    child.join()
    assert child.exitcode == 0
    assert len(seen) == 3
    assert all(torch.equal(v, here) for v in seen)


NARROW = """
import numba, numpy as np
from hcsfed.clients.fused.tiles import dots, pile
from hcsfed.clients.fused.softmax import softmax
from hcsfed.clients.fused.vectors import LANES, PADDING

@numba.njit
def exponentials(z, m, n, top, mass):
    softmax(z, m, n, np.float32(1), top, mass)

assert LANES == 8
draw = np.random.default_rng(0)
for kind in (np.uint8, np.float32):
    x = draw.integers(0, 9, (20, 37)).astype(kind)
    rows = draw.integers(0, 20, 7).astype(np.int32)
    w = np.zeros((15, -(-37 // PADDING) * PADDING), np.float32)
    w[:, :37] = draw.normal(size=(15, 37))
    offset = draw.normal(size=15 + LANES).astype(np.float32)
    z = np.zeros((7, 15 + LANES), np.float32)
    dots(x, rows, 7, 37, w, 15, np.float32(0.5), offset, z)
    np.testing.assert_allclose(z[:, :15], 0.5 * x[rows].astype(float) @ w[:, :37].T + offset[:15], rtol=1e-5, atol=1e-4)
    after = w + offset[:15, None]
    after[:, :37] += 0.5 * z[:, :15].T @ x[rows].astype(float)
    pile(x, rows, 7, 37, z, z.shape[1], 1, np.float32(0.5), offset, w, 15)
    np.testing.assert_allclose(w[:, :37], after[:, :37], rtol=1e-4, atol=1e-3)
top, mass = np.zeros(7, np.float32), np.zeros(7, np.float32)
z[:] = draw.normal(size=z.shape)
shares = np.exp(z[:, :15].astype(float))
exponentials(z, 7, 15, top, mass)
np.testing.assert_allclose(z[:, :15], shares / shares.sum(1, keepdims=True), rtol=1e-6)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="names features of x86")
def test_a_processor_with_half_the_registers_computes_the_same(tmp_path):
    narrow = {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx2,+fma,+avx,+sse4.2",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    subprocess.run([sys.executable, "-c", NARROW], env={**os.environ, **narrow}, check=True)
