"""Many clients cost their data and little else; importing costs nothing heavy."""

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

BUILD = """
import resource, sys
from hcsfed.data import load
rise = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
load("synthetic", clients=10, data_options={"samples_per_client": 20})
before = rise()
f = load("synthetic", clients=CLIENTS, data_options={"samples_per_client": 20, "test_rows": 1000})
print(rise() - before, sum(a.nbytes for a in (f.x, f.y, f.offsets, f.weights, f.test_x, f.test_y)))
"""

LIGHT = """
import sys
import hcsfed.data
print([m for m in ("torch", "sklearn", "pooch", "matplotlib", "PIL", "pandas", "datasets") if m in sys.modules])
"""


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_clients_cost_no_more_memory_than_their_data():
    """30,000 clients of 20 samples: the peak stays within the data's size and a few chunks."""
    peak, size = map(int, python(BUILD.replace("CLIENTS", "30_000")).split())
    assert size > 140e6
    assert peak < 1.15 * size + 30e6


def test_importing_loads_nothing_heavy():
    assert python(LIGHT).strip() == "[]"
