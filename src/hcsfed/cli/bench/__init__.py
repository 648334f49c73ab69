"""``hcsfed bench``: figures that anyone can measure again. One command a module."""

from __future__ import annotations

import typer

from hcsfed.cli.bench.engine import engine
from hcsfed.cli.bench.flower import flower
from hcsfed.cli.bench.memory import memory
from hcsfed.cli.bench.select import select
from hcsfed.cli.bench.startup import startup
from hcsfed.cli.bench.wire import wire

app = typer.Typer(name="bench", help="Measure hcsfed, beside its peers where that says more.", no_args_is_help=True)
app.command()(engine)
app.command()(flower)
app.command()(memory)
app.command()(select)
app.command()(startup)
app.command()(wire)
