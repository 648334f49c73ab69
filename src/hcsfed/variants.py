"""Selectors as one writes them in a list: ``random,hcsfed,hcsfed:features=sketch:allocation=eq6``.

A selector's name, then options of its own, each after a colon. An option with a dot in its name is a setting of the
run instead: ``hcsfed:features.size=128``, ``random:local.mu=0.1``. Nothing in it needs quoting in a shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hcsfed.errors import SettingError, bad
from hcsfed.select import SELECTORS, Selector
from hcsfed.settings import Settings, merge, parse_value


@dataclass(frozen=True)
class Variant:
    """A selector with what was said about it.

    Parameters
    ----------
    label
        As it was written, without spaces.
    name, options
        Of the selector.
    others
        Settings of the run, by dotted names.
    """

    label: str
    name: str
    options: Mapping[str, Any]
    others: Mapping[str, Any]

    @property
    def slug(self) -> str:
        """The label as part of a file's name."""
        return re.sub(r"[^\w.=-]", "+", self.label)

    def over(self, settings: Settings) -> Settings:
        """These settings with this selector."""
        return merge(settings, {"selector": {"name": self.name, **self.options}}, self.others)

    def build(self, settings: Settings) -> Selector:
        """The selector itself, with the options that ``settings`` hold for it too."""
        choice = self.over(settings).selector
        return SELECTORS.build(choice.name, **choice.options)


def variant(text: str) -> Variant:
    """Read one, and refuse what the selector does not take."""
    name, *assignments = (part.strip() for part in text.split(":"))
    given: dict[str, Any] = {}
    label = [name]
    for assignment in assignments:
        key, sign, value = (part.strip() for part in assignment.partition("="))
        if not sign or not key:
            raise SettingError(f"an option of selector {name!r} must be key=value as in {name}:key=value, got {text!r}")
        if key in given:
            raise SettingError(f"option {key!r} of selector {name!r} is given twice in {text!r}")
        given[key] = parse_value(value)
        label.append(f"{key}={value}")
    options = {key: value for key, value in given.items() if "." not in key}
    others = {key: value for key, value in given.items() if "." in key}
    SELECTORS.build(name, **options)
    return Variant(":".join(label), name, options, others)


def variants(text: str, owner: str) -> list[Variant]:
    """Read a list separated by commas; who is named twice counts once."""
    found = [variant(part) for part in _split(text) if part.strip()]
    if not found:
        raise bad("selectors", owner, "names separated by commas", text)
    return list({one.label: one for one in found}.values())


def _split(text: str) -> list[str]:
    """At commas, but not at those inside brackets, which are a value's own: ``[12, 16]``."""
    return re.split(r",(?![^\[]*\])", text)
