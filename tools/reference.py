"""Write docs/reference from the code: the command line, the settings, the names that settings take, the Python names.

``python tools/reference.py`` writes the pages; ``--check`` only says which of them are no longer what the code says.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

import hcsfed
from hcsfed import settings
from hcsfed.cli.main import app
from hcsfed.registry import Registry

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make reference`; change the code, not this page. -->\n"
# Modules that are public although they say so by their names alone, not by an `__all__`.
PLAIN = ("types", "updates", "settings", "errors", "rng", "theory", "variance", "variants")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; bars and line ends in a cell would break it."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in line) + " |\n" for line in lines)


def code(value: object) -> str:
    return f"`{value}`"


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: roles and double backquotes become code."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", inspect.cleandoc(docstring or ""))
    return text.replace("``", "`")


def first_sentence(docstring: str | None) -> str:
    return " ".join(prose(docstring).split("\n\n")[0].split())


def parameters(docstring: str | None) -> dict[str, str]:
    """What a docstring's Parameters section says of each name; ``a, b`` before a text speaks of both."""
    lines = prose(docstring).partition("Parameters\n----------\n")[2].splitlines()
    found: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.split(",")]
        for name in names if line.startswith(" ") else ():
            found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found


# The command line


def commands(parent: typer.Typer, name: str) -> Iterator[tuple[str, Callable[..., Any] | None, str]]:
    """Every command below a typer application: full name, function, help. Read off typer's own records."""
    root = parent.registered_callback
    yield name, root.callback if root else None, text_or_empty(parent.info.help)
    for command in parent.registered_commands:
        function = command.callback
        assert function is not None
        word = command.name or function.__name__.replace("_", "-")
        yield f"{name} {word}", function, command.help or function.__doc__ or ""
    for group in parent.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, f"{name} {group.name}")


def text_or_empty(value: object) -> str:
    """Typer wraps what was not given in an object of its own."""
    return value if isinstance(value, str) else ""


def takes(hint: Any) -> str:
    """What a value is, in the words of someone who types it."""
    inner = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is list:
        return takes(inner[0]) + ", repeatable"
    if get_origin(hint) is Literal:
        return ", ".join(inner)
    words = {str: "text", int: "integer", float: "number", Path: "path", bool: ""}
    return takes(inner[0]) if inner else words[hint]


def described(help: str, default: Any) -> str:
    """A flag's help with its default, in place of another one that it has where several commands share it."""
    if default is None or default is False or default == "":
        return help
    alone = re.sub(r" \[[^]]*\]$", "", help)
    return f"{alone} [{default}]"


def cli_page() -> str:
    parts = [NOTE, "# The command line\n"]
    for name, function, text in commands(app, "hcsfed"):
        arguments, options, rows = [], [], []
        for word, (hint, info, default) in typed_parameters(function).items():
            shown = described(text_or_empty(info.help), default)
            if isinstance(info, typer.models.ArgumentInfo):
                arguments.append(word.upper() + "…" * (get_origin(hint) is list))
                rows.append([code(arguments[-1]), takes(hint), shown])
            else:
                # In an Annotated option the first flag stands where the default would.
                flags = [flag for flag in (info.default, *(info.param_decls or ())) if isinstance(flag, str)]
                options.append("[OPTIONS]")
                rows.append([code(", ".join(flags) or "--" + word.replace("_", "-")), takes(hint), shown])
        usage = " ".join([name, *dict.fromkeys(options), *arguments])
        parts.append(f"## {name}\n\n```text\n{usage}\n```\n\n{prose(text)}\n")
        if rows:
            parts.append(table(["option", "takes", "what"], rows))
    return "\n".join(parts)


def typed_parameters(function: Callable[..., Any] | None) -> dict[str, tuple[Any, Any, Any]]:
    """Name → (type, typer's info, default) of a command's function."""
    if function is None:
        return {}
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function).parameters
    found = {}
    for name, hint in hints.items():
        if name in signature and get_origin(hint) is Annotated:
            kind, info = get_args(hint)[:2]
            default = signature[name].default
            found[name] = (kind, info, None if default is inspect.Parameter.empty else default)
    return found


# Settings


def settings_page() -> str:
    parts = [
        NOTE,
        "# Settings\n",
        "The same dotted names stand in TOML tables (`--config`), in `--set name=value` and in Python "
        "(`simulate(..., options={name: value})`). A setting that names a thing takes that thing's options below its "
        "own name, as in `partition.alpha=0.3`: [names and options](names.md).\n",
    ]
    for title, prefix, cls in (
        ("A run", "", settings.Settings),
        ("Local training", "local.", settings.LocalTraining),
        ("Reach", "reach.", settings.Reach),
        ("Privacy", "privacy.", settings.Privacy),
    ):
        hints, about = get_type_hints(cls), parameters(cls.__doc__)
        rows = []
        for field in dataclasses.fields(cls):
            if field.name in settings.SECTIONS:
                continue
            default = field.default
            value = default.name if isinstance(default, settings.Choice) else default
            rows.append(
                [
                    code(prefix + field.name),
                    kind(hints[field.name], prefix + field.name),
                    code(value),
                    about[field.name],
                ]
            )
        parts += [f"## {title}\n", table(["setting", "allowed", "default", "what"], rows)]
    return "\n".join(parts)


def kind(hint: Any, name: str) -> str:
    if name in settings._RANGES:
        return settings._RANGES[name][0]
    if hint is settings.Choice:
        return "a [name](names.md)"
    if name == "cohort":
        return "a share in (0, 1] or a count ≥ 1"
    return ", ".join(code(choice) for choice in getattr(hint, "__args__", ()))


# Names and their options


def registries() -> dict[str, Registry[Any]]:
    """Every table of names that a public module shows."""
    found = {}
    for module in public_modules():
        for value in vars(module).values():
            if isinstance(value, Registry):
                found.setdefault(value.kind, value)
    return dict(sorted(found.items()))


def default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    return "none" if value is None else code(f"{value:.6g}" if isinstance(value, float) else value)


def selector_row(name: str, factory: Any) -> list[str]:
    claims = factory().claims  # they may follow from settings: here, from the defaults
    return [
        "yes" if claims.unbiased else "no",
        "yes" if claims.fixed_size else "no",
        ", ".join(sorted(claims.needs)) or "nothing",
        "all" if claims.trains == "all" else "the picked",
    ]


EXTRA_COLUMNS: dict[str, tuple[list[str], Callable[[str, Any], list[str]]]] = {
    "selector": (["unbiased", "fixed size", "needs", "who trains"], selector_row),
}


def names_page() -> str:
    parts = [
        NOTE,
        "# Names and options\n",
        "What `--data`, `--selector` and their like take, each with the options of its own.\n",
    ]
    for title, registry in registries().items():
        columns, more = EXTRA_COLUMNS.get(title, ([], lambda name, factory: []))
        rows = []
        for name in registry:
            factory = registry[name]
            options = [f"{code(o)} = {default(p)}" for o, p in registry.options(name).items()]
            what = first_sentence(factory.__doc__)
            rows.append([code(name), what, *more(name, factory), "<br>".join(options)])
        heading = title[0].upper() + title[1:]
        parts += [f"## {heading}\n", table(["name", "what", *columns, "options and defaults"], rows)]
    return "\n".join(parts)


# Python


def public_modules() -> list[ModuleType]:
    """The modules that are meant to be imported: those with an ``__all__``, and the plain ones."""
    found = []
    for entry in pkgutil.iter_modules(hcsfed.__path__):
        if entry.name == "cli":
            continue
        source = Path(entry.module_finder.path, entry.name, "__init__.py") if entry.ispkg else None
        listed = source is not None and "__all__" in source.read_text(encoding="utf-8")
        if listed or entry.name in PLAIN or entry.name == "simulate":
            found.append(importlib.import_module(f"hcsfed.{entry.name}"))
    return found


def public_names(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__ and callable(v)]
    return sorted(n for n in own if not n.startswith("_"))


def home_of(value: Any) -> str | None:
    """The public module that a class or a function of ours lives below; None for anything else."""
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
    documentable = inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)
    return home.split(".")[1] if documentable and home.startswith("hcsfed.") else None


def python_pages() -> dict[str, str]:
    """A page a module; a name that several modules show stands on the page of the module it lives below."""
    pages = {}
    for module in public_modules():
        short = module.__name__.removeprefix("hcsfed.")
        lines = [NOTE, f"# {module.__name__}\n", prose(module.__doc__) + "\n"]
        for name in public_names(module):
            value = getattr(module, name)
            if isinstance(value, Registry):
                lines.append(f"- `{name}`: every {value.kind} by its name, see [names and options](../names.md)\n")
            elif home_of(value) not in (None, short):
                lines.append(f"- `{name}`: see [hcsfed.{home_of(value)}]({home_of(value)}.md)\n")
            else:
                lines.append(f"::: {module.__name__}.{name}\n")
        pages[f"python/{short}.md"] = "\n".join(lines)
    homes = {name: home_of(getattr(hcsfed, name)) for name in hcsfed.__all__}
    top = [f"- `hcsfed.{name}`: see [hcsfed.{home}]({home}.md)\n" for name, home in homes.items() if home]
    pages["python/index.md"] = "\n".join([NOTE, "# hcsfed\n", prose(hcsfed.__doc__) + "\n", "".join(top)])
    return pages


def pages() -> dict[str, str]:
    """Every generated page by its path below docs/reference."""
    return {"cli.md": cli_page(), "settings.md": settings_page(), "names.md": names_page(), **python_pages()}


def stale() -> list[str]:
    """Pages that are missing, left over, or not what the code says."""
    wanted = pages()
    there = {p.relative_to(FOLDER).as_posix(): p.read_text(encoding="utf-8") for p in FOLDER.rglob("*.md")}
    left_over = [name for name, text in there.items() if name not in wanted and text.startswith(NOTE)]
    return sorted([name for name, text in wanted.items() if there.get(name) != text] + left_over)


def main() -> int:
    changed = stale()
    if "--check" in sys.argv[1:]:
        print("\n".join(f"docs/reference/{name} is stale: run `make reference`" for name in changed))
        return 1 if changed else 0
    wanted = pages()
    for name in changed:
        path = FOLDER / name
        if name not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[name], encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
