"""Promises of the project itself: cheap imports, pinned packages, versions that agree, nothing tied to a machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hcsfed

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Makes the optional packages as good as absent, and their absence what the import system itself would report.
BLOCK = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
OPTIONAL = {
    "torch", "numba", "safetensors", "pooch", "psutil",  # sim
    "jinja2", "matplotlib",  # report
    "mlflow", "tensorboard", "sqlalchemy", "alembic",  # track
    "flwr", "ray",
}  # fmt: skip


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, **env}
    )


def base_install(code: str) -> subprocess.CompletedProcess[str]:
    """Run code as it would run where only the base dependencies are installed."""
    return python(BLOCK.format(absent=OPTIONAL) + code)


def command(*arguments: str) -> str:
    return f"import sys; sys.argv = {['hcsfed', *arguments]!r}\nfrom hcsfed.cli.main import main; main()"


def test_import_is_cheap_and_without_torch():
    timed = """
import sys, time
start = time.perf_counter()
import hcsfed
print(time.perf_counter() - start, "torch" in sys.modules, "numpy" in sys.modules)
"""
    seconds, torch, numpy = min(python(timed).stdout.split() for _ in range(3))
    assert float(seconds) < 0.3
    assert (torch, numpy) == ("False", "False")


@pytest.mark.parametrize("module", ["hcsfed.select", "hcsfed.features", "hcsfed.types", "hcsfed.settings"])
def test_selection_never_loads_torch(module):
    done = python(f"import sys, {module}; print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_base_install_selects():
    code = """
import numpy as np
from hcsfed.select import SELECTORS, pick
from hcsfed.types import View
n = 20
view = View(sizes=np.full(n, 5), weights=np.full(n, 1 / n), available=np.ones(n, bool))
print(len(pick(SELECTORS.build("random"), view, 4, np.random.default_rng(0)).ids))
import hcsfed.features
"""
    done = base_install(code)
    assert done.stdout.strip() == "4", done.stderr


def test_base_install_shows_help():
    done = base_install(command("--help"))
    assert done.returncode == 0, done.stderr
    assert "compare" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["run", "--rounds", "1"], "sim"),
        (["compare", "--selectors", "random"], "sim"),
        (["study", "frontier"], "sim"),
        (["variance", "--selectors", "random"], "sim"),
        (["bench", "select", "--only", "hundred"], "sim"),
        (["data", "show", "--out", "a.png"], "report"),
    ],
)
def test_base_install_names_the_extra(arguments, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = base_install(command(*arguments))
    assert done.returncode == 2
    assert f"hcsfed[{extra}]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_constraints_are_names_and_versions_only():
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line), line


def test_constraints_cover_every_wanted_package():
    wanted = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
    names = {normal(re.match(r"[A-Za-z0-9._-]+", requirement).group()) for requirement in wanted}
    assert names - {"hcsfed"} <= {normal(name) for name in pins()}


def test_tests_run_with_the_pinned_numpy_and_torch():
    """A constraint that the environment does not hold to would say nothing about what was tested."""
    import numpy
    import torch

    assert numpy.__version__ == pins()["numpy"]
    assert torch.__version__.split("+")[0] == pins()["torch"]


def test_version_is_the_same_everywhere():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^## \[?{re.escape(hcsfed.__version__)}\b", changelog, re.MULTILINE)
    assert re.search(rf'^version: "?{re.escape(hcsfed.__version__)}"?$', citation, re.MULTILINE)


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_knows_this_machine():
    """Paths and package hosts of one machine are of no use on another. Only .ci/run may look beside the checkout."""
    machine = re.compile(
        r"(?<![\w.])/(?:work|opt|root|home)/\w|\.\./shared|https?://[\w.-]*(?:pypi|pythonhosted|pytorch)\b"
    )
    found = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if name in (".ci/run", "tests/test_project.py"):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name}:{i}" for i, line in enumerate(text.splitlines(), 1) if machine.search(line)]
    assert not found


def test_workflow_runs_the_same_commands():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "bash .ci/run" in workflow
    assert "make demo" in workflow
    # What is skipped where these packages are missing is run where they are.
    assert "flwr-datasets faiss-cpu" in workflow
