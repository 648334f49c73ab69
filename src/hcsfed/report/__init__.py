"""Runs → summary with intervals → figures → one self-contained HTML page."""

from __future__ import annotations

from hcsfed.report.page import page, write_page
from hcsfed.report.summary import Group, Summary, group_runs, summarise
from hcsfed.report.table import summary_table

__all__ = ["Group", "Summary", "group_runs", "page", "summarise", "summary_table", "write_page"]
