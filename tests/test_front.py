"""The Pareto front, against going through all pairs, and what table and page make of it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fake_runs as fake
from hcsfed.report import render, summarise
from hcsfed.report.front import stairs, undominated
from hcsfed.report.table import front_note
from hcsfed.report.tradeoffs import PHONE, Box, left_out, marks, tradeoffs

COSTS = st.lists(st.tuples(*[st.integers(0, 4) | st.just(math.nan)] * 3), min_size=1, max_size=8)


@given(COSTS)
def test_nobody_on_the_front_is_beaten_and_everybody_else_is(rows):
    def beats(a, b):
        return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))

    whole = [row for row in rows if not any(map(math.isnan, row))]
    expected = [row in whole and not any(beats(other, row) for other in whole) for row in rows]
    assert undominated(np.array(rows, float)).tolist() == expected


def test_the_edge_goes_down_at_each_point_of_the_front_and_then_along():
    x, y = [3.0, 1.0, 2.0, 4.0], [1.0, 5.0, 6.0, 2.0]  # the last two are beaten
    assert stairs(x, y, 9, 8) == [(1, 8), (1, 5), (3, 5), (3, 1), (9, 1)]
    assert stairs([], [], 1, 1) == []


def runs(**costs):
    """A group by name: its rounds to the target, a round's upload and local steps, and seconds if there is a clock."""
    made = []
    for name, (rounds, upload, steps, *seconds) in costs.items():
        for seed in range(2):
            run = fake.run(name, seed, rounds=20)
            for record in run.history:
                record["accuracy"] = 0.9 if record["round"] >= rounds else 0.1
                record |= {"upload_bytes": upload, "local_steps": steps, "server_bytes": 1000 + seed}
                record["simulated_seconds"] = seconds[0] if seconds else None
            made.append(run)
    return made


THREE = {"few": (4, 100, 100), "cheap": (8, 10, 20), "worse": (9, 10, 20), "never": (99, 1, 1)}


def fronts(made):
    return {row.group.label: row.front for row in summarise(made).rows}


def test_who_misses_the_target_is_not_on_the_front_whatever_it_saved():
    assert fronts(runs(**THREE)) == {"few": True, "cheap": True, "worse": False, "never": False}


def test_time_counts_where_all_have_a_clock():
    slow = {"few": (4, 10, 10, 9.0), "swift": (5, 10, 10, 1.0)}
    assert fronts(runs(**slow)) == {"few": True, "swift": True}
    mixed = {**slow, "swift": (5, 10, 10)}
    assert fronts(runs(**mixed)) == {"few": True, "swift": False}
    assert "simulated time" in front_note(summarise(runs(**slow)))
    assert "simulated time" not in front_note(summarise(runs(**mixed)))


def test_targets_that_differ_are_not_compared_and_one_group_has_no_rivals():
    made = runs(few=(4, 10, 10), more=(5, 20, 20))
    assert fronts(made) == {"few": True, "more": False}
    assert fronts(made[:2]) == {"few": False}
    for run in made[2:]:
        run.settings["target"] = 0.5
    assert fronts(made) == {"few": False, "more": False}
    assert tradeoffs(summarise(made[:2])) == []


def test_the_page_has_a_picture_for_each_cost_with_a_dot_for_whoever_got_there():
    summary = summarise(runs(**THREE))
    drawn = tradeoffs(summary)
    assert [title for title, _ in drawn] == ["Rounds to target against upload", "Rounds to target against local steps"]
    assert left_out(summary) == ["never"]
    for _, picture in drawn:
        for one in picture.split("<svg")[1:]:
            assert len(re.findall(r'class="dot"', one)) == 2
            assert len(re.findall(r'class="dot behind"', one)) == 1
            assert ">cheap</text>" in one
            assert "On the edge: few and cheap." in one
    assert "No dot, as some run missed the target: never." in render(runs(**THREE))
    assert len(tradeoffs(summarise(runs(few=(4, 10, 10, 9.0), swift=(5, 10, 10, 1.0))))) == 3


def test_dots_lie_where_their_means_are_and_names_cover_no_dot():
    many = {f"selector-{i}": (3 + i, 100 + 30 * i, 50 + (7 * i) % 11) for i in range(12)}
    _, picture = tradeoffs(summarise(runs(**many)))[0]
    phone = picture.split("<svg")[2]
    dots = np.array(re.findall(r'<circle[^>]*cx="([\d.]+)" cy="([\d.]+)"', phone), float)
    assert len(dots) == 12
    assert (np.diff(dots[:, 0]) > 0).all()
    assert (np.diff(dots[:, 1]) < 0).all()
    names = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)" class="end-label">([^<]+)<', phone)
    assert len(names) >= 10
    boxes = []
    for x, y, anchor, name in names:
        left = float(x) - 7.4 * len(name) * (anchor == "end")
        boxes.append(Box(left, left + 7.4 * len(name), float(y) - 11, float(y) + 3))
    for i, box in enumerate(boxes):
        assert box.left >= PHONE.left - 1
        assert box.right <= PHONE.width
        assert not any(box.meets(Box(x - 5, x + 5, y - 5, y + 5)) for x, y in dots)
        assert not any(box.meets(other) for other in boxes[:i])


@pytest.mark.parametrize(
    ("low", "high", "unit", "wanted"),
    [
        (1, 100, "rounds", [1, 3, 10, 30, 100]),
        (9, 14, "rounds", [9, 10, 11, 12, 13, 14]),
        (100, 400, "seconds", [120, 180, 240, 300, 360]),
    ],
)
def test_short_axes_have_marks_too(low, high, unit, wanted):
    assert marks(low, high, 6, unit) == wanted
