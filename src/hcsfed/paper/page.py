"""All of it as one HTML page: tables, figures and verdicts, with nothing outside the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from hcsfed.errors import RunFolderError
from hcsfed.paper.claims import claims, summary
from hcsfed.paper.draw import draw
from hcsfed.paper.preset import Experiment
from hcsfed.paper.show import UNMEASURED, Table, tables
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import table as verdicts

_CSS = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1.5rem; }
table { display: block; overflow-x: auto; }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #8884; vertical-align: top; }
th:first-child, td:first-child, .words td, .words th { text-align: left; }
th, td { white-space: nowrap; }
.words td { white-space: normal; }
.verdicts td:nth-child(3) { min-width: 8em; font-weight: 600; }
figure { margin: 1rem 0; background: #fff; overflow-x: auto; }
figure svg { max-width: 100%; height: auto; }
h2 { margin-top: 3rem; }
"""


def write_page(
    asked: Sequence[Experiment], store: Store, seeds: int, folder: Path, pictures: Path | None = None
) -> Path:
    """Write the page and its figures into a folder, and return the page; ``pictures`` holds those drawn before."""
    body = [f"<h1>{escape('The HCSFed paper, its figures beside ours')}</h1>", _about(store)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if len(asked) > 1:
            body.append(_table(summary(asked, store, seeds), "words"))
        for one in asked:
            title = f"{one.source[0].upper()}{one.source[1:]}: {one.title}"
            body.append(f'<h2 id="{one.name}">{escape(title)}</h2><p>{_code(one.note)}</p>')
            if found := claims(one.name, store, seeds):
                body.append(_table(verdicts(found), "words verdicts"))
            drawn = draw(one, store, seeds, folder)
            if one.show == "picture" and pictures:
                drawn += sorted(pictures.glob(f"{one.name}-*.svg"))
            body += [_figure(path) for path in drawn]
            shown = tables(one, store, seeds)
            body += [_table(table) for table in shown] if shown else [f"<p>{UNMEASURED}</p>"]
        page = folder / "index.html"
        links = " · ".join(f'<a href="#{one.name}">{one.name}</a>' for one in asked)
        head = f'<meta charset="utf-8"><title>The HCSFed paper</title><style>{_CSS}</style>'
        head += '<meta name="viewport" content="width=device-width">'
        whole = f'<!doctype html><html lang="en">{head}<p>{links}</p>{"".join(body)}</html>'
        page.write_text(whole, encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot write the report {str(folder)!r}: {error.strerror or error}") from error
    return page


def _about(store: Store) -> str:
    return "".join(f"<p>{escape(key)}: {escape(str(value))}</p>" for key, value in store.about.items())


def _code(text: str) -> str:
    return re.sub(r"`(.+?)`", r"<code>\1</code>", escape(text))


def _table(table: Table, kind: str = "") -> str:
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    return f'<h3>{escape(table.title)}</h3><table class="{kind}"><tr>{head}</tr>{rows}</table>'


def _figure(path: Path) -> str:
    """An SVG file inside the page; ids are made its own, for those of two figures must not meet."""
    svg = re.sub(r"^.*?(?=<svg)", "", path.read_text("utf-8"), flags=re.DOTALL)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{path.stem}-", svg)
    return f"<figure>{svg}</figure>"
