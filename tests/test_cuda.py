"""The same code on a GPU: updates, scores, features and whole runs agree with those of the CPU. Skipped without one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hcsfed
from federations import images, texts
from hcsfed.aggregate import ALGORITHMS, ESTIMATORS, SERVERS
from hcsfed.clients import MODELS, LocalTraining, make_trainer
from hcsfed.clients.loop import LoopTrainer
from hcsfed.clients.one_by_one import OneByOne
from hcsfed.clients.vmapped import VmapTrainer
from hcsfed.features import FEATURES, Context
from hcsfed.select import SELECTORS
from test_clients_agreement import CASES, EPOCHS, EVERYTHING, ROUND, WALK, result, seeded

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

GPU = torch.device("cuda")
SMALL = {"partition.clients": 20, "cohort": 4, "rounds": 3, "local.steps": 5, "model": "mlp"}


def agree(one, other, tolerance):
    """Client by client; convolutions round to 10 bits on recent cards."""
    vectors = one[0].cpu()
    assert one[0].device.type == "cuda"
    assert torch.all((vectors - other[0]).norm(dim=1) <= tolerance * other[0].norm(dim=1))
    np.testing.assert_allclose(one[1], other[1], rtol=tolerance)


@pytest.mark.parametrize("work", [EVERYTHING, EPOCHS, WALK], ids=["everything", "epochs", "walk"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", [VmapTrainer, OneByOne, LoopTrainer])
def test_updates_are_those_of_the_loop_on_the_cpu(kind, case, work):
    factory, data = CASES[case]
    module = seeded(factory)
    there, here = kind(data, module, work, seed=1, device=GPU), LoopTrainer(data, module, work, seed=1)
    correction = torch.linspace(-0.1, 0.1, data.clients)[:, None].expand(-1, here.dimension)
    agree(result(there, correction=correction), result(here, correction=correction), 2e-2 if "conv" in case else 1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_trained_and_scored_there(name):
    data = texts([9, 1, 4]) if name == "char-lstm" else images([9, 1, 4], (1, 8, 8))
    work = LocalTraining(steps=3, batch=5, lr=0.1)
    there, here = (make_trainer(data, name, work, seed=1, device=d) for d in ("auto", "cpu"))
    assert there.device.type == "cuda"
    assert there.engine == ("one-by-one" if name == "char-lstm" else "vmap")
    tolerance = 2e-2 if name in ("cnn", "char-lstm") else 1e-3
    ids = np.arange(3)
    (u,), (v,) = (list(t.train(t.initial(), ids, ROUND)) for t in (there, here))
    assert torch.all((u.vectors.cpu() - v.vectors).norm(dim=1) <= tolerance * v.vectors.norm(dim=1))
    for method in ("local_losses", "local_accuracies"):
        one, other = (getattr(t, method)(t.initial(), ids) for t in (there, here))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=1e-6)
    scores = [t.evaluate(t.initial(), data.test_x, data.test_y) for t in (there, here)]
    np.testing.assert_allclose(*scores, rtol=tolerance)


def test_rows_that_do_not_fit_are_sent_when_asked_for(monkeypatch):
    data, module = CASES["tanh"][1], seeded(CASES["tanh"][0])
    whole = result(VmapTrainer(data, module, EVERYTHING, seed=1, device=GPU))
    free = torch.cuda.mem_get_info
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (1, free(device)[1]))
    trainer = VmapTrainer(data, module, EVERYTHING, seed=1, device=GPU, chunk=5)
    assert trainer.rows._held is None
    assert torch.equal(result(trainer)[0], whole[0])


def test_a_chunk_that_does_not_fit_is_halved_until_it_does():
    """A card with room for a few of the twenty clients only: nobody hears of the memory that was not there."""
    data = images([20] * 20)
    work = LocalTraining(steps=2, batch=5, lr=0.1)
    trainer = make_trainer(data, "mlp", work, seed=1, device="cuda", hidden=200_000)
    one = 4 * trainer.dimension
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 40 * one) / total)
    try:
        trainer._chunks = None
        trainer._bytes_per_client = lambda steps: 1  # so that all are tried at once
        chunks = list(trainer.train(trainer.initial(), np.arange(20), 0))
        sizes = [len(chunk.ids) for chunk in chunks]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert sum(sizes) == 20
    assert max(sizes) < 20


@pytest.mark.parametrize("name", FEATURES)
def test_features_of_tensors_there_are_those_of_arrays_here(name):
    updates = np.random.default_rng(0).standard_t(3, size=(6, 300)).astype(np.float32)
    counts = np.random.default_rng(1).integers(9, size=(6, 10))
    seen = [
        FEATURES.build(name).encode(
            u, Context(seed=3, round=2, aggregate=updates[0], output_bias=slice(290, 300), labels=counts)
        )
        for u in (updates, torch.from_numpy(updates).cuda())
    ]
    assert (seen[0] == seen[1]).all()


def told(device, **more):
    return hcsfed.simulate("digits", device=device, options={**SMALL, **more})


def test_a_run_there_is_a_run_here():
    there, here = (told(device, selector="pivotal") for device in ("cuda", "cpu"))
    assert there.about["device"].startswith("cuda")
    assert [r["ids"] for r in there.history] == [r["ids"] for r in here.history]
    np.testing.assert_allclose([r["loss"] for r in there.history], [r["loss"] for r in here.history], rtol=1e-3)


def test_a_run_taken_up_there_equals_one_that_went_through(tmp_path):
    whole = told("cuda", selector="hcsfed")
    for rounds in (2, 3):
        parts = hcsfed.simulate(
            "digits",
            device="cuda",
            out=tmp_path / "run",
            resume=True,
            options={**SMALL, "selector": "hcsfed", "rounds": rounds},
        )
    assert [(r["ids"], r["loss"]) for r in parts.history] == [(r["ids"], r["loss"]) for r in whole.history]


@pytest.mark.parametrize("selector", SELECTORS)
def test_every_selector_runs_there(selector):
    assert np.isfinite(told("cuda", selector=selector).final_loss)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_runs_there(algorithm):
    assert np.isfinite(told("cuda", algorithm=algorithm).final_loss)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_runs_there(estimator):
    assert np.isfinite(told("cuda", estimator=estimator, selector="cluster").final_loss)


@pytest.mark.parametrize("server", SERVERS)
def test_every_server_step_is_done_there(server):
    assert np.isfinite(told("cuda", server=server).final_loss)


def test_rows_in_files_and_guards_work_there():
    options = {"algorithm": "scaffold", "row_memory": 0, "guard": "median", "attack": "scale"}
    there, here = (told(device, **options) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(there.final_loss, here.final_loss, rtol=1e-2)
