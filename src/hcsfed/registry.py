"""Names that users write (``--selector md``) → the object that does it, with its options checked by its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

from hcsfed.errors import SettingError, bad, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """A table from names to factories (classes or functions). Options are the factory's keyword parameters."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Callable[..., T]] = {}

    def add(self, name: str, factory: Callable[..., T]) -> None:
        self._entries[name] = factory

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Callable[..., T]:
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def options(self, name: str) -> dict[str, inspect.Parameter]:
        """The keyword options of an entry: parameters with a default (the others are the stage's own inputs)."""
        parameters = inspect.signature(self[name]).parameters.values()
        return {p.name: p for p in parameters if p.default is not p.empty}

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Refuse options that the entry does not take, and values of another kind than its default."""
        known = self.options(name)
        for option, value in options.items():
            if option not in known:
                if not known:
                    raise SettingError(f"{self.kind} {name!r} takes no options, got {option!r}")
                raise unknown(f"option of {self.kind} {name!r}:", option, known)
            wanted = _wanted(known[option].default, value)
            if wanted:
                raise bad(option, f"{self.kind} {name!r}", wanted, value)

    def build(self, name: str, *inputs: Any, **options: Any) -> T:
        self.check(name, options)
        return self[name](*inputs, **options)


def _wanted(default: object, value: object) -> str:
    """What a value should be to stand in for the default; nothing where it is. Ranges are for the entry to check."""
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        return "" if isinstance(value, str) else "a word"
    number = isinstance(value, Real) and not isinstance(value, bool) and value == value  # NaN is no number
    if isinstance(default, int):
        return "" if number and isinstance(value, Integral) else "an int"
    if isinstance(default, float):
        return "" if number else "a number"
    return ""
