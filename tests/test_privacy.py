"""Noise on features in a run: what is sent, what it costs, and that nothing beside it gives the feature away."""

import json

import numpy as np
import pytest

import hcsfed
from hcsfed.asking import everyone
from hcsfed.assemble import assemble
from hcsfed.errors import SettingError
from hcsfed.features import FEATURES, Noisy, epsilon
from hcsfed.hearing import hear
from hcsfed.settings import Settings, merge
from hcsfed.simulate import rounds
from hcsfed.standing import Standing
from hcsfed.variance import errors

SMALL = {"partition.clients": 20, "cohort": 4, "rounds": 6, "local.steps": 5}
NOISE = {"privacy.noise": 3.0, "privacy.clip": 0.2, "privacy.delta": 1e-6}


def told(**settings):
    return merge(Settings(), SMALL, NOISE, settings)


def heard(settings):
    parts = assemble(settings)
    ids = np.arange(parts.federation.clients)
    start = parts.trainer.initial()
    return hear(parts, {}, start, 0, lambda some: parts.trainer.train(start, some, 0), everyone(parts)).view, ids


@pytest.mark.parametrize("selector", ["hcsfed", "cluster", "pivotal"])
def test_what_is_heard_is_noise_around_what_is_cut(selector):
    noisy, ids = heard(told(selector=selector))
    plain, _ = heard(merge(Settings(), SMALL, {"selector": selector}))
    lengths = np.linalg.norm(plain.features, axis=1, keepdims=True)
    cut = plain.features / np.maximum(lengths / 0.2, 1)
    gap = noisy.features - cut
    assert gap.std() == pytest.approx(0.6, rel=0.06)
    assert abs(gap.mean()) < 4 * 0.6 / np.sqrt(gap.size)
    assert len(noisy.features) == len(ids)


@pytest.mark.parametrize("selector", ["hcsfed", {"name": "importance", "floor": 0.1}])
def test_norms_are_those_of_the_noisy_features(selector):
    if selector == "hcsfed":
        view, _ = heard(told(selector=selector))
        assert view.norms == pytest.approx(np.linalg.norm(view.features, axis=1), rel=1e-6)
    else:
        with pytest.raises(SettingError, match=r"no features, got 3\.0; importance compares none"):
            assemble(told(selector=selector))


def test_everyone_pays_in_every_fresh_round():
    run = hcsfed.simulate("digits", selector="hcsfed", options={**SMALL, **NOISE})
    spent = [record["epsilon"] for record in run.history]
    assert spent == pytest.approx([epsilon(2 / 3, t, 1e-6) for t in range(1, 7)])
    assert run.about["epsilon_of_a_message"] == pytest.approx(spent[0])
    assert run.epsilon == spent[-1]
    assert json.dumps(run.as_json())


def test_with_stale_features_the_most_picked_has_paid_most():
    run = hcsfed.simulate("digits", selector="pivotal", options={**SMALL, **NOISE})
    messages = np.ones(20, int)  # everyone's first; who is picked in round 1 sends the same message once more
    for record in run.history:
        messages[record["ids"]] += 1
        assert record["epsilon"] == pytest.approx(epsilon(2 / 3, int(messages.max()), 1e-6))


def test_without_noise_nothing_is_counted():
    run = hcsfed.simulate("digits", selector="hcsfed", options=SMALL)
    assert {record["epsilon"] for record in run.history} == {None}
    assert run.epsilon is None


def test_the_server_remembers_noisy_features_and_their_norms_only():
    parts = assemble(told(selector={"name": "hcsfed", "features": "sketch", "refresh": "stale"}))
    *_, (_, standing) = rounds(parts, Standing.first(parts))
    kept = standing.heard
    assert isinstance(parts.feature, Noisy)
    assert kept["norms"] == pytest.approx(np.linalg.norm(kept["features"], axis=1), rel=1e-6)


def test_a_run_taken_up_has_spent_what_one_that_went_through_has(tmp_path):
    whole = hcsfed.simulate("digits", selector="pivotal", options={**SMALL, **NOISE})
    hcsfed.simulate("digits", selector="pivotal", options={**SMALL, **NOISE, "rounds": 3}, out=tmp_path / "run")
    taken = hcsfed.simulate("digits", selector="pivotal", options={**SMALL, **NOISE}, out=tmp_path / "run", resume=True)
    seen = [[(r["epsilon"], r["ids"], r["loss"]) for r in run.history] for run in (whole, taken)]
    assert seen[0] == seen[1]


def test_designs_stay_unbiased_and_lose_what_features_are_worth():
    asked = ["random", "pivotal", "pivotal:privacy.noise=100"]
    base = merge(Settings(), {"partition.clients": 40, "cohort": 8, "local.steps": 10})
    random, clear, blind = (row.error for row in errors(base, asked, [0], 300))
    assert not blind.biased
    assert clear.total < 0.5 * random.total
    assert blind.total == pytest.approx(random.total, rel=0.15)


def test_noise_of_a_run_is_that_of_every_selector_that_is_measured():
    base = merge(Settings(), {"partition.clients": 40, "cohort": 8, "local.steps": 10})
    everywhere = errors(merge(base, {"privacy.noise": 0.5}), ["pivotal"], [0], 10)
    assert [row.error for row in everywhere] == [
        row.error for row in errors(base, ["pivotal:privacy.noise=0.5"], [0], 10)
    ]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"privacy.noise": -1}, "privacy.noise of run must be a number ≥ 0, got -1"),
        ({"privacy.clip": 0}, "privacy.clip of run must be a number > 0, got 0"),
        ({"privacy.delta": 1}, r"privacy.delta of run must be a number in \(0, 1\), got 1"),
        ({"privacy.nois": 1}, "unknown setting 'privacy.nois'; did you mean 'privacy.noise'"),
        ({"selector": "random"}, "random compares none"),
    ],
)
def test_bad_settings_are_one_line(bad, message):
    with pytest.raises(SettingError, match=message) as caught:
        assemble(merge(told(), bad))
    assert "\n" not in str(caught.value)


def test_every_feature_can_be_denied():
    for name in FEATURES:
        parts = assemble(told(selector="hcsfed", features=name))
        line, _ = next(rounds(parts, Standing.first(parts)))
        assert line["epsilon"] > 0
