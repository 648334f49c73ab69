"""One run of a grid as it travels to the process or machine that does it, and the contract of who does many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hcsfed.settings import Settings, merge


@dataclass(frozen=True)
class Task:
    """The settings of a run, nested, and the folder that it is left in: nothing that another machine can't read."""

    settings: Mapping[str, Any]
    folder: str

    def do(self, check: Callable[[object], object]) -> None:
        """Run it, or the rest of it. ``check`` is called before it and after each round, and stops it by raising."""
        from hcsfed.assemble import assemble
        from hcsfed.simulate import run

        check(None)
        run(assemble(merge(Settings(), self.settings)), out=Path(self.folder), resume=True, listeners=(check,))


Crew = Callable[[Sequence[Task], Path, int, Callable[[], object]], None]
"""Does all tasks: ``crew(tasks, out, jobs, waiting)``.

At most ``jobs`` at a time (0: as many as there are cores), all folders being under ``out``; ``waiting`` is called about
twice a second. Ctrl-C and the first error stop the rest, after they have saved the round under way.
"""


def use_threads(threads: int) -> None:
    """How many cores this process may use."""
    import numba
    import torch

    torch.set_num_threads(threads)
    numba.set_num_threads(min(threads, numba.get_num_threads()))
