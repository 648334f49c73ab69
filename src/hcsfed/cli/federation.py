"""``hcsfed federation``: a Flower federation, with certificates and keys."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from hcsfed.errors import bad

app = typer.Typer(help="A Flower federation: certificates and keys, and one to try out.", no_args_is_help=True)


@app.command()
def demo(
    nodes: Annotated[int, typer.Option("--nodes", help="How many SuperNodes.")] = 6,
    rounds: Annotated[int, typer.Option("--rounds", help="How many rounds.")] = 3,
    refresh: Annotated[
        str, typer.Option("--refresh", help="fresh: everyone trains in every round; stale: the picked alone.")
    ] = "fresh",
    insecure: Annotated[bool, typer.Option("--insecure", help="Without TLS and node keys.")] = False,
    kill: Annotated[int, typer.Option("--kill", help="How many nodes end in mid-run, by SIGTERM.")] = 0,
    kill_hard: Annotated[
        bool, typer.Option("--kill-hard", help="By SIGKILL, which Flower notices after a minute; at least one node.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> None:
    """Train on a Flower federation of real processes on this machine, and check what comes of it.

    Everything listens on loopback only and nothing is asked of the network. It ends with exit code 0 only if the run
    was completed with the cohorts, weights and model that it should have; whatever happens, no process is left.
    """
    import json

    from hcsfed.errors import FederationError

    if not 2 <= nodes <= 50:
        raise bad("nodes", "federation demo", "an int in [2, 50]", nodes)
    if not 1 <= rounds <= 1000:
        raise bad("rounds", "federation demo", "an int in [1, 1000]", rounds)
    if refresh not in ("fresh", "stale"):
        raise bad("refresh", "federation demo", "fresh or stale", refresh)
    if not 0 <= kill < nodes:
        raise bad("kill", "federation demo", f"an int in [0, {nodes - 1}], one less than there are nodes", kill)
    kill = kill or int(kill_hard)
    if kill and rounds == 1:
        raise bad("rounds", "federation demo", "2 or more where nodes are killed after the first", rounds)
    for module in ("flwr", "torch", "safetensors"):
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)
    from hcsfed.cli.show_demo import as_table, told
    from hcsfed.flower.demo.story import Demo, show

    asked = Demo(nodes, rounds, refresh, not insecure, kill, kill_hard)
    try:
        outcome = show(asked, Path(sys.executable).parent, told(quiet=as_json))
    except KeyboardInterrupt:
        print("hcsfed: interrupted; all processes have ended", file=sys.stderr)
        raise SystemExit(130) from None
    if as_json:
        print(json.dumps(outcome.as_json()))
    else:
        as_table(outcome)
    if outcome.verdict.complaint:
        raise FederationError(outcome.verdict.complaint)


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
