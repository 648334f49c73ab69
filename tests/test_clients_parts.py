"""The pieces of local training: the vector, the masks, the chunks, the rows, evaluation, what is called a model."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

from federations import federation, images, lines, texts
from hcsfed.clients import MODELS, Layout, LocalTraining, build_module, make_trainer
from hcsfed.clients.chunks import Chunks, out_of_memory
from hcsfed.clients.dropout import CountedDropout, counted, step_keys
from hcsfed.clients.loop import LoopTrainer
from hcsfed.clients.one_by_one import OneByOne
from hcsfed.clients.vmapped import VmapTrainer
from hcsfed.errors import SettingError

WORK = LocalTraining(steps=4, batch=6, lr=0.1)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small products are slower on more
    yield
    torch.set_num_threads(threads)


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 5))


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 5))


def dropping(p: float) -> nn.Module:
    return nn.Sequential(nn.Linear(12, 8), nn.Dropout(p), nn.Linear(8, 5))


# The vector


def test_a_vector_holds_parameters_then_float_buffers_and_goes_back():
    module = normed()
    layout = Layout.of(module)
    assert [e.name for e in layout.parameters] == [n for n, _ in module.named_parameters()]
    assert [e.name for e in layout.buffers] == ["1.running_mean", "1.running_var"]
    assert (layout.trainable, layout.dimension) == (sum(p.numel() for p in module.parameters()), layout.trainable + 16)
    vector = torch.arange(layout.dimension, dtype=torch.float32)
    layout.load(module, vector)
    assert torch.equal(layout.flatten(module), vector)
    assert torch.equal(layout.parameter_views(vector)["0.weight"], module[0].weight)
    assert torch.equal(layout.buffer_views(vector.repeat(3, 1))["1.running_var"][2], module[1].running_var)


def test_frozen_parameters_and_counters_stand_outside_the_vector():
    module = normed()
    module[0].requires_grad_(False)
    layout = Layout.of(module)
    assert layout.dimension == 16 + 45 + 16
    assert not any("num_batches" in e.name or e.name.startswith("0.") for e in (*layout.parameters, *layout.buffers))


# Dropout


def test_masks_drop_the_asked_share_and_do_not_resemble_each_other():
    layer = CountedDropout(0.3, layer=0, channels=False).train()
    masks = []
    for key in [*step_keys(7, 2, np.array([3, 4]), 2).reshape(-1).tolist(), 0, 1, 2**40]:
        layer.key.fill_(key)
        layer.calls = 0
        masks += [(layer(torch.ones(100, 300)) > 0).double().flatten() for _ in range(2)]
    kept = torch.stack(masks)
    n = kept.shape[1]
    assert (kept.mean(1) - 0.7).abs().max() < 4.5 * (0.21 / n) ** 0.5
    correlation = torch.corrcoef(kept) - torch.eye(len(kept))
    assert correlation.abs().max() < 4.5 / n**0.5
    for lag in (1, 2, 64, 300):
        pairs = torch.corrcoef(torch.stack([kept[:, :-lag].flatten(), kept[:, lag:].flatten()]))
        assert pairs[0, 1].abs() < 4.5 / kept.numel() ** 0.5


def test_dropout_keeps_the_mean_and_is_off_in_evaluation():
    module = counted(dropping(0.25))
    layer = module[1]
    layer.key.fill_(11)
    ones = torch.ones(1000, 100)
    assert layer.train()(ones).unique().tolist() == pytest.approx([0, 4 / 3])
    assert layer(ones).mean() == pytest.approx(1, abs=0.01)
    assert torch.equal(layer.eval()(ones), ones)
    assert (CountedDropout(1.0, 0, False).train()(ones) == 0).all()


def test_channels_fall_as_a_whole_and_other_layers_stay():
    module = counted(nn.Sequential(nn.Dropout2d(0.5), nn.AlphaDropout(0.5)))
    assert isinstance(module[1], nn.AlphaDropout)
    dropped = module[0].train()(torch.ones(20, 30, 4, 4)).flatten(2)
    assert (dropped == dropped[:, :, :1]).all()
    assert 0.4 < (dropped == 0).float().mean() < 0.6


def test_the_users_module_is_not_changed():
    module = dropping(0.5)
    before = {n: t.clone() for n, t in module.state_dict().items()}
    trainer = VmapTrainer(images([20, 20]), module, WORK, seed=0)
    list(trainer.train(trainer.initial(), np.arange(2), 0))
    assert type(module[1]) is nn.Dropout
    assert not module._forward_pre_hooks
    assert all(torch.equal(t, module.state_dict()[n]) for n, t in before.items())


# Chunks


@pytest.mark.parametrize("kind", [VmapTrainer, OneByOne, LoopTrainer])
@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), torch.OutOfMemoryError("CUDA")],
)
def test_what_does_not_fit_is_halved_until_it_does(kind, error, monkeypatch):
    data, widths = images([20] * 7), []
    whole = kind(data, plain(), WORK, seed=0)
    start = whole.initial()
    expected = torch.cat([u.vectors for u in whole.train(start, np.arange(7), 0)])
    tight = kind(data, plain(), WORK, seed=0)
    train = tight._train

    def two_at_most(begin, task):
        widths.append(len(task))
        if len(task) > 2:
            raise error
        return train(begin, task)

    monkeypatch.setattr(tight, "_train", two_at_most)
    got = torch.cat([u.vectors for u in tight.train(start, np.arange(7), 0)])
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)
    assert widths == [7, 3, 1, 1, 1, 1, 1, 1, 1]
    widths.clear()
    list(tight.train(start, np.arange(7), 1))
    assert widths == [1] * 7  # it remembers


def test_other_errors_and_a_single_client_that_does_not_fit_are_raised():
    def refuse(_part):
        raise MemoryError

    with pytest.raises(MemoryError):
        list(Chunks(4).over(4, refuse))
    assert not out_of_memory(RuntimeError("shape mismatch"))
    assert not out_of_memory(ValueError("not enough memory"))


# Evaluation


def test_evaluation_is_the_modules_own_in_evaluation_mode():
    data, module = images([30, 1, 50]), dropping(0.5)
    trainer = make_trainer(data, module, WORK, seed=0)
    x = torch.from_numpy(data.test_x).float() / 255 - 0.3
    logits, y = module.eval()(x), torch.from_numpy(data.test_y).long()
    loss, accuracy = trainer.evaluate(trainer.initial(), data.test_x, data.test_y)
    assert loss == pytest.approx(nn.functional.cross_entropy(logits, y).item(), rel=1e-5)
    assert accuracy == pytest.approx((logits.argmax(1) == y).double().mean().item())
    moved = trainer.evaluate(trainer.initial() * 3, data.test_x, data.test_y)
    assert moved[0] != loss


@pytest.mark.parametrize("data", [images([30, 1, 50, 7]), texts([30, 1, 50, 7]), lines([30, 1, 50, 7])])
@pytest.mark.parametrize("rows", [3, 2_000])
def test_local_losses_are_evaluations_of_the_clients_own_rows(data, rows, monkeypatch):
    monkeypatch.setattr("hcsfed.clients.evaluate._ROWS", rows)
    monkeypatch.setattr("hcsfed.clients.evaluate._BLOCK", 40)
    model = "linear" if not data.classes else "mlp" if data.y.ndim == 1 else "char-lstm"
    trainer = make_trainer(data, model, WORK, seed=0, backend="loop")
    start = trainer.initial() + 0.01
    ids = np.array([2, 0, 3, 1])
    each = np.array([trainer.evaluate(start, *data.client(k)) for k in ids])
    np.testing.assert_allclose(trainer.local_losses(start, ids), each[:, 0], rtol=1e-5)
    np.testing.assert_allclose(trainer.local_accuracies(start, ids), each[:, 1], rtol=1e-5)
    assert trainer.local_losses(start, ids[:0]).shape == (0,)


def test_running_statistics_of_the_vector_are_the_ones_evaluated_with():
    data = images([30, 30])
    trainer = VmapTrainer(data, normed(), WORK, seed=0)
    (updates,) = trainer.train(trainer.initial(), np.arange(2), 0)
    learned = trainer.initial() + updates.vectors[0]
    without = learned.clone()
    without[trainer.layout.trainable :] = trainer.initial()[trainer.layout.trainable :]
    losses = [trainer.evaluate(v, data.test_x, data.test_y)[0] for v in (learned, without)]
    assert losses[0] != losses[1]


def test_a_kept_test_set_is_dropped_for_another():
    data = images([30, 30])
    trainer = LoopTrainer(data, plain(), WORK, seed=0)
    first = trainer.evaluate(trainer.initial(), data.test_x, data.test_y)
    other = trainer.evaluate(trainer.initial(), data.test_x[:7], data.test_y[:7])
    assert other != first
    assert trainer.evaluate(trainer.initial(), data.test_x, data.test_y) == first


def test_a_custom_loss_is_what_is_descended():
    data = images([30])
    trainers = [
        make_trainer(data, "logistic", WORK, seed=0, backend=b, loss=lambda out, y: 0 * out.sum(1) + out[:, 0])
        for b in ("batched", "loop")
    ]
    for trainer in trainers:
        (updates,) = trainer.train(trainer.initial(), np.arange(1), 0)
        bias = trainer.layout.parameter_views(updates.vectors[0])["1.bias"]
        assert bias.tolist() == pytest.approx([-WORK.lr * WORK.steps, 0, 0, 0, 0])


# Rows


def test_whole_numbers_stay_whole_for_an_embedding_only():
    read = LoopTrainer(texts([5]), build_module(texts([5]), "char-lstm", 0), WORK, seed=0).rows.take(torch.arange(2))
    assert [a.dtype for a in read] == [torch.int64, torch.int64]
    seen = LoopTrainer(images([5]), plain(), WORK, seed=0).rows.take(torch.tensor([[4, 0], [1, 1]]))[0]
    assert (seen.dtype, seen.shape) == (torch.float32, (2, 2, 12))
    np.testing.assert_allclose(seen[0, 0], images([5]).x[4] / 255 - 0.3, rtol=1e-5, atol=1e-6)


def test_float_rows_are_scaled_and_shifted_without_touching_them():
    raw = np.arange(48, dtype=np.float32).reshape(4, 12)
    data = federation([4], raw.copy(), np.zeros(4, np.uint8), 5, scale=0.5, shift=-1.0)
    trainer = LoopTrainer(data, plain(), WORK, seed=0)
    trainer.evaluate(trainer.initial(), data.x, data.y)
    np.testing.assert_array_equal(trainer.rows.take(torch.arange(4))[0], raw * 0.5 - 1)
    np.testing.assert_array_equal(data.x, raw)


@pytest.mark.parametrize("kind", [np.uint16, np.int64, np.uint32])
def test_labels_of_any_whole_type_are_read(kind):
    data = images([20, 20])
    wide = federation([20, 20], data.x, data.y.astype(kind), 5, scale=data.scale, shift=data.shift)
    vectors = [
        next(iter(VmapTrainer(d, build_module(d, plain, 0), WORK, seed=0).train(torch.zeros(149), np.arange(2), 0)))
        for d in (data, wide)
    ]
    assert torch.equal(vectors[0].vectors, vectors[1].vectors)


def test_read_only_rows_are_read_where_they_lie(tmp_path):
    data = images([20, 20])
    np.save(tmp_path / "x.npy", data.x)
    mapped = federation([20, 20], np.load(tmp_path / "x.npy", mmap_mode="r"), data.y, 5, scale=1 / 255, shift=-0.3)
    trainers = [VmapTrainer(d, build_module(d, plain, 0), WORK, seed=0) for d in (data, mapped)]
    one, two = (next(iter(t.train(t.initial(), np.arange(2), 0))).vectors for t in trainers)
    assert torch.equal(one, two)


def test_rows_that_meet_are_told_from_rows_apart():
    def traits(module):
        return LoopTrainer(images([5]), module, WORK, seed=0).traits

    assert traits(plain()).rows_apart
    assert traits(dropping(0.5)).rows_apart
    assert not traits(normed()).rows_apart
    assert not traits(nn.Sequential(nn.Linear(12, 5), nn.Softmax(dim=0))).rows_apart


# What is called a model


def test_the_papers_network():
    data = federation([4], np.zeros((4, 3, 32, 32), np.uint8), np.zeros(4, np.uint8), 10)
    shapes = [tuple(p.shape) for p in build_module(data, "cnn", 0).parameters()]
    weights = [s for s in shapes if len(s) > 1]
    assert weights == [(32, 3, 3, 3), (64, 32, 3, 3), (64, 64, 3, 3), (64, 1024), (10, 64)]


@pytest.mark.parametrize("shape", [(28, 28), (1, 28, 28), (8, 8), (3, 17, 20), (1, 4, 4)])
def test_the_network_takes_other_images(shape):
    data = images([4], shape)
    trainer = make_trainer(data, "cnn", WORK, seed=0, dropout=0.0)
    assert np.isfinite(trainer.evaluate(trainer.initial(), data.test_x, data.test_y)[0])


def test_a_seed_is_a_start_and_the_generator_is_left():
    before = torch.get_rng_state()
    starts = [make_trainer(images([4]), "mlp", WORK, seed=s, hidden=7).initial() for s in (1, 1, 2)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_users_factory_is_imported_and_called_with_what_it_takes(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n"
        "def full(input_shape, classes, width=3):\n"
        "    return nn.Sequential(nn.Linear(input_shape[0], width), nn.Tanh(), nn.Linear(width, classes))\n"
        "def bare():\n    return nn.LazyLinear(5)\n"
        "def wrong():\n    return 3\n"
    )
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    data = images([4, 5])
    assert make_trainer(data, "my_nets:full", WORK, seed=0, width=4).dimension == 12 * 4 + 4 + 4 * 5 + 5
    assert make_trainer(data, "my_nets:bare", WORK, seed=0).dimension == 65
    assert make_trainer(data, plain, WORK, seed=0).dimension == 149
    assert sys.path == path
    for model, options, message in (
        ("my_nets:wrong", {}, "must give a torch.nn.Module, got int"),
        ("my_nets:none", {}, "'my_nets:none' can't be imported"),
        ("no_such_nets:x", {}, "can't be imported: No module named 'no_such_nets'"),
        ("my_nets:full", {"depth": 3}, "takes no option 'depth'"),
        ("my_nets:full", {"width": "x"}, "could not be built"),
        (plain(), {"width": 3}, "takes no options"),
    ):
        with pytest.raises(SettingError, match=message) as caught:
            make_trainer(data, model, WORK, seed=0, **options)
        assert "\n" not in str(caught.value)


class Pair(nn.Module):
    """Two outputs: what a loss would be is not said."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.out(x), x


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("logistc", {}, "unknown model 'logistc'; did you mean 'logistic'"),
        ("mlp", {"hiden": 3}, "did you mean 'hidden'"),
        ("mlp", {"hidden": 0}, "hidden of model 'mlp' must be an int ≥ 1, got 0"),
        ("cnn", {}, "needs images"),
        ("char-lstm", {"embedding": True}, "embedding of model 'char-lstm'"),
        (nn.Linear(11, 5), {}, "can't be trained on rows of shape \\(12,\\)"),
        (nn.Linear(12, 4), {}, "must have shape \\(5,\\) for a row of small, got \\(4,\\)"),
        (Pair(), {}, "Pair can't be trained on rows of shape \\(12,\\) .* 'tuple' object has no attribute"),
        (nn.Linear(12, 5).requires_grad_(False), {}, "Linear must have parameters that can be trained, it has none"),
        ("logistic", {"backend": "fast"}, "backend of local training must be one of"),
        ("logistic", {"dtype": "half"}, "dtype of local training must be one of"),
        ("logistic", {"device": "gpu"}, "device of local training must be one of"),
    ],
)
def test_bad_models_are_one_line(model, options, message):
    with pytest.raises(SettingError, match=message) as caught:
        make_trainer(images([4]), model, WORK, seed=0, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there():
    with pytest.raises(SettingError, match="use auto or cpu"):
        make_trainer(images([4]), "logistic", WORK, seed=0, device="cuda")
    assert make_trainer(images([4]), "logistic", WORK, seed=0, device="auto").device.type == "cpu"


def test_engines_follow_the_model():
    flat, square, text = images([6, 6]), images([6, 6], (1, 8, 8)), texts([6, 6])
    assert {n: make_trainer(text if n == "char-lstm" else square, n, WORK, seed=0).engine for n in MODELS} == {
        "logistic": "fused",
        "linear": "fused",
        "mlp": "fused",
        "cnn": "one-by-one",
        "char-lstm": "one-by-one",
    }
    assert make_trainer(flat, plain, WORK, seed=0).engine == "vmap"
    assert make_trainer(flat, plain, WORK, seed=0, backend="loop").engine == "loop"
