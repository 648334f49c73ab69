"""A federation's server that is killed in mid-run goes on at the next round, as if nothing had happened."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flower_killing import KILLS, ROUNDS, RUNS


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    script = Path(__file__).with_name("flower_killing.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path_factory.mktemp("killed"))], capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("selector", RUNS)
def test_killed_at_random_moments_it_ends_with_the_same_history_and_the_same_memories(told, selector):
    assert len(told[selector]["killed"]) == KILLS
    assert all(0 < done < ROUNDS for done in told[selector]["killed"])
    assert told[selector]["history"]
    assert told[selector]["memories"]
