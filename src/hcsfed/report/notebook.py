"""A run as a Jupyter notebook shows it: its figures in a small table, and test accuracy against rounds."""

from __future__ import annotations

from html import escape

from hcsfed.record import Run
from hcsfed.report.axes import Frame
from hcsfed.report.curves import curve, quality
from hcsfed.report.figures import curves_figure
from hcsfed.report.groups import group_runs
from hcsfed.report.summary import estimate, measures

FRAME = Frame(640, 260, left=44, right=16, top=28, bottom=40)
# JupyterLab's own ink where it is defined, else that of whatever the cell stands in; the blue reads on white and black.
_STYLE = """
.hcsfed-run {
  font: 13px/1.5 var(--jp-ui-font-family, system-ui, sans-serif);
  color: var(--jp-content-font-color1, inherit);
  max-width: 660px;
}
.hcsfed-run table { border-collapse: collapse; margin: 4px 0 10px; font-variant-numeric: tabular-nums; }
.hcsfed-run :is(table, tr, th, td) { border: 0; background: none; color: inherit; }
.hcsfed-run :is(th, td) { text-align: left; padding: 2px 22px 2px 0; }
.hcsfed-run th { font-weight: 400; opacity: .75; }
.hcsfed-run svg { display: block; max-width: 100%; height: auto; overflow: visible; }
.hcsfed-run text { fill: currentColor; font-size: 11.5px; opacity: .8; }
.hcsfed-run .grid { stroke: currentColor; opacity: .15; }
.hcsfed-run .axis { stroke: currentColor; opacity: .6; }
.hcsfed-run .target { stroke: currentColor; stroke-dasharray: 5 4; opacity: .6; }
.hcsfed-run .line { fill: none; stroke: #3182ce; stroke-width: 2; }
.hcsfed-run .dot { fill: #3182ce; }
"""


def html(run: Run) -> str:
    """What ``Run._repr_html_`` gives; light and dark follow the notebook."""
    (group,) = group_runs([run])
    name = escape(str(run.settings.get("selector", {}).get("name", "run")))
    planned = run.settings.get("rounds", len(run.history))
    rows = [("rounds run", f"{len(run.history)} of {planned}" if planned != len(run.history) else str(planned))]
    if run.history:
        rows += [(m.title.lower(), estimate(group, m).text(m.unit)) for m in measures([group])]
    table = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in rows)
    return (
        f'<div class="hcsfed-run"><style>{_STYLE}</style><strong>{name}</strong>'
        f"<table><tbody>{table}</tbody></table>{_figure(run)}</div>"
    )


def _figure(run: Run) -> str:
    (group,) = group_runs([run])
    what = quality([group])
    drawn = curve(group, "rounds", what)
    # Two runs in one notebook must not share an id: it is the address of the run in memory.
    return "" if drawn is None else curves_figure([drawn], "rounds", what, group.target, FRAME, f"hcsfed-{id(run):x}")
