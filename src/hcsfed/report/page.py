"""Groups of runs → one HTML file that needs nothing but itself: no address outside, readable without scripts."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from hcsfed import __version__
from hcsfed.errors import RunFolderError
from hcsfed.record import Run
from hcsfed.report import svg
from hcsfed.report.clusters import Scene
from hcsfed.report.curves import axes, curve, quality
from hcsfed.report.figures import both_widths, far_apart, readings
from hcsfed.report.groups import Group
from hcsfed.report.heatmap import MOST_COLUMNS, class_counts_of, classes_figure, columns
from hcsfed.report.panels import MOST_BARS, common_top, picks, picks_figure, stage_seconds, weighing
from hcsfed.report.scenes import MOST_MARKS, scene_figures
from hcsfed.report.story import findings, headline
from hcsfed.report.summary import interval_note, summarise
from hcsfed.report.table import front_note
from hcsfed.report.tradeoffs import left_out, tradeoffs
from hcsfed.report.whisker import whisker
from hcsfed.report.words import count, listing, number, plain, setting
from hcsfed.select import SELECTORS

STAGES = ("hear", "select", "train", "aggregate", "evaluate")
# A page with a picture per partition stays readable up to here.
MOST_PARTITIONS = 6


def write_page(runs: Sequence[Run], out: str | Path, scenes: Sequence[Scene] = ()) -> Path:
    """Write the report of these runs to one file, whole or not at all.

    ``scenes`` are clients in the plane, as :func:`look_again` finds them for the selectors of the runs.
    """
    text, out = render(runs, scenes), Path(out)
    beside = out.with_name(out.name + ".part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(out)
    except OSError as error:
        raise RunFolderError(f"cannot write the report {str(out)!r}: {error.strerror or error}") from error
    return out


def render(runs: Sequence[Run], scenes: Sequence[Scene] = ()) -> str:
    """The report of these runs as HTML."""
    from jinja2 import Environment, StrictUndefined

    here = files("hcsfed.report") / "template"
    summary = summarise(runs)
    groups = summary.groups
    what = quality(groups)
    targets = {group.target for group in groups}
    target = targets.pop() if len(targets) == 1 else None
    against = axes(groups)
    drawn = {axis: [curve(group, axis, what) for group in groups] for axis in against}
    counted = [picks(group) for group in groups]
    context: dict[str, Any] = {
        "css": (here / "page.css").read_text("utf-8").replace("/* series */", _series_css()),
        "js": (here / "page.js").read_text("utf-8"),
        "title": headline(groups),
        "findings": [_names(sentence) for sentence in findings(summary)],
        "facts": _facts(groups),
        "summary": summary,
        "note": interval_note(summary),
        "whiskers": {row.group.label: whisker(summary, row, i) for i, row in enumerate(summary.rows)},
        "meanings": _meanings(groups),
        "what": what,
        "target": target,
        "axes": against,
        "tradeoffs": tradeoffs(summary),
        "front": front_note(summary),
        "dotless": left_out(summary),
        "curves": {a: both_widths(drawn[a], a, what, target, f"curves-{a}") for a in against},
        "keys": [(g.label, svg.style(i)[0], svg.swatch(i)) for i, g in enumerate(groups)],
        "far": any(far_apart([c for c in drawn[a] if c is not None], a) for a in against),
        "cut": [g.label for g, c in zip(groups, drawn["rounds"], strict=True) if c is not None and c.cut],
        "bands": _bands(groups),
        "data": _json({"what": what, "curves": {a: readings(c) for a, c in drawn.items()}}),
        "picks": [
            (g.label, p, picks_figure(p, i, g.label, common_top(p, counted), f"picks-{i}"))
            for i, (g, p) in enumerate(zip(groups, counted, strict=True))
        ],
        "many_clients": any(len(p.times) > MOST_BARS for p in counted),
        "weighing": [(g.label, w) for g in groups if (w := weighing(g)) is not None],
        "scenes": [(scene.title, scene_figures(scene, f"plane-{i}")) for i, scene in enumerate(scenes)],
        "thinned": any(len(scene.updates) > MOST_MARKS for scene in scenes),
        "partitions": _partitions(groups),
        "stages": _stages(groups),
        "settings": _settings(groups),
        "about": _about(runs),
        "runs": [_run_line(g, run, what) for g in groups for run in g.runs],
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
    }
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"n": number, "plain": plain, "listing": listing, "count": count}
    return environment.from_string((here / "page.html.j2").read_text("utf-8")).render(context)


def _json(value: Any) -> str:
    """JSON that can stand inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _names(sentence: str) -> str:
    """Names in backticks → bold."""
    return re.sub(r"`(.+?)`", r"<b>\1</b>", escape(sentence))


def _subscripts(sentence: str) -> str:
    """ω_k and Σ_{k∈S} as they would be set."""
    return re.sub(r"_(?:\{(.+?)\}|(\w)\b)", r"<sub>\1\2</sub>", escape(sentence))


def _series_css() -> str:
    return "\n".join(f".s{i} {{ --c: light-dark({light}, {dark}); }}" for i, (light, dark) in enumerate(svg.PALETTE))


def _bands(groups: Sequence[Group]) -> str:
    sizes = {len(g.runs) for g in groups}
    if sizes == {1}:
        return "Each line is a single run, so there are no bands: add seeds to see how far chance goes."
    words = "Lines are means over seeds; "
    if max(sizes) >= 3:
        words += "bands are the 95 % t-interval of the mean at each point"
        return words + (" (smallest to largest where there are two seeds)." if 2 in sizes else ".")
    return words + "bands go from the smaller to the larger of two seeds."


def _facts(groups: Sequence[Group]) -> list[tuple[str, str]]:
    runs = [run for g in groups for run in g.runs]
    seeds = {plain(run.settings.get("seed")) for run in runs}
    told = [("Runs", str(len(runs))), ("Seeds", str(len(seeds)))]
    about = runs[0].about
    federation = about.get("federation", {})
    for words, value in (
        ("Clients", federation.get("clients")),
        ("Training rows", federation.get("rows")),
        ("Classes", federation.get("classes")),
        ("Model parameters", about.get("dimension")),
    ):
        if value:
            told.append((words, f"{int(value):,}".replace(",", "\u202f")))
    rounds = {len(run.history) for run in runs}
    told.append(("Rounds", str(rounds.pop()) if len(rounds) == 1 else f"{min(rounds)}–{max(rounds)}"))
    return told


def _meanings(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """What each selector in the report does, from its own docstring."""
    told = {}
    for group in groups:
        name = group.settings.get("selector.name")
        if isinstance(name, str) and name in SELECTORS:
            paragraph = (inspect.getdoc(SELECTORS[name]) or "").split("\n\n")[0]
            told[name] = _subscripts(" ".join(re.sub(r":\w+:|`", "", paragraph).split()))
    return list(told.items())


def _partitions(groups: Sequence[Group]) -> list[tuple[str, str, str]]:
    """A picture for each way in which the classes are dealt out; seeds deal anew, so the first run's is shown."""
    seen: dict[str, Run] = {}
    for group in groups:
        federation = group.runs[0].about.get("federation", {})
        options = {k: v for k, v in group.settings.items() if k.startswith("partition.")}
        name = str(options.pop("partition.name", ""))
        words = [str(federation.get("name", "")), name, *(setting(k, v) for k, v in options.items())]
        seen.setdefault(" · ".join(w for w in words if w), group.runs[0])
    told = []
    for i, (title, run) in enumerate(list(seen.items())[:MOST_PARTITIONS]):
        counts = class_counts_of(run.about)
        if counts is None:
            told.append((title, "", _no_classes(run)))
            continue
        cols = columns(counts)
        figure = "".join(
            classes_figure(cols, f"classes-{i}-{'narrow' if narrow else 'wide'}", narrow=narrow)
            for narrow in (False, True)
        )
        each = f"{len(counts)} clients share {MOST_COLUMNS} columns; a column is the mean of its neighbours."
        told.append((title, figure, each if cols.pooled else ""))
    return told


def _no_classes(run: Run) -> str:
    federation = run.about.get("federation", {})
    if federation.get("task") == "regression" or not federation.get("classes"):
        return "This federation has no classes."
    clients = count(int(federation.get("clients", 0)), "client")
    return f"The classes of {clients} are too many to be kept in a run’s folder."


def _stages(groups: Sequence[Group]) -> dict[str, Any]:
    spent = [stage_seconds(g) for g in groups]
    known = {stage for s in spent for stage in s}
    names = [s for s in STAGES if s in known] + sorted(known - set(STAGES))
    longest = max((sum(s.values()) for s in spent), default=0.0) or 1.0
    rows = [
        (g.label, [(n, s.get(n, 0.0), 100 * s.get(n, 0.0) / longest) for n in names], sum(s.values()))
        for g, s in zip(groups, spent, strict=True)
    ]
    # A stage has its colour, whichever others there are.
    colours = {n: STAGES.index(n) if n in STAGES else len(STAGES) for n in names}
    return {"names": names, "rows": rows, "colours": colours}


def _settings(groups: Sequence[Group]) -> dict[str, Any]:
    differing = list(groups[0].differing)
    common = {k: plain(v) for k, v in sorted(groups[0].settings.items()) if k not in differing}
    seeds = sorted({plain(s) for g in groups for s in g.seeds}, key=lambda s: (len(s), s))
    return {
        "common": {**common, "seed": ", ".join(seeds)},
        "differing": differing,
        "rows": [(g.label, [plain(g.differing[k]) if k in g.settings else "" for k in differing]) for g in groups],
    }


def _about(runs: Sequence[Run]) -> dict[str, str]:
    told: dict[str, set[str]] = {}
    for run in runs:
        versions: Mapping[str, Any] = run.about.get("versions", {})
        for name, value in (*versions.items(), ("engine", run.about.get("engine", ""))):
            if value:
                told.setdefault(name, set()).add(plain(value))
    return {name: ", ".join(sorted(values)) for name, values in told.items()}


def _run_line(group: Group, run: Run, what: str) -> dict[str, Any]:
    last = run.final_accuracy if what == "accuracy" else run.final_loss
    return {
        "label": group.label,
        "seed": plain(run.settings.get("seed")),
        "folder": run.folder.name if run.folder else "",
        "rounds": len(run.history),
        "of": run.settings.get("rounds", len(run.history)),
        "reached": None if group.target is None else run.rounds_to(group.target),
        "last": "–" if last is None else number(last, "share" if what == "accuracy" else "loss"),
        "upload": number(run.upload_bytes, "bytes"),
        "started": str(run.about.get("started", ""))[:16].replace("T", " "),
    }
