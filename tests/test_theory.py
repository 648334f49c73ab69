"""The variance of each design: formulas against going through all outcomes; Theorem 1 where it holds and where not."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hcsfed import theory
from hcsfed.rng import stream
from hcsfed.select import SELECTORS, pick
from hcsfed.select.draws import inclusion, pairs
from hcsfed.types import View

SEEDS = st.integers(0, 10**6)
quick = settings(max_examples=40, deadline=None)


def some(seed, n=None, clusters=3, width=2):
    """Clients' y in clusters that have something to tell apart, of different spread."""
    rng = stream(seed, "population")
    n = n or int(rng.integers(clusters + 3, 10))
    labels = np.arange(n) % clusters
    centres, spreads = rng.normal(size=(clusters, width)), rng.gamma(1.0, size=clusters)
    return centres[labels] + spreads[labels, None] * rng.normal(size=(n, width)), labels


def with_replacement(y, m, shares=None):
    """All m-tuples of clients; each stands for the mean by 1/(m·N·p), as its probabilities p ask."""
    n = len(y)
    p = np.full(n, 1 / n) if shares is None else shares
    for ids in product(range(n), repeat=m):
        yield ids, 1 / (m * p[list(ids)]), float(np.prod(p[list(ids)]))


def stratified_law(labels, m_h):
    """All cohorts with m_h distinct clients of each cluster."""
    members = [np.flatnonzero(labels == h) for h in np.unique(labels)]
    parts = [list(combinations(ids, int(m))) for ids, m in zip(members, m_h, strict=True)]
    probability = 1 / np.prod([len(part) for part in parts])
    factors = np.concatenate([np.full(m, len(ids) / m) for ids, m in zip(members, m_h, strict=True)])
    for cohort in product(*parts):
        yield [k for ids in cohort for k in ids], factors, probability


def largest_entropy(pi, chances):
    """P(S) ∝ Π odds over all S of its size, from the probabilities of the Poisson draw behind it."""
    m = round(pi.sum())
    cohorts = list(combinations(range(len(pi)), m))
    odds = chances / (1 - chances)
    mass = np.array([np.prod(odds[list(ids)]) for ids in cohorts])
    for ids, probability in zip(cohorts, mass / mass.sum(), strict=True):
        yield ids, 1 / pi[list(ids)], float(probability)


class TestExactForms:
    @quick
    @given(SEEDS, st.data())
    def test_random(self, seed, data):
        y, _ = some(seed)
        m = data.draw(st.integers(1, len(y)))
        told = theory.enumerated(y / len(y), theory.every_subset(len(y), m))
        assert told.bias2 == pytest.approx(0, abs=1e-20)
        assert theory.random(y, m) == pytest.approx(told.variance, abs=1e-12)

    @quick
    @given(SEEDS)
    def test_cluster_where_its_fractions_are_whole(self, seed):
        y, labels = some(seed, n=9)
        for m_each in (1, 2, 3):
            told = theory.enumerated(y / 9, stratified_law(labels, [m_each] * 3))
            assert told.bias2 == pytest.approx(0, abs=1e-20)
            assert theory.cluster(y, labels, 3 * m_each) == pytest.approx(told.variance, abs=1e-12)

    @quick
    @given(SEEDS)
    def test_reallocated_where_its_fractions_are_whole(self, seed):
        # Two clusters of four whose scatters are 1 : 2, so that m = 3 makes places of 1 and 2.
        y, labels = some(seed, n=8, clusters=2)
        for h in (0, 1):
            inside = y[labels == h] - y[labels == h].mean(axis=0)
            y[labels == h] = inside / np.sqrt(theory.scatter(inside)) * (1 + h) + h
        told = theory.enumerated(y / 8, stratified_law(labels, [1, 2]))
        assert theory.reallocated(y, labels, 3) == pytest.approx(told.variance, abs=1e-12)

    @quick
    @given(SEEDS, st.data())
    def test_stratified(self, seed, data):
        y, labels = some(seed)
        m_h = np.array([data.draw(st.integers(1, int(n))) for n in np.bincount(labels)])
        told = theory.enumerated(y / len(y), stratified_law(labels, m_h))
        assert told.bias2 == pytest.approx(0, abs=1e-20)
        assert theory.stratified(y, labels, m_h) == pytest.approx(told.variance, abs=1e-12)

    @quick
    @given(SEEDS)
    def test_horvitz_thompson_and_the_pairs_of_largest_entropy(self, seed):
        rng = stream(seed, "odds")
        n = int(rng.integers(3, 8))
        m = int(rng.integers(1, n))
        chances = rng.uniform(0.05, 0.95, n)
        # π and π_kl by going through all cohorts, as nothing else is known of this law.
        law = [(ids, p) for ids, _, p in largest_entropy(np.full(n, m / n), chances)]
        present = np.zeros((len(law), n))
        for row, (ids, _) in zip(present, law, strict=True):
            row[list(ids)] = 1
        p = np.array([p for _, p in law])
        pi, joint = p @ present, present.T @ (p[:, None] * present)
        assert np.allclose(pairs(pi), joint, atol=1e-9)

        z = rng.normal(size=(n, 3))
        told = theory.enumerated(z, ((ids, 1 / pi[list(ids)], p) for ids, p in law))
        assert told.bias2 == pytest.approx(0, abs=1e-18)
        assert theory.horvitz_thompson(z, pi, joint) == pytest.approx(told.variance, rel=1e-9)
        # Weights as published: the bias is as exact as the variance.
        told = theory.enumerated(z, ((ids, np.full(m, n / m), p) for ids, p in law))
        got = theory.linear(z, np.full(n, n / m), pi, joint)
        assert (got.bias2, got.variance) == pytest.approx((told.bias2, told.variance), rel=1e-9)
        assert n == m + 1 or told.bias2 > 0

    @given(SEEDS)
    @quick
    def test_those_who_come_and_go_with_their_group(self, seed):
        """By every way in which the groups can be there, each with its own chance."""
        y, groups = some(seed)
        chances = stream(seed, "chances").uniform(0.1, 0.9, 3)
        p, z = chances[groups], y / len(y)
        law = []
        for there in product([False, True], repeat=3):
            ids = np.flatnonzero(np.array(there)[groups])
            law.append((ids, 1 / p[ids], float(np.prod(np.where(there, chances, 1 - chances)))))
        exact = theory.enumerated(z, law)
        assert exact.bias2 == pytest.approx(0, abs=1e-12)
        assert theory.horvitz_thompson(z, p, theory.grouped_pairs(p, groups)) == pytest.approx(exact.variance)
        alone = theory.horvitz_thompson(z, p, theory.grouped_pairs(p, np.arange(len(y))))
        assert theory.own(z, 1 / p, p) == pytest.approx(alone)

    def test_random_is_a_case_of_horvitz_thompson(self):
        y, _ = some(0, n=9)
        joint = theory.simple_pairs(9, 4)
        assert theory.horvitz_thompson(y / 9, np.full(9, 4 / 9), joint) == pytest.approx(theory.random(y, 4))
        assert np.allclose(joint, pairs(np.full(9, 4 / 9)))
        # Nothing divides by N − 1 = 0.
        assert theory.horvitz_thompson(y[:1], np.ones(1), theory.simple_pairs(1, 1)) == pytest.approx(0)


class TestLargeForms:
    """With divisors N and N_h, the forms that Theorem 1 compares are the variances of draws with replacement."""

    @quick
    @given(SEEDS, st.integers(1, 3))
    def test_random(self, seed, m):
        y, _ = some(seed, n=6)
        told = theory.enumerated(y / 6, with_replacement(y, m))
        assert theory.random(y, m, large=True) == pytest.approx(told.variance, rel=1e-9)

    @quick
    @given(SEEDS)
    def test_one_importance_draw_in_one_cluster_and_what_it_gains(self, seed):
        y, _ = some(seed, n=6)
        norms = np.linalg.norm(y, axis=1)
        told = theory.enumerated(y / 6, with_replacement(y, 1, norms / norms.sum()))
        one = np.zeros(6, np.int64)
        assert told.bias2 == pytest.approx(0, abs=1e-18)
        assert theory.hybrid(y, one, 1) == pytest.approx(told.variance, rel=1e-9)
        eq_11 = theory.random(y, 1, large=True) - told.variance
        assert theory.importance_gain(y) == pytest.approx(eq_11, rel=1e-9)

    @quick
    @given(SEEDS, st.integers(1, 20))
    def test_eq_9_and_10_are_identities(self, seed, m):
        y, labels = some(seed)
        n_h, s2_h = theory.scatters(y, labels, large=True)
        q, s_h = n_h / len(y), np.sqrt(s2_h)
        apart = theory.random(y, m, large=True) - theory.cluster(y, labels, m, large=True)
        assert apart == pytest.approx(theory.between(y, labels) / m, abs=1e-12)
        apart = theory.cluster(y, labels, m, large=True) - theory.reallocated(y, labels, m, large=True)
        assert apart == pytest.approx(q @ (s_h - q @ s_h) ** 2 / m, abs=1e-12)

    @quick
    @given(SEEDS)
    def test_what_eq_9_is_without_the_approximation(self, seed):
        # (N−1)/N·S² = Σ(N_h−1)/N·S_h² + ΣQ_h‖W_h − W‖²: the factors (N_h−1)/N_h may not be dropped.
        y, labels = some(seed)
        n = len(y)
        n_h, s2_h = theory.scatters(y, labels)
        whole = (n - 1) / n * theory.scatter(y)
        assert whole == pytest.approx(((n_h - 1) / n) @ s2_h + theory.between(y, labels), rel=1e-9)

    @quick
    @given(st.integers(1, 12), st.data())
    def test_theorem_1_always_holds(self, n, data):
        # Small whole numbers: ties, zeros and clusters without scatter are common.
        y = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=2 * n, max_size=2 * n)), float).reshape(n, 2)
        labels = np.unique(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), return_inverse=True)[1]
        large = [
            theory.random(y, 3, large=True),
            theory.cluster(y, labels, 3, large=True),
            theory.reallocated(y, labels, 3, large=True),
            theory.hybrid(y, labels, 3),
        ]
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(large))
        assert large[-1] >= -1e-12


class TestWhereTheoremOneFails:
    """Found by search over small whole numbers; each is exact, and the paper's form still falls."""

    def falls(self, y, labels, m):
        links = theory.chain(np.array(y, float)[:, None], np.array(labels), m)
        large = [link.large for link in links]
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(large))
        return {link.design: link for link in links}

    def test_clusters_that_tell_nothing_apart_do_harm(self):
        links = self.falls([-3, -3, 3, 3, 2, -3], [0, 1, 2, 0, 1, 2], 3)
        assert links["cluster"].exact > links["random"].exact + 1
        assert links["cluster"].whole == pytest.approx(links["cluster"].exact), "one place each: no rounding to blame"

    def test_whole_places_undo_what_reallocation_gains(self):
        links = self.falls([3, 3, 3, -3, -1, -1, -1], [0, 1, 2, 0, 1, 2, 0], 6)
        assert links["re-allocated"].whole > links["cluster"].whole + 0.04

    def test_large_norms_without_replacement_are_not_always_better(self):
        links = self.falls([3, 1, 2, -3, 3, -3, -1], [0, 1, 0, 1, 0, 1, 0], 5)
        assert links["hybrid"].whole > links["re-allocated"].whole + 0.1

    def test_fractions_beyond_a_cluster_count_as_less_than_no_variance(self):
        # A cluster of two holds all the scatter, so all 4 places are its own by the formula.
        y, labels = np.array([[-5.0], [5.0], [1.0], [1.0], [1.0], [1.0]]), np.array([0, 0, 1, 1, 1, 1])
        assert theory.reallocated(y, labels, 4) < -1
        assert {link.design: link.whole for link in theory.chain(y, labels, 4)}["re-allocated"] == pytest.approx(0)


class TestMeasured:
    N, M = 12, 4

    def view(self, y, **signals):
        n = len(y)
        weights = stream(1, "weights").dirichlet(np.full(n, 5.0))
        return View(np.full(n, 10), weights, np.ones(n, bool), **signals)

    def close(self, got, exact):
        assert abs(got.total - exact.total) < 4.5 * got.spread
        assert got.spread < 0.1 * exact.total, "an error bar that anything would fit in"
        assert abs(got.bias2 - exact.bias2) < 0.1 * exact.total

    @pytest.mark.parametrize(("name", "factor"), [("random", 3.0), ("random-shrunk", 1.0)])
    def test_random_with_its_bias(self, name, factor):
        y, _ = some(3, n=self.N)
        view = self.view(y)
        z = view.weights[:, None] * y
        pi, joint = np.full(self.N, self.M / self.N), theory.simple_pairs(self.N, self.M)
        exact = theory.linear(z, np.full(self.N, factor), pi, joint).relative(z.sum(axis=0))
        got = theory.measured(SELECTORS.build(name), view, y, self.M, 3000, stream(0, "draws"))
        self.close(got, exact)

    def test_importance(self):
        y, _ = some(4, n=self.N)
        norms = np.linalg.norm(y, axis=1)
        view = self.view(y, norms=norms)
        z = view.weights[:, None] * y
        pi = inclusion(view.weights * norms, self.M)
        exact = theory.linear(z, 1 / pi, pi, pairs(pi)).relative(z.sum(axis=0))
        got = theory.measured(SELECTORS.build("importance"), view, y, self.M, 3000, stream(0, "draws"))
        self.close(got, exact)

    @pytest.mark.parametrize("weights", ["horvitz-thompson", "published"])
    def test_hybrid(self, weights):
        # Clusters so far apart that k-means finds the same ones in every draw.
        labels = np.arange(self.N) % 3
        y = 50 * np.eye(3)[labels] + some(5, n=self.N, width=3)[0]
        norms = stream(2, "norms").gamma(2.0, size=self.N)
        y *= norms[:, None] ** 0.1
        view = self.view(y, norms=np.linalg.norm(y, axis=1), features=(np.eye(3)[labels]).astype(np.float32))
        selector = SELECTORS.build("hcsfed", clusters=3, allocation="proportional", weights=weights)
        chosen = pick(selector, view, 6, stream(0, "one"))
        factors = 1 / chosen.inclusion if weights == "horvitz-thompson" else np.full(self.N, self.N / 6)
        z = view.weights[:, None] * y
        joint = theory.clustered_pairs(chosen.inclusion, chosen.info["labels"])
        exact = theory.linear(z, factors, chosen.inclusion, joint).relative(z.sum(axis=0))
        self.close(theory.measured(selector, view, y, 6, 2000, stream(0, "draws")), exact)

    def test_everyone_is_no_error(self):
        y, _ = some(6, n=self.N)
        got = theory.measured(SELECTORS.build("full"), self.view(y), y, self.N, 3, stream(0, "draws"))
        assert got.total == pytest.approx(0, abs=1e-12)
