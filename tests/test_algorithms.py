"""Algorithms and server steps: fixed points and paths that are known in closed form, and every pair with a selector."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hcsfed
from federations import images
from hcsfed.aggregate import ALGORITHMS, ESTIMATORS, SERVERS
from hcsfed.assemble import assemble
from hcsfed.data.quadratic import optimum
from hcsfed.errors import SettingError
from hcsfed.select import SELECTORS
from hcsfed.settings import Settings, merge
from hcsfed.simulate import Standing, rounds, simulate

RATE, STEPS = 0.05, 8


@pytest.fixture(scope="module")
def federation():
    return hcsfed.load("quadratic", clients=6, data_options={"dimension": 4})


def unequal():
    """Least squares of clients with 10, 20, … 60 rows: with epochs of 10 rows they take 1, 2, … 6 steps."""
    draw = np.random.default_rng(0)
    sizes = 10 * np.arange(1, 7)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    x = np.empty((offsets[-1], 3), np.float32)
    y = np.empty((offsets[-1], 1), np.float32)
    for k in range(6):
        rows = slice(offsets[k], offsets[k + 1])
        x[rows] = draw.normal(size=3) + draw.normal(size=(sizes[k], 3))
        y[rows] = x[rows] @ draw.normal(size=(3, 1))
    weights = np.full(6, 1 / 6)
    return hcsfed.types.Federation("unequal", x, y, offsets, x, y, weights, 0, task="regression")


def hessians(federation):
    """H_k and b_k: client k's gradient at w is H_k·w − b_k."""
    pairs = []
    for k in range(federation.clients):
        x, y = (part.astype(float) for part in federation.client(k))
        pairs.append((x.T @ x / len(x), x.T @ y[:, 0] / len(x)))
    return pairs


def last(federation, rounds_, **given):
    """Parameters after a run, and the clients of every round."""
    base = {"model": "linear", "rounds": rounds_, "local.batch": 1000, "local.lr": RATE, "local.steps": STEPS}
    parts = assemble(merge(Settings(), base, given), federation=federation)
    standing = Standing.first(parts)
    ids = []
    for record, after in rounds(parts, standing):
        standing = after
        ids.append(record["ids"])
    return standing, ids


def settled(federation, factors, *, momentum=0.0, mu=0.0):
    """The w with Σ_k ω_k·f_k·u_k(w) = 0, u_k by the recursion of K steps, which is affine in w."""
    d = federation.x.shape[1]
    slope, constant = np.zeros((d, d)), np.zeros(d)
    for (h, b), weight, (steps, factor) in zip(hessians(federation), federation.weights, factors, strict=True):

        def moved(w, h=h, b=b, steps=steps):
            x, v = w.copy(), np.zeros(d)
            for _ in range(steps):
                v = momentum * v + h @ x - b + mu * (x - w)
                x = x - RATE * v
            return x - w

        at_zero = moved(np.zeros(d))
        constant += weight * factor * at_zero
        slope += weight * factor * np.stack([moved(e) - at_zero for e in np.eye(d)], axis=1)
    return np.linalg.solve(slope, -constant)


def test_fedavg_settles_beside_the_optimum_where_its_clients_steps_say(federation):
    standing, _ = last(federation, 200, selector="full")
    expected = settled(federation, [(STEPS, 1.0)] * 6)
    assert standing.parameters.numpy() == pytest.approx(expected, abs=1e-4)
    assert np.abs(expected - optimum(federation)).max() > 0.01


@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize("selector", ["random", "md"])
def test_scaffold_settles_at_the_optimum_whoever_is_selected(federation, option, selector):
    given = {"algorithm": {"name": "scaffold", "option": option}, "server.lr": 0.5}
    standing, _ = last(federation, 500, selector=selector, cohort=3, **given)
    assert standing.parameters.numpy() == pytest.approx(optimum(federation), abs=2e-3)


@pytest.mark.parametrize("option", [1, 2])
def test_scaffold_follows_the_published_path_with_one_over_n(federation, option):
    """Written out for equal weights, with the clients that the run has drawn."""
    standing, ids = last(federation, 5, selector="random", cohort=2, algorithm={"name": "scaffold", "option": option})
    pairs = hessians(federation)
    start = assemble(merge(Settings(), {"model": "linear"}), federation=federation).trainer.initial()
    x, c, own = start.double().numpy(), np.zeros(4), np.zeros((6, 4))
    for cohort in ids:
        moved, change = np.zeros(4), np.zeros(4)
        for i in cohort:
            h, b = pairs[i]
            y = x.copy()
            for _ in range(STEPS):
                y = y - RATE * (h @ y - b - own[i] + c)
            new = h @ x - b if option == 1 else own[i] - c + (x - y) / (STEPS * RATE)
            moved += (y - x) / len(cohort)
            change += (new - own[i]) / 6
            own[i] = new
        x, c = x + moved, c + change
    assert standing.parameters.numpy() == pytest.approx(x, abs=1e-5)
    assert standing.algorithm["all"] == pytest.approx(c, abs=1e-5)
    assert standing.algorithm["all"] == pytest.approx(own.mean(axis=0), abs=1e-5)


def test_scaffold_refuses_local_momentum(federation):
    with pytest.raises(SettingError, match=r"local.momentum of scaffold must be 0"):
        last(federation, 1, algorithm="scaffold", **{"local.momentum": 0.9})


@pytest.mark.parametrize(("momentum", "mu"), [(0.0, 0.0), (0.9, 0.0), (0.0, 2.0), (0.5, 1.0)])
def test_fednova_settles_where_normalised_updates_cancel(federation, momentum, mu):
    """Clients with 1, 2, … 6 full-batch steps; FedAvg goes elsewhere."""
    steps = np.arange(1, 7)

    def settle(name):
        parts = assemble(
            merge(
                Settings(),
                {"model": "linear", "selector": "full", "rounds": 1, "local.batch": 1000, "local.lr": RATE},
                {"algorithm": name, "local.momentum": momentum},
                {"algorithm.mu": mu} if name == "fednova" else {"local.mu": mu},
            ),
            federation=federation,
        )
        plain = parts.trainer.train
        setup = hcsfed.aggregate.contract.Setup(
            **{
                **vars(parts.setup),
                "steps": steps,
                "train": lambda p, ids, t, correction=None: plain(p, ids, t, steps=steps[ids], correction=correction),
            }
        )
        w = parts.trainer.initial()
        for t in range(300):
            for chunk in parts.algorithm.train(setup, {}, w, np.arange(6), t):
                w = w + chunk.vectors.mean(dim=0)
        return w.numpy()

    ones = settled(federation, [(k, 1.0) for k in steps], momentum=momentum, mu=mu)
    weight = [1 / ones_moved(k, momentum, mu) for k in steps]
    nova = settled(federation, list(zip(steps, weight, strict=True)), momentum=momentum, mu=mu)
    assert settle("fednova") == pytest.approx(nova, abs=1e-4)
    assert settle("fedavg") == pytest.approx(ones, abs=1e-4)
    assert np.abs(ones - nova).max() > 1e-3


def ones_moved(steps, momentum, mu):
    """‖a‖₁ from the closed forms of FedNova's paper, or by matrices where both are in play."""
    if momentum and not mu:
        return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
    if mu and not momentum:
        return (1 - (1 - RATE * mu) ** steps) / (RATE * mu)
    if not mu:
        return steps
    # (x, v, 1): v ← ρv + 1 − μη·x, x ← x + v
    one = np.array([[1 - mu * RATE, momentum, 1], [-mu * RATE, momentum, 1], [0, 0, 1]])
    return (np.linalg.matrix_power(one, steps) @ [0, 0, 1])[0]


def test_fednova_without_unequal_steps_is_fedavg(federation):
    one, other = (last(federation, 3, algorithm=name)[0] for name in ("fedavg", "fednova"))
    assert one.parameters.numpy() == pytest.approx(other.parameters.numpy(), abs=1e-6)


def test_fednova_takes_the_steps_of_everyone_whoever_is_selected():
    """Σ weights·u over a cohort of one, averaged over whom it may be, is the step with everyone."""
    federation = unequal()
    settings = merge(Settings(), {"model": "linear", "algorithm": "fednova", "local.epochs": 1, "local.batch": 10})
    parts = assemble(settings, federation=federation)
    assert parts.setup.steps.tolist() == [1, 2, 3, 4, 5, 6]
    w = parts.trainer.initial()
    alone = [next(parts.algorithm.train(parts.setup, {}, w, np.array([k]), 0)).vectors[0] for k in range(6)]
    together = torch.cat([c.vectors for c in parts.algorithm.train(parts.setup, {}, w, np.arange(6), 0)])
    assert torch.equal(torch.stack(alone), together)
    plain = torch.cat([c.vectors for c in parts.trainer.train(w, np.arange(6), 0)])
    assert together.numpy() == pytest.approx((plain * torch.tensor([3.5 / k for k in range(1, 7)])[:, None]).numpy())


def walk(name, delta, steps, **options):
    server = SERVERS.build(name, **options)
    w, state = torch.zeros(2), server.start(2)
    for _ in range(steps):
        w, state = server.step(w, torch.tensor(delta), state)
    return w.numpy(), state


# ---- Paths under partial participation ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repeated():
    """Clients 0 … 5 with 10, 20, … 60 times the same row: any minibatch has the gradient of the whole client."""
    draw = np.random.default_rng(1)
    sizes = 10 * np.arange(1, 7)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(np.arange(6), sizes)
    x = draw.normal(size=(6, 3)).astype(np.float32)[rows]
    y = draw.normal(size=(6, 1)).astype(np.float32)[rows]
    weights = np.array([0.1, 0.3, 0.1, 0.2, 0.1, 0.2])
    return hcsfed.types.Federation("repeated", x, y, offsets, x, y, weights, 0, task="regression")


def local_update(pair, w, steps, *, momentum=0.0, mu=0.0, push=0.0):
    """K steps of the local recursion, written out."""
    h, b = pair
    x, v = w.copy(), np.zeros_like(w)
    for _ in range(steps):
        v = momentum * v + h @ x - b + mu * (x - w) + push
        x = x - RATE * v
    return x - w


def history(federation, rounds_, **given):
    """Parameters before the first round, those after the last, and who answered with what weight in each."""
    base = {"model": "linear", "rounds": rounds_, "local.batch": 10, "local.epochs": 1, "local.lr": RATE}
    parts = assemble(merge(Settings(), base, given), federation=federation)
    standing = Standing.first(parts)
    start = standing.parameters.double().numpy()
    told = []
    for entry, after in rounds(parts, standing):
        standing = after
        told.append((entry["ids"], np.array(entry["weights"]), entry["upload_bytes"]))
    return start, standing, told


PATHS = {
    "fedavg": ({}, {}),
    "fedprox": ({"algorithm.mu": 0.7}, {"mu": 0.7}),
    "fednova": ({}, {}),
    "fednova with momentum": ({"local.momentum": 0.8}, {"momentum": 0.8}),
    "fednova with a proximal term": ({"algorithm.mu": 0.7}, {"mu": 0.7}),
    "fednova with both": ({"algorithm.mu": 0.7, "local.momentum": 0.5}, {"mu": 0.7, "momentum": 0.5}),
}


@pytest.mark.parametrize("selector", ["random", "md"])
@pytest.mark.parametrize("which", PATHS)
def test_the_path_of_a_few_is_the_published_recursion(repeated, which, selector):
    """Clients take 1, 2, … 6 steps; whoever is drawn, with its weight, moves the model as the formulas say."""
    given, terms = PATHS[which]
    name = which.partition(" ")[0]
    w, standing, told = history(repeated, 6, selector=selector, cohort=3, algorithm=name, **given)
    pairs, steps = hessians(repeated), np.arange(1, 7)
    ones = np.array([ones_moved(k, terms.get("momentum", 0), terms.get("mu", 0)) for k in steps])
    factors = (repeated.weights @ ones) / ones if name == "fednova" else np.ones(6)
    for ids, weights, _ in told:
        moved = [factors[i] * local_update(pairs[i], w, steps[i], **terms) for i in ids]
        w = w + weights @ np.array(moved)
    assert standing.parameters.numpy() == pytest.approx(w, abs=2e-5)
    assert len({tuple(ids) for ids, _, _ in told}) > 1


@pytest.mark.parametrize("estimator", ["fedvarp", "mifa", "clusterfedvarp"])
def test_the_path_of_an_estimator_of_last_updates_is_the_published_recursion(repeated, estimator):
    given = {"estimator": estimator} | ({"estimator.clusters": 2} if estimator == "clusterfedvarp" else {})
    w, standing, told = history(repeated, 8, selector="random", cohort=2, **given)
    pairs, shares = hessians(repeated), repeated.weights
    owner = standing.estimator["labels"] if estimator == "clusterfedvarp" else np.arange(6)
    kept = np.zeros((6, 3))  # of each client's cluster, or its own
    for ids, weights, _ in told:
        new = np.array([local_update(pairs[i], w, i + 1) for i in ids])
        if estimator == "mifa":
            kept[ids] = new
            w = w + shares @ kept
            continue
        w = w + shares @ kept + weights @ (new - kept[ids])
        for h in set(owner[ids]):
            kept[owner == h] = new[owner[ids] == h].mean(axis=0)
    assert standing.parameters.numpy() == pytest.approx(w, abs=2e-5)
    assert len(told[0][0]) == (6 if estimator == "mifa" else 2)


def test_variates_of_clusters_follow_their_recursion_and_add_up_to_everyones(repeated):
    given = {"algorithm": {"name": "scaffold", "state": "cluster", "clusters": 2}}
    w, standing, told = history(repeated, 8, selector="random", cohort=3, **given)
    pairs, shares, steps = hessians(repeated), repeated.weights, np.arange(1, 7)
    owner, own, c = standing.algorithm["labels"], np.zeros((2, 3)), np.zeros(3)
    for ids, weights, _ in told:
        moved = [local_update(pairs[i], w, steps[i], push=c - own[owner[i]]) for i in ids]
        new = np.array([own[owner[i]] - c - u / (steps[i] * RATE) for i, u in zip(ids, moved, strict=True)])
        w = w + weights @ np.array(moved)
        for h in set(owner[ids]):
            own[h] = new[owner[ids] == h].mean(axis=0)
        c = shares @ own[owner]
    assert standing.parameters.numpy() == pytest.approx(w, abs=2e-5)
    assert standing.algorithm["all"] == pytest.approx(c, abs=1e-5)


def kinds():
    """Twelve clients of two kinds, whose members hold the same rows."""
    two = hcsfed.load("quadratic", clients=2, data_options={"dimension": 4})
    held = [two.client(k % 2) for k in range(12)]
    x, y = (np.concatenate(parts) for parts in zip(*held, strict=True))
    offsets = np.concatenate([[0], np.cumsum([len(a) for a, _ in held])])
    return hcsfed.types.Federation("kinds", x, y, offsets, x, y, np.full(12, 1 / 12), 0, task="regression"), two


def test_clusters_of_equals_lose_nothing():
    """SCAFFOLD with one variate a kind settles at the optimum, ClusterFedVARP where everyone would."""
    federation, two = kinds()
    few = {"selector": "random", "cohort": 3, "server.lr": 0.5}
    state = {"algorithm": {"name": "scaffold", "state": "cluster", "clusters": 2}}
    scaffold, _ = last(federation, 600, **few, **state)
    assert scaffold.parameters.numpy() == pytest.approx(optimum(two), abs=2e-3)
    varp, _ = last(federation, 600, **few, estimator={"name": "clusterfedvarp", "clusters": 2})
    assert varp.parameters.numpy() == pytest.approx(settled(two, [(STEPS, 1.0)] * 2), abs=1e-3)


def test_no_variates_are_fedavg(federation):
    one, _ = last(federation, 5, cohort=3)
    other, _ = last(federation, 5, cohort=3, algorithm={"name": "scaffold", "state": "none"})
    assert torch.equal(one.parameters, other.parameters)


def test_lag_of_everyone_is_the_published_recursion(federation):
    """Workers that hold back are those of LAG-WK, round by round, and what they cost is counted."""
    rounds_, xi, window, alpha = 25, 0.4, 3, RATE
    given = {"algorithm": {"name": "lag", "trigger": xi, "window": window}, "local.steps": 1, "local.epochs": 0}
    start, standing, told = history(federation, rounds_, selector="full", **given, **{"local.batch": 1000})
    pairs, n, d = hessians(federation), 6, 4
    theta, path, kept, spoke = start, [start], np.full((n, d), np.inf), []
    for _ in range(rounds_):
        gradients = np.array([(h @ theta - b) / n for h, b in pairs])  # of L_m, whose sum is minimised
        gone = [np.sum((path[-i] - path[-i - 1]) ** 2) for i in range(1, window + 1) if len(path) > i]
        bar = xi * sum(gone) / (alpha * n) ** 2
        speaks = ((kept - gradients) ** 2).sum(axis=1) > bar
        kept[speaks] = gradients[speaks]
        theta = theta - alpha * kept.sum(axis=0)
        path.append(theta)
        spoke.append(int(speaks.sum()))
    assert standing.parameters.numpy() == pytest.approx(theta, abs=1e-5)
    assert [upload for _, _, upload in told] == [4 * d * count for count in spoke]
    assert spoke[0] == n
    assert 0 < sum(spoke) < 0.8 * n * rounds_


@pytest.mark.parametrize("selector", ["random", "md"])
def test_lag_of_a_few_is_the_recursion_of_those_who_were_asked(repeated, selector):
    """Whoever was asked decides by how the model moved lately; its last upload stands for it, with its weight."""
    rounds_, xi, window = 30, 0.1, 4
    given = {"algorithm": {"name": "lag", "trigger": xi, "window": window}}
    w, standing, told = history(repeated, rounds_, selector=selector, cohort=3, **given)
    pairs, kept, moves, silent = hessians(repeated), np.full((6, 3), np.nan), [], 0
    for ids, weights, upload in told:
        bar, spoke, moved = xi * sum(moves[-window:]), 0, np.zeros(3)
        for i, weight in zip(ids, weights, strict=True):
            new = local_update(pairs[i], w, i + 1)
            if np.isnan(kept[i]).any() or (6 * repeated.weights[i]) ** 2 * ((new - kept[i]) ** 2).sum() > bar:
                kept[i], spoke = new, spoke + 1
            moved += weight * kept[i]
        w, silent = w + moved, silent + len(ids) - spoke
        moves.append((moved**2).sum())
        assert upload == 4 * 3 * spoke
    assert standing.parameters.numpy() == pytest.approx(w, abs=2e-5)
    assert 0.1 < silent / sum(len(ids) for ids, _, _ in told) < 0.9


def test_lag_without_a_trigger_is_fedavg(federation):
    one, _ = last(federation, 4, cohort=3)
    other, _ = last(federation, 4, cohort=3, algorithm={"name": "lag", "trigger": 0.0})
    assert one.parameters.numpy() == pytest.approx(other.parameters.numpy(), abs=1e-7)


def test_lag_of_a_few_with_everyones_last_uploads_settles_where_all_would(federation):
    given = {"selector": "random", "cohort": 3, "algorithm": "lag", "estimator": "mifa", "server.lr": 0.3}
    standing, _ = last(federation, 500, **given)
    assert standing.parameters.numpy() == pytest.approx(settled(federation, [(STEPS, 1.0)] * 6), abs=1e-3)


def test_server_steps_under_a_constant_estimate():
    """Closed forms of the recursions of Reddi et al.'s Algorithm 2 for Δ the same in every round."""
    delta, n = np.array([0.5, -0.25]), 7
    assert walk("sgd", delta.tolist(), n, lr=0.5)[0] == pytest.approx(0.5 * n * delta)
    geometric = sum(1 - 0.9**t for t in range(1, n + 1)) / 0.1
    assert walk("momentum", delta.tolist(), n)[0] == pytest.approx(geometric * delta)
    times = np.arange(1, n + 1)[:, None]
    m = (1 - 0.8**times) * delta
    adam = 0.1**2 * 0.9**times + (1 - 0.9**times) * delta**2
    yogi = 0.1**2 + 0.1 * times * delta**2  # below Δ² it grows by the same amount every round
    for name, v in (("adam", adam), ("yogi", yogi)):
        w, state = walk(name, delta.tolist(), n, lr=0.3, beta1=0.8, beta2=0.9, tau=0.1)
        assert w == pytest.approx((0.3 * m / (np.sqrt(v) + 0.1)).sum(axis=0), rel=1e-5)
        assert state["v"] == pytest.approx(v[-1], rel=1e-5)


def test_yogi_forgets_a_large_step_by_the_size_of_the_small_ones():
    server = SERVERS.build("yogi", beta2=0.9, tau=1.0)
    _, state = server.step(torch.zeros(1), torch.tensor([0.5]), server.start(1))
    assert state["v"] == pytest.approx([1 - 0.1 * 0.25])


@pytest.mark.parametrize("server", list(SERVERS))
def test_every_server_step_settles_at_the_optimum_of_full_gradients(federation, server):
    given = {"server": {"name": server, "lr": 1.0 if server == "sgd" else 0.1}, "local.steps": 1}
    standing, _ = last(federation, 1000, selector="full", **given)
    assert standing.parameters.numpy() == pytest.approx(optimum(federation), abs=5e-3)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"server.lr": 0}, "lr of server 'sgd' must be a number > 0"),
        ({"server": {"name": "adam", "beta2": 1.0}}, "beta2 of server 'adam'"),
        ({"server": "adamm"}, "did you mean 'adam'"),
        ({"algorithm": {"name": "scaffold", "option": 3}}, "option of scaffold must be 1 or 2"),
        ({"algorithm": {"name": "fednova", "mu": -1}}, "mu of fednova"),
        ({"algorithm": {"name": "scaffold", "state": "server"}}, "state of scaffold must be one of client"),
        ({"algorithm": {"name": "scaffold", "clusters": 0}}, "clusters of scaffold"),
        ({"algorithm": {"name": "lag", "trigger": -1}}, "trigger of lag must be a number ≥ 0"),
        ({"algorithm": {"name": "lag", "window": 0}}, "window of lag must be an int ≥ 1"),
    ],
)
def test_bad_options_are_told(federation, options, told):
    with pytest.raises(SettingError, match=told):
        assemble(merge(Settings(), {"model": "linear"}, options), federation=federation)


@pytest.fixture(scope="module")
def digits():
    return hcsfed.load("digits", clients=12)


QUICK = {"rounds": 2, "cohort": 4, "steps": 2, "lr": 0.05}


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("selector", list(SELECTORS))
def test_every_selector_algorithm_and_estimator_run_together(algorithm, selector):
    tiny = images([3, 4, 5, 6, 7, 8, 9, 10])
    for estimator in ESTIMATORS:
        run = simulate(tiny, algorithm=algorithm, selector=selector, options={"estimator.name": estimator}, **QUICK)
        assert np.isfinite([record["loss"] for record in run.history]).all(), estimator
        assert all(np.isfinite(record["weights"]).all() for record in run.history), estimator


@pytest.mark.parametrize("server", list(SERVERS))
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_a_run_taken_up_equals_one_that_went_through(digits, algorithm, server, tmp_path):
    given = {**QUICK, "algorithm": algorithm, "options": {"server.name": server}}
    whole = simulate(digits, **{**given, "rounds": 5})
    simulate(digits, out=tmp_path / "run", **given)
    resumed = simulate(digits, out=tmp_path / "run", resume=True, **{**given, "rounds": 5})
    assert [r["loss"] for r in resumed.history] == [r["loss"] for r in whole.history]


def test_the_ledger_counts_variates_and_extra_passes(digits):
    plain = simulate(digits, **QUICK)
    for option, extra in ((1, 1), (2, 0)):
        run = simulate(digits, algorithm="scaffold", options={"algorithm.option": option}, **QUICK)
        assert run.upload_bytes == 2 * plain.upload_bytes
        assert run.download_bytes == 2 * plain.download_bytes
        passes = sum(-(-digits.sizes[r["ids"]] // 50).sum() for r in run.history)
        assert run.local_steps == plain.local_steps + extra * passes
    run = simulate(digits, selector="hcsfed", algorithm="scaffold", **QUICK)
    assert run.download_bytes == 2 * simulate(digits, selector="hcsfed", **QUICK).download_bytes
