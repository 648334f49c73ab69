"""``kill -9`` at any moment loses at most the round under way, and the run goes on to the very same numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PLACES = ("before the line", "inside the line", "before the checkpoint", "inside the checkpoint")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    script = Path(__file__).with_name("killing.py")
    place = tmp_path_factory.mktemp("kill")
    done = subprocess.run([sys.executable, script, place], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_twenty_times_at_random_moments_it_ends_with_the_same_numbers(told):
    assert told["random"]


def test_no_kill_costs_more_than_the_round_under_way(told):
    assert told["lost"] <= 1


def test_rows_on_disk_are_whole_after_eight_kills_and_after_one_in_the_middle_of_a_row(told):
    assert told["rows at random"]
    assert told["inside a row"]
    assert told["rows lost"] <= 1


@pytest.mark.parametrize("place", PLACES)
def test_killed_at_chosen_places_of_the_writing(told, place):
    assert told[place]
