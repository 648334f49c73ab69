"""Docstrings as the site should show them: an extension of griffe, which reads them for mkdocstrings.

Roles such as ``:class:`~hcsfed.types.View``` become code, and parameters that share a text (``refresh, max_age``) each
get it for themselves, since otherwise all of them would be shown with the type and default of the first.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":\w+:`~?([^`]+)`")
HEADING = "Parameters\n----------\n"


class Docstrings(griffe.Extension):
    """Called for each object that has a docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = apart(ROLE.sub(r"`\1`", obj.docstring.value))


def apart(text: str) -> str:
    """``a, b`` before a text → a with the text, then b with the text."""
    before, heading, section = text.partition(HEADING)
    if not heading:
        return text
    lines: list[str] = []
    names: list[str] = []
    body: list[str] = []

    def flush() -> None:
        for name in names:
            lines.extend([name, *body])

    rest = section.splitlines()
    for i, line in enumerate(rest):
        if line and not line.startswith(" "):
            if i + 1 < len(rest) and rest[i + 1].startswith("---"):  # the next section
                flush()
                return before + heading + "\n".join(lines + rest[i:])
            flush()
            names, body = line.split(", "), []
        else:
            body.append(line)
    flush()
    return before + heading + "\n".join(lines)
