"""What hcsfed raises. Every message names the parameter, what is allowed, and what came.

The command line prints the message as one line and exits with code 2, so a message must be readable alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HcsfedError(Exception):
    """Something the user can mend: the message says what and how."""


class SettingError(HcsfedError, ValueError):
    """A setting that is unknown, out of its range, or does not fit the others."""


class DataError(HcsfedError, ValueError):
    """Data that is missing, broken, or does not fit what was asked of it."""


class RunFolderError(HcsfedError, OSError):
    """A run's folder that can't be read, written, or holds another run."""


class FolderInUseError(RunFolderError):
    """A run's folder that another process is writing to."""


class DivergedError(HcsfedError, ArithmeticError):
    """Training left the finite numbers."""


class FederationError(HcsfedError, RuntimeError):
    """A process of a federation that failed, or that did not do in time what was waited for."""


def bad(parameter: str, owner: str, allowed: str, got: object, remedy: str = "") -> SettingError:
    """The one sentence form: ``rate of local training must be a number > 0, got -1``."""
    sentence = f"{parameter} of {owner} must be {allowed}, got {got!r}"
    return SettingError(f"{sentence}; {remedy}" if remedy else sentence)


def unknown(kind: str, name: object, known: Iterable[str]) -> SettingError:
    """``unknown selector 'ranom'; did you mean 'random'? Known: …``."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return SettingError(f"unknown {kind} {name!r}; {hint}known: {', '.join(names)}")
