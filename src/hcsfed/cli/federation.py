"""``hcsfed federation``: a Flower federation, with certificates and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hcsfed.errors import bad

app = typer.Typer(help="A Flower federation: certificates and keys.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    pass


@app.command()
def certify(
    folder: Annotated[Path, typer.Argument(help="A new folder for all of it.")],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="A name or an IP address by which the server is reached; repeatable. [127.0.0.1]"),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", help="How many nodes get a key.")] = 3,
    days: Annotated[int, typer.Option("--days", help="How long the certificate holds.")] = 365,
) -> None:
    """Make a certificate authority, the server's certificate, and a key for each node.

    Each file goes to the machines named beside it and to no others. The authority's own key is not kept: to change
    names or to renew, make everything anew.
    """
    from hcsfed.flower.demo.certificates import certify, node_key

    if nodes < 0:
        raise bad("nodes", "federation certify", "an int ≥ 0", nodes)
    if days < 1:
        raise bad("days", "federation certify", "an int ≥ 1", days)
    made = certify(folder, host or ["127.0.0.1"], days=days)
    where = [(made.authority, "every machine"), (made.certificate, "the server"), (made.key, "the server, secret")]
    for k in range(nodes):
        key = node_key(folder, f"node-{k}")
        where += [(key.private, f"node {k}, secret"), (key.public, "whoever registers the nodes")]
    width = max(len(str(path)) for path, _ in where)
    for path, machine in where:
        print(f"{path!s:{width}}  {machine}")
