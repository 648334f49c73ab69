"""The command ``hcsfed``: one line and exit code 2 for what the user can mend, 1 for what failed, 130 for Ctrl-C."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, TextIO, cast

import typer

from hcsfed import __version__
from hcsfed.cli import bench, data, federation, study
from hcsfed.cli.compare import compare
from hcsfed.cli.paper import paper
from hcsfed.cli.picture import picture
from hcsfed.cli.report import report
from hcsfed.cli.run import run
from hcsfed.cli.variance import variance
from hcsfed.errors import DivergedError, FederationError, HcsfedError

# What the parser raises, by its public child: typer brings its own click by now, and Flower holds typer before that.
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__bases__[0])

app = typer.Typer(
    name="hcsfed",
    help="Which few clients should answer this round? Simulate, compare and report client selection.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(compare)
app.command()(report)
app.command()(variance)
app.command()(picture)
app.command()(paper)
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(study.app, name="study")
app.add_typer(federation.app, name="federation")


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


EXTRAS = {
    "torch": "sim",
    "numba": "sim",
    "safetensors": "sim",
    "pooch": "sim",
    "jinja2": "report",
    "matplotlib": "report",
    "cryptography": "flower",
    "flwr": "flower",
    "ray": "ray",
}
INTERRUPTED = "interrupted; what was finished is saved"


def main() -> None:
    warnings.showwarning = _warn
    sys.exit(_main())


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings in one line, like errors; those of others as Python shows them."""
    if Path(filename).is_relative_to(Path(__file__).parents[1]):
        print(f"hcsfed: {' '.join(str(message).split())}", file=sys.stderr)
    else:
        print(warnings.formatwarning(message, category, filename, lineno), end="", file=sys.stderr)


def _main() -> int:
    try:
        code = app(standalone_mode=False) or 0
        # The parser turns Ctrl-C into its own exit.
        return _fail(INTERRUPTED, 130) if code == 130 else code
    except HcsfedError as error:
        return _fail(str(error), 1 if isinstance(error, DivergedError | FederationError) else 2)
    except UsageError as error:
        return _fail(error.format_message(), 2)
    except (KeyboardInterrupt, typer.Abort):
        return _fail(INTERRUPTED, 130)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        return _fail(f"this command needs {error.name}; install it with: pip install 'hcsfed[{extra}]'", 2)
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _fail(message: str, code: int) -> int:
    print(f"hcsfed: {' '.join(message.split())}", file=sys.stderr)
    return code
