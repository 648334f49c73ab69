"""Write constraints.txt: every package of every extra, as one resolver run picked them, and how they fit together.

``python tools/pin.py`` makes a throw-away environment, so what happens to be installed does not leak into the pins.
PyTorch stays at the version named here: its next release is taken on purpose, not by accident.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
HEAD = "# Every package of every extra, pinned. Written by `make constraints`; pyproject.toml says what is wanted.\n"
# They belong to PyTorch's CUDA builds, which pin them themselves.
NOT_OURS = ("nvidia-", "cuda-", "triton", "hcsfed")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-q", TORCH, "hatchling", "editables", f"{ROOT}[all]"], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
    pins = [line.split("+")[0] for line in frozen.splitlines() if "==" in line and not line.startswith(NOT_OURS)]
    (ROOT / "constraints.txt").write_text(HEAD + "\n".join(sorted(pins, key=str.lower)) + "\n")
    print(f"{len(pins)} packages pinned for Python {sys.version_info.major}.{sys.version_info.minor}")


if __name__ == "__main__":
    main()
