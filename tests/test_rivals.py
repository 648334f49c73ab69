"""Each rival does what its source says, apart from what every selector does (see test_conformance)."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy, multivariate_normal

from hcsfed.errors import SettingError
from hcsfed.rng import stream
from hcsfed.select import (
    DivFL,
    FedCor,
    FedFast,
    HiCS,
    LocalRounds,
    Oort,
    PowerOfChoice,
    TestAccuracy,
    observe,
    pick,
    start,
)
from hcsfed.select.best import one_by_one
from hcsfed.select.fedcor import embed, leaders
from hcsfed.select.hics import entropies
from hcsfed.types import Answers, View


def view_of(n, seed=0, **signals):
    weights = stream(seed, "weights").dirichlet(np.full(n, 5.0))
    return View(np.full(n, 10), weights, np.ones(n, bool), **signals)


def picks(selector, view, m, times, purpose="picks"):
    return [pick(selector, view, m, stream(i, purpose)) for i in range(times)]


# ---- draws one by one -------------------------------------------------------------------------------------------


def test_one_by_one_follows_successive_draws():
    weights = np.array([0.5, 0.3, 0.2])
    seen = np.zeros(3)
    for i in range(4000):
        seen[one_by_one(weights, 2, stream(i, "gumbel"))] += 1
    # P(left out) of a client: drawn third. Σ over orders of the first two.
    left = [
        sum(weights[a] * weights[b] / (1 - weights[a]) for a, b in ((i, j), (j, i)))
        for i, j in ((1, 2), (0, 2), (0, 1))
    ]
    np.testing.assert_allclose(1 - seen / 4000, left, atol=0.03)


# ---- power of choice --------------------------------------------------------------------------------------------


def test_power_of_choice_takes_the_worst_off_of_its_candidates():
    view = view_of(20, losses=stream(0, "losses").random(20))
    for selection in picks(PowerOfChoice(candidates=8), view, 3, 30):
        asked = selection.info["candidates"]
        assert len(asked) == 8
        worst = asked[np.argsort(view.losses[asked])[-3:]]
        assert set(selection.ids) == set(worst)
        np.testing.assert_allclose(selection.weights, 1 / 3)


def test_with_all_as_candidates_it_is_greedy_and_with_m_it_is_a_draw_by_weight():
    view = view_of(12, losses=np.arange(12.0))
    assert all(s.ids.tolist() == [9, 10, 11] for s in picks(PowerOfChoice(candidates=99), view, 3, 10))
    seen = np.mean([np.isin(np.arange(12), s.ids) for s in picks(PowerOfChoice(candidates=1), view, 1, 3000)], axis=0)
    np.testing.assert_allclose(seen, view.weights, atol=0.03)


def test_fewer_candidates_than_places_are_refused():
    with pytest.raises(SettingError, match="candidates of power-of-choice must be 0 or at least the cohort size 3"):
        pick(PowerOfChoice(candidates=2), view_of(9, losses=np.ones(9)), 3, stream(0, "x"))


# ---- DivFL ------------------------------------------------------------------------------------------------------


def cost(view, ids):
    gaps = np.linalg.norm(view.features[:, None] - view.features[None, ids], axis=2)
    return view.weights @ gaps.min(axis=1)


def greedy(view, m):
    chosen = []
    for _ in range(m):
        rest = [k for k in range(view.clients) if k not in chosen]
        chosen.append(min(rest, key=lambda k: cost(view, [*chosen, k])))
    return sorted(chosen)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n", [7, 60])
def test_the_lazy_greedy_is_the_greedy(seed, n):
    view = view_of(n, seed, features=stream(seed, "features").normal(size=(n, 3)).astype(np.float32))
    for m in (1, 3, 6):
        lazy = pick(DivFL(), view, m, stream(seed, "lazy"))
        assert lazy.ids.tolist() == greedy(view, m)
        nearest = np.argmin(np.linalg.norm(view.features[:, None] - view.features[None, lazy.ids], axis=2), axis=1)
        np.testing.assert_allclose(lazy.weights, np.bincount(nearest, view.weights, minlength=m))
        np.testing.assert_array_equal(lazy.info["labels"], nearest)
        tried_all = pick(DivFL(candidates=n), view, m, stream(seed, "stochastic"))
        np.testing.assert_array_equal(tried_all.ids, lazy.ids)


def test_all_pairs_of_too_many_clients_are_refused():
    view = view_of(20_001, features=np.zeros((20_001, 1), np.float32))
    with pytest.raises(SettingError, match="candidates of divfl must be an int >= 1 for more than 20000 clients"):
        pick(DivFL(), view, 2, stream(0, "x"))
    assert len(pick(DivFL(candidates=3), view, 2, stream(0, "x"))) == 2


def test_the_greedy_is_close_to_the_best_cohort():
    view = view_of(12, features=stream(0, "features").normal(size=(12, 2)).astype(np.float32))
    best = min(cost(view, list(ids)) for ids in combinations(range(12), 4))
    assert cost(view, pick(DivFL(), view, 4, stream(0, "x")).ids) <= 1.2 * best


def test_of_clear_groups_each_is_represented():
    features = np.repeat(np.eye(4, dtype=np.float32) * 10, 5, axis=0)
    features += stream(0, "noise").normal(size=features.shape).astype(np.float32)
    view = view_of(20, features=features)
    for selector in (DivFL(), FedFast()):
        selection = pick(selector, view, 4, stream(0, "groups"))
        assert sorted(selection.ids // 5) == [0, 1, 2, 3]
        by_group = selection.weights[np.argsort(selection.ids // 5)]
        np.testing.assert_allclose(by_group, view.weights.reshape(4, 5).sum(axis=1))


# ---- FedFast ----------------------------------------------------------------------------------------------------


def test_fedfast_sends_one_delegate_of_each_cluster():
    view = view_of(40, features=stream(0, "features").normal(size=(40, 3)).astype(np.float32))
    for selection in picks(FedFast(), view, 7, 20):
        labels = selection.info["labels"]
        assert sorted(labels[selection.ids]) == list(range(7))
        totals = np.bincount(labels, view.weights)
        np.testing.assert_allclose(selection.weights, totals[labels[selection.ids]])
        np.testing.assert_allclose(selection.inclusion, view.weights / totals[labels])


# ---- Oort -------------------------------------------------------------------------------------------------------


def taught(oort, losses, seconds=None, rounds=1, n=None):
    """The memory after all clients have answered at once, in each of some rounds."""
    n = len(losses)
    view = view_of(n)
    state = start(oort, n)
    for _ in range(rounds):
        selection = pick(oort, replace(view, state=state), n, stream(0, "teach"))
        back = Answers(np.arange(n), np.ones(n), np.asarray(losses, float), np.ones(n, int), seconds=seconds)
        state = observe(oort, state, selection, back)
    return replace(view, state=state)


def test_oort_explores_less_and_less():
    oort, n, m = Oort(explore=0.8, explore_decay=0.5, explore_least=0.2), 200, 10
    view, state = view_of(n), start(Oort(), n)
    newcomers = []
    for t in range(5):
        selection = pick(oort, replace(view, state=state), m, stream(t, "explore"))
        newcomers.append(selection.info["newcomers"])
        back = Answers(selection.ids, np.ones(m), np.ones(m), np.ones(m, int))
        state = observe(oort, state, selection, back)
    assert newcomers == [10, 4, 2, 2, 2]  # the first cohort is all new: nobody else is known


def test_oort_goes_by_utility_with_its_cutoff():
    view = taught(Oort(explore_least=0), [1, 2, 3, 4, 100, 100, 100, 100])
    # Half of them are worth about the clip, the others about nothing: below the cut-off of the worst that gets in.
    for selection in picks(Oort(explore=0, explore_least=0), view, 3, 40):
        assert selection.ids.min() >= 4


def test_oort_avoids_the_slow():
    seconds = np.array([1, 1, 1, 1, 1, 1, 100, 100.0])
    view = taught(Oort(), np.full(8, 2.0), seconds)
    seen = np.concatenate([s.ids for s in picks(Oort(explore=0, explore_least=0), view, 3, 40)])
    assert seen.max() <= 5


def test_oort_utility_by_hand():
    # Two rounds; T = the 0.5-quantile of (1, 2, 4) = 2; client 2 is slow: (2/4)² = 1/4.
    oort = Oort(pace=0.5, clip=1.0)
    view = taught(oort, [1, 2, 3], np.array([1.0, 2.0, 4.0]), rounds=2)
    stale = np.sqrt(0.1 * np.log(3) / 2)
    np.testing.assert_allclose(oort._utility(view.state, view), [stale, 0.5 + stale, (1 + stale) / 4])


def test_the_pacer_waits_longer_when_less_is_learned():
    oort = Oort(window=2, pace=0.3, pace_step=0.1)
    n, paces = 4, []
    view, state = view_of(n), start(oort, n)
    for loss in (4, 4, 3, 3, 5, 5, 5, 5):
        selection = pick(oort, replace(view, state=state), n, stream(0, "pace"))
        state = observe(oort, state, selection, Answers(np.arange(n), np.ones(n), np.full(n, loss), np.ones(n, int)))
        paces.append(round(float(state["pace"][0]), 6))
    assert paces == [0.3, 0.3, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4]


# ---- test accuracy ----------------------------------------------------------------------------------------------


def test_the_secretary_problem():
    # One place: the classical rule finds the best of many with probability 1/e (Dynkin 1963; 0.371 at N = 100).
    view = view_of(100, accuracies=stream(0, "accuracies").random(100))
    found = np.mean([s.ids[0] == view.accuracies.argmax() for s in picks(TestAccuracy(), view, 1, 4000)])
    assert found == pytest.approx(0.371, abs=0.025)


def test_accuracy_rules():
    view = view_of(30, accuracies=stream(0, "accuracies").random(30))
    top = set(np.argsort(view.accuracies)[-5:])
    assert set(pick(TestAccuracy("best"), view, 5, stream(0, "x")).ids) == top
    hits = np.mean([len(top & set(s.ids)) for s in picks(TestAccuracy(), view, 5, 300)])
    assert 5 * 5 / 30 + 0.3 < hits < 5  # better than chance, worse than with hindsight
    with pytest.raises(SettingError, match="rule of test-accuracy"):
        pick(TestAccuracy("worst"), view, 5, stream(0, "x"))


# ---- local rounds -----------------------------------------------------------------------------------------------


def test_only_those_who_moved_far_speak():
    view = replace(view_of(6, norms=np.array([1, 1, 1, 1, 5, 6.0])), weights=np.full(6, 1 / 6))
    selection = pick(LocalRounds(1.0), view, 4, stream(0, "x"))  # r = √(65/6) ≈ 3.3
    assert selection.ids.tolist() == [4, 5]
    np.testing.assert_allclose(selection.weights, 1 / 6)
    assert pick(LocalRounds(1.0), view, 1, stream(0, "x")).ids.tolist() == [5]
    assert pick(LocalRounds(0.0), view, 4, stream(0, "x")).info["passing"] == 6
    assert pick(LocalRounds(9.0), view, 4, stream(0, "x")).ids.tolist() == [5]


# ---- HiCS -------------------------------------------------------------------------------------------------------


def test_entropies_are_those_of_the_softmax():
    updates = stream(0, "updates").normal(size=(30, 10)).astype(np.float32)
    wanted = entropy(softmax(updates.astype(float) / 0.3, axis=1), axis=1)
    np.testing.assert_allclose(entropies(updates, 0.3), wanted, atol=1e-9)
    extreme = np.array([[0, 0, 0, 0], [1e30, 0, 0, 0], [-1e30, 0, 0, -1e30]], np.float32)
    np.testing.assert_allclose(entropies(extreme, 0.0025), [np.log(4), 0, np.log(2)], atol=1e-12)


def biases(balanced=10, skewed=30, classes=10, scale=0.01):
    """Bias updates of clients with all classes, and of clients with one, as they come from label counts."""
    rng = stream(0, "biases")
    even = scale * 0.1 * rng.normal(size=(balanced, classes))
    odd = scale * (np.eye(classes)[np.arange(skewed) % classes] + 0.05 * rng.normal(size=(skewed, classes)))
    return np.vstack([even, odd]).astype(np.float32)


def test_hics_prefers_balanced_clients_and_less_so_with_time():
    view = view_of(40, features=biases())
    selector = HiCS(clusters=11, horizon=100)
    share = {}
    for t in (0, 50, 100):
        made = picks(selector, replace(view, round=t), 4, 150)
        share[t] = np.mean([s.ids < 10 for s in made])
    assert share[0] > share[50] + 0.1 > share[100] + 0.3
    labels = made[0].info["labels"]
    pure = [len(set(labels[:10])), len(set(labels[10:]))]
    assert sum(pure) == 11, "balanced and skewed clients don't share clusters"
    assert share[100] == pytest.approx(pure[0] / 11, abs=0.06)  # γ = 0: clusters are alike


def test_hics_hears_everyone_once_first():
    features = biases()
    features[[3, 17, 30]] = 0
    view = view_of(40, features=features)
    assert pick(HiCS(), view, 3, stream(0, "x")).ids.tolist() == [3, 17, 30]
    assert {3, 17, 30} < set(pick(HiCS(), view, 8, stream(0, "x")).ids)


# ---- FedCor -----------------------------------------------------------------------------------------------------


def likelihood(rows, weights, embedding, noise):
    density = multivariate_normal(np.zeros(len(embedding)), embedding @ embedding.T + noise * np.eye(len(embedding)))
    return weights @ density.logpdf(rows)


def test_the_embedding_has_the_largest_likelihood():
    rng = stream(0, "changes")
    changes = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(12, 6))
    changes /= np.abs(changes).max()
    weights = 0.9 ** np.arange(11.0, -1, -1)
    embedding, noise = embed(changes, 0.9, 2)
    best = likelihood(changes, weights, embedding, noise)
    for _ in range(200):
        other = embedding + 0.05 * rng.normal(size=embedding.shape)
        assert likelihood(changes, weights, other, noise * np.exp(0.1 * rng.normal())) < best


def test_the_leaders_are_those_of_the_dense_covariance():
    rng = stream(1, "leaders")
    embedding, noise = rng.normal(size=(15, 3)), 0.1
    weights, discount = rng.dirichlet(np.ones(15)), rng.uniform(0.5, 1, 15)
    sigma = embedding @ embedding.T + noise * np.eye(15)
    wanted = []
    for _ in range(6):
        score = np.full(15, -np.inf)
        for k in set(range(15)) - set(wanted):
            score[k] = discount[k] * weights @ sigma[:, k] / np.sqrt(sigma[k, k])
        k = int(np.argmax(score))
        wanted.append(k)
        sigma = sigma - np.outer(sigma[:, k], sigma[k]) / sigma[k, k]
    assert leaders(embedding, noise, weights, discount, 6).tolist() == wanted


def test_fedcor_picks_one_of_each_group_that_moves_together():
    # Three groups whose losses move as one: after the warm-up the cohort of three has one client of each.
    n, rng = 12, stream(0, "groups")
    fedcor = FedCor(warmup=10, beta=1.0)
    state, losses = start(fedcor, n), np.full(n, 10.0)
    groups = []
    for t in range(20):
        losses = losses + np.repeat(rng.normal(size=3), 4) + 0.01 * rng.normal(size=n)
        view = replace(view_of(n, losses=losses), weights=np.full(n, 1 / n), state=state, round=t)
        selection = pick(fedcor, view, 3, stream(t, "fedcor"))
        groups.append(sorted(selection.ids // 4))
        state = observe(fedcor, state, selection, Answers(selection.ids, np.ones(3), np.ones(3), np.ones(3, int)))
    assert groups[10:] == [[0, 1, 2]] * 10


def test_fedcor_makes_way_for_others():
    n, rng = 12, stream(0, "ways")
    seen = {}
    for beta in (1.0, 0.5):
        fedcor, ids = FedCor(warmup=5, beta=beta), []
        state, losses = start(fedcor, n), np.full(n, 10.0)
        pull = rng.random(n) + 0.5
        for t in range(25):
            losses = losses - pull * stream(t, "step").random() + 0.05 * stream(t, "noise").normal(size=n)
            view = view_of(n, losses=losses, state=state, round=t)
            selection = pick(fedcor, view, 2, stream(t, "fedcor"))
            ids += selection.ids.tolist() if t >= 5 else []
            state = observe(fedcor, state, selection, Answers(selection.ids, np.ones(2), np.ones(2), np.ones(2, int)))
        seen[beta] = len(set(ids))
    assert seen[0.5] > seen[1.0]
