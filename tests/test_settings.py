"""Settings: the same dotted names everywhere, checked in one line."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcsfed.errors import SettingError
from hcsfed.registry import Registry
from hcsfed.settings import Settings, cohort_size, merge, parse_assignments, read_toml


def test_later_layers_win_and_dotted_equals_nested():
    nested = merge(Settings(), {"partition": {"name": "dirichlet", "alpha": 0.3}, "local": {"lr": 0.1}})
    dotted = merge(
        Settings(), {"partition": "dirichlet", "partition.alpha": 0.9, "local.lr": 1}, {"partition.alpha": 0.3}
    )
    assert nested.partition == dotted.partition
    assert (nested.local.lr, dotted.local.lr) == (0.1, 1.0)


def test_nested_tables_come_back_as_the_same_settings():
    settings = merge(Settings(), {"selector": {"name": "md"}, "cohort": 7, "local.momentum": 0.5, "target": 0.8})
    assert merge(Settings(), settings.nested()) == settings


def test_another_name_drops_the_options_of_the_first():
    first = merge(Settings(), {"partition": {"name": "dirichlet", "alpha": 0.3}})
    assert merge(first, {"partition": "iid"}).partition.options == {}
    assert merge(first, {"partition": "dirichlet"}).partition.options == {"alpha": 0.3}


def test_options_count_wherever_they_stand_beside_the_name():
    pairs = [("partition.alpha", 0.3), ("partition", "dirichlet")]
    before, after = (merge(Settings(), dict(order)) for order in (pairs, reversed(pairs)))
    assert before == after
    assert before.partition.options == {"alpha": 0.3}


def test_numbers_of_numpy_are_numbers():
    settings = merge(Settings(), {"cohort": np.int64(5), "rounds": np.int32(3), "partition.alpha": np.float32(0.5)})
    assert settings == merge(Settings(), {"cohort": 5, "rounds": 3, "partition.alpha": 0.5})
    assert json.loads(json.dumps(settings.nested()))["cohort"] == 5


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("cohort", 0, "cohort"),
        ("cohort", 1.5, "share in (0, 1]"),
        ("cohort", math.nan, "cohort"),
        ("cohort", True, "cohort"),
        ("cohort", "many", "cohort"),
        ("local.lr", -0.1, "local.lr"),
        ("local.lr", math.inf, "local.lr"),
        ("local.lr", math.nan, "local.lr"),
        ("local.steps", 0, "local.steps"),
        ("local.steps", 2.5, "local.steps"),
        ("local.momentum", 1, "local.momentum"),
        ("rounds", 0, "rounds"),
        pytest.param("rounds", 10**400, "rounds", id="more-than-a-float-can-hold"),
        ("rounds", math.inf, "rounds"),
        ("seed", -1, "seed"),
        ("target", 80, "target"),
        ("device", "tpu", "auto, cpu, cuda"),
        ("selector", 3, "selector"),
        ("slector", "md", "did you mean 'selector'"),
        ("local.stps", 1, "did you mean 'local.steps'"),
        ("rounds.x", 1, "rounds"),
    ],
)
def test_bad_settings_are_named_in_one_line(key, value, told):
    with pytest.raises(SettingError) as caught:
        merge(Settings(), {key: value})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.integers(1, 10**6), st.floats(1e-6, 1.0))
def test_a_share_is_a_count_between_one_and_all(clients, share):
    assert 1 <= cohort_size(share, clients) <= clients


def test_cohort_counts_and_shares():
    assert cohort_size(0.1, 100) == 10
    assert cohort_size(1.0, 7) == 7
    assert cohort_size(1, 7) == 1
    with pytest.raises(SettingError, match=r"\[1, 7\]"):
        cohort_size(8, 7)


def test_assignments_are_read_as_toml_else_as_text():
    table = parse_assignments(["a.b=0.3", "c=true", "d=word", "e=[1, 2]", "f='8'"])
    assert table == {"a.b": 0.3, "c": True, "d": "word", "e": [1, 2], "f": "8"}
    with pytest.raises(SettingError, match="key=value"):
        parse_assignments(["a.b"])


def test_a_broken_file_is_told_in_one_line(tmp_path):
    (tmp_path / "a.toml").write_text("rounds = [")
    for name in ("a.toml", "none.toml"):
        with pytest.raises(SettingError, match=name):
            read_toml(tmp_path / name)


def _entry(flag: bool = False, count: int = 1, rate: float = 0.5, word: str = "a", free: int | None = None) -> dict:
    return {"flag": flag, "count": count, "rate": rate, "word": word, "free": free}


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("flag", 1, "flag of thing 'entry' must be true or false, got 1"),
        ("flag", "yes", "true or false"),
        ("count", 2.5, "count of thing 'entry' must be an int, got 2.5"),
        ("count", True, "an int"),
        ("rate", "much", "rate of thing 'entry' must be a number, got 'much'"),
        ("rate", math.nan, "a number"),
        ("rate", [1], "a number"),
        ("word", 3, "word of thing 'entry' must be a word, got 3"),
        ("cuont", 3, "did you mean 'count'"),
    ],
)
def test_options_of_the_wrong_kind_are_refused_before_they_do_harm(option, value, told):
    registry: Registry[dict] = Registry("thing")
    registry.add("entry", _entry)
    with pytest.raises(SettingError, match=re.escape(told)):
        registry.build("entry", **{option: value})


def test_options_of_the_right_kind_are_handed_on():
    registry: Registry[dict] = Registry("thing")
    registry.add("entry", _entry)
    given_ = {"flag": True, "count": np.int64(3), "rate": 2, "word": "b", "free": 7}
    assert registry.build("entry", **given_) == given_
