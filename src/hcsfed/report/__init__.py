"""Runs → summary with intervals → figures → one self-contained HTML page."""

from __future__ import annotations

from hcsfed.report.clusters import Scene, draw_clusters, plane
from hcsfed.report.groups import Group, group_runs
from hcsfed.report.page import render, write_page
from hcsfed.report.scenes import look_again
from hcsfed.report.spread import draw_errors
from hcsfed.report.summary import Summary, summarise
from hcsfed.report.table import summary_table

__all__ = [
    "Group",
    "Scene",
    "Summary",
    "draw_clusters",
    "draw_errors",
    "group_runs",
    "look_again",
    "plane",
    "render",
    "summarise",
    "summary_table",
    "write_page",
]
