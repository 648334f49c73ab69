"""What README and site say is so: blocks run, flags exist, links lead somewhere, the reference is the code's."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hcsfed.assemble import assemble
from hcsfed.grid import cells
from hcsfed.report import summarise
from hcsfed.settings import Settings, merge
from hcsfed.simulate import run

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = [page for page in PAGES if "reference" not in page.parts]  # by people
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def reference():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str, bool]]:
    """Language, text, and whether the block stands right after the one before."""
    text, end, found = page.read_text(encoding="utf-8"), 0, []
    for fence in FENCE.finditer(text):
        found.append((fence[1].strip(), fence[2], not text[end : fence.start()].strip()))
        end = fence.end()
    return found


@pytest.mark.parametrize("page", [p for p in WRITTEN if any(b[0] == "python" for b in blocks(p))], ids=name)
def test_python_blocks_run_and_print_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {"__name__": "docs"}
    printed = None
    for language, text, adjacent in blocks(page):
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, name(page), "exec", dont_inherit=True), session)
            printed = out.getvalue()
        elif language == "text" and adjacent and printed is not None:
            assert printed.split() == text.split()


def commands() -> Iterator[tuple[str, str]]:
    for page in WRITTEN:
        for language, text, _ in blocks(page):
            if language not in ("sh", "console", "bash"):
                continue
            for line in text.replace("\\\n", " ").splitlines():
                words = line.removeprefix("$ ").strip()
                if words.startswith("hcsfed "):
                    yield name(page), words


def test_commands_in_shell_blocks_exist_with_their_flags():
    page = reference().cli_page()
    sections = {s.partition("\n")[0].strip(): s for s in page.split("\n## ")[1:]}
    known = {
        title: set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text)) | {"--help"} for title, text in sections.items()
    }
    for where, line in commands():
        words = shlex.split(line, comments=True)
        command = next((" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in known), None)
        assert command is not None, f"{where}: {line}"
        flags = {word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1}
        assert flags <= known[command], f"{where}: {line}"


def test_generated_reference_is_current():
    assert reference().stale() == [], "run `make reference`"


def test_the_readmes_figures_are_those_of_make_demo():
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    selectors = re.search(r"^SELECTORS \?= (.*)$", made, re.M).group(1)
    assert "--seeds 3 --rounds 60 --target 0.8 --out" in made
    base = merge(Settings(), {"rounds": 60, "target": 0.8})
    runs = [run(assemble(cell.settings)) for cell in cells(base, selectors.split(","), range(3))]
    readme = re.sub(r"\*\*", "", (ROOT / "README.md").read_text(encoding="utf-8"))
    for row in summarise(runs).rows:
        rounds, upload, steps = (
            re.sub(r"\s", " ", row.estimates[m].text(unit).partition(" (")[0])
            for m, unit in (("rounds", "rounds"), ("upload", "bytes"), ("steps", "steps"))
        )
        interval = row.estimates["rounds"].interval("rounds")
        rounds = f"{rounds} ({interval})" if interval else rounds.replace("> ", "not within ")
        line = next(line for line in readme.splitlines() if line.startswith("|") and f"`{row.group.label}`" in line)
        assert line.split(" | ")[1:] == [rounds, upload, f"{steps} |"]


def test_every_name_that_a_setting_takes_says_what_it_is():
    said = (ROOT / "docs" / "reference" / "names.md").read_text(encoding="utf-8")
    entries = [line.split(" | ") for line in said.splitlines() if line.startswith("| `")]
    assert len(entries) > 50
    told = [entry[1] for entry in entries]
    assert all(len(words) > 10 for words in told)
    assert len(set(told)) == len(told), "no two say the same"
    assert not any("partial(" in words for words in told)


def test_the_site_shows_no_roles_and_each_parameter_with_its_own_default():
    griffe = pytest.importorskip("griffe")
    assert "extensions: [tools/docstrings.py]" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    extensions = griffe.load_extensions(str(ROOT / "tools" / "docstrings.py"))
    package = griffe.load("hcsfed", search_paths=[str(ROOT / "src")], extensions=extensions, docstring_parser="numpy")

    def documented(thing):
        if thing.docstring is not None:
            yield thing
        for member in thing.members.values():
            if not member.is_alias:
                yield from documented(member)

    found = list(documented(package))
    assert len(found) > 500
    assert [
        thing.path for thing in found if re.search(r":(class|func|data|meth|mod|attr):", thing.docstring.value)
    ] == []
    hybrid = package["select.hybrid.Hybrid"]
    section = next(s for s in hybrid.docstring.parsed if s.kind.value == "parameters")
    shown = {p.name: (str(p.annotation), str(p.value)) for p in section.value}
    assert shown["max_share"] == ("float", "0.5")
    assert shown["min_share"] == ("float", "0.1")


def test_every_public_name_has_a_docstring():
    module = reference()
    bare = []
    for public in module.public_modules():
        assert public.__doc__, public.__name__
        for attribute in module.public_names(public):
            value = getattr(public, attribute)
            documentable = inspect.isfunction(value) or inspect.isclass(value)
            # A dataclass without a docstring gets its signature as one.
            if documentable and (not value.__doc__ or value.__doc__.startswith(f"{value.__name__}(")):
                bare.append(f"{public.__name__}.{attribute}")
    assert not bare


def test_every_public_name_stands_in_the_reference():
    module = reference()
    text = "".join(module.pages().values())
    for public in module.public_modules():
        for attribute in module.public_names(public):
            assert f"::: {public.__name__}.{attribute}\n" in text or f"- `{attribute}`: " in text, attribute


def slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_internal_links_resolve(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name(page)} → {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(h) for h in headings}, f"{name(page)} → {target}"


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = set(re.findall(r"([\w/-]+\.md)", menu))
    assert listed == {p.relative_to(ROOT / "docs").as_posix() for p in PAGES if "docs" in p.relative_to(ROOT).parts}
