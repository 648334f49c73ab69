"""``hcsfed study``: questions with many runs as their answer, which anyone can ask again. One command a module."""

from __future__ import annotations

import typer

from hcsfed.cli.study.adversaries import adversaries
from hcsfed.cli.study.ageing import ageing
from hcsfed.cli.study.covariance import covariance
from hcsfed.cli.study.frontier import frontier
from hcsfed.cli.study.reach import reach

app = typer.Typer(name="study", help="Questions with many runs as their answer.", no_args_is_help=True)
app.command()(frontier)
app.command()(adversaries)
app.command()(reach)
app.command()(covariance)
app.command()(ageing)
