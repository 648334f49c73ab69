"""FedJAX: its own federated averaging, jit backend (its default), on today's JAX."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.tree_map = jax.tree_util.tree_map  # the one name that FedJAX 0.0.17 uses and today's JAX no longer has

import fedjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from protocol import Parameters, Task, serve  # noqa: E402


def loss_of(params: list[jax.Array], batch: dict[str, jax.Array], rng: jax.Array) -> jax.Array:
    """Cross-entropy of a stack of linear layers with ReLU between them; weights lie [in, out], as JAX likes them."""
    del rng
    h = batch["x"]
    for i in range(0, len(params), 2):
        h = h @ params[i] + params[i + 1]
        if i + 2 < len(params):
            h = jax.nn.relu(h)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h), batch["y"][:, None], axis=1))


def main() -> None:
    task = Task.read(sys.argv[1])
    x, y, offsets = task.rows()
    datasets = [fedjax.ClientDataset({"x": x[a:b], "y": y[a:b].astype(np.int32)}) for a, b in pairwise(offsets)]
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(loss_of),
        fedjax.optimizers.sgd(task.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(task.batch, num_epochs=None, num_steps=task.steps, drop_remainder=True),
    )
    start = {
        m: algorithm.init([jnp.asarray(p.T if p.ndim == 2 else p) for p in task.initial(m)])
        for m in ("logistic", "mlp")
    }
    keys = jax.random.split(jax.random.PRNGKey(0), task.clients)

    def round_of(model: str, ids: list[int]) -> tuple[float, Callable[[], Parameters]]:
        cohort = [(k, datasets[k], keys[k]) for k in ids]
        began = time.perf_counter()
        state, _ = algorithm.apply(start[model], cohort)
        jax.block_until_ready(state.params)
        seconds = time.perf_counter() - began
        return seconds, lambda: [np.asarray(p).T if p.ndim == 2 else np.asarray(p) for p in state.params]

    serve({"fedjax": version("fedjax"), "jax": jax.__version__}, round_of)


if __name__ == "__main__":
    main()
