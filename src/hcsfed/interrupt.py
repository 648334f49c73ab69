"""Ctrl-C that waits for the round under way to be saved; a second one does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def gentle() -> Iterator[Callable[[object], None]]:
    """A listener that ends the run, by KeyboardInterrupt, after a round in which Ctrl-C was pressed."""
    asked = threading.Event()

    def ask(signum: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    def check(record: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
