"""``hcsfed study``: questions with many runs as their answer, which anyone can ask again. One command a module."""

from __future__ import annotations

import typer

from hcsfed.cli.study.frontier import frontier

app = typer.Typer(name="study", help="Questions with many runs as their answer.", no_args_is_help=True)
app.command()(frontier)


@app.callback()
def _root() -> None:  # a command of its own name even while it is the only one
    pass
