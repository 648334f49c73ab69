"""A SuperLink and its SuperNodes on loopback."""

from __future__ import annotations

import random
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from hcsfed.flower.demo.certificates import Certificates, NodeKey, certify, node_key
from hcsfed.flower.demo.flwr import Flwr
from hcsfed.flower.demo.processes import Processes, Started, quiet_environment, wait

HOST = "127.0.0.1"
UP, ONLINE = 120.0, 300.0  # seconds that the server and the nodes are given, on a machine that has much else to do
PORTS = range(20000, 32000)  # below those from which systems take the ports of outgoing connections

KEYS = "keys"


def node_name(number: int) -> str:
    """By which the server knows a node."""
    return f"node-{number}"


@dataclass
class Loopback:
    """A federation under way.

    Parameters
    ----------
    certificates
        None where nothing is encrypted and every node is let in.
    database
        In which the server keeps what a restarted one is to know; None: in its memory.
    nodes
        By their number: the share of the data that each holds.
    """

    folder: Path
    processes: Processes
    flwr: Flwr
    port: int
    certificates: Certificates | None
    database: Path | None
    size: int
    superlink: Started = field(init=False)
    nodes: dict[int, Started] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def serve(self) -> None:
        """Start the server, and wait until it listens."""
        command = superlink_command(self.port, self.certificates, self.database)
        self.superlink = self.processes.start("superlink", command)
        wait("the SuperLink to listen", UP, lambda: listening(self.superlink.pid, self.port), need=[self.superlink])

    def join(self, number: int, key: NodeKey | None) -> Started:
        """Start a node; with a key that the server was not told of, it will be refused."""
        name = node_name(number)
        command = [
            "flower-supernode",
            *("--superlink", self.address),
            *("--host", HOST, "--port", str(free_port())),
            *("--node-config", f'name="{name}" partition-id={number} num-partitions={self.size}'),
        ]
        if self.certificates is None:
            command.append("--insecure")
        else:
            command += ["--root-certificates", str(self.certificates.authority)]
        if key is not None:
            command += ["--auth-supernode-private-key", str(key.private)]
        return self.processes.start(f"super{name}", command)

    def wait_online(self) -> None:
        """Wait until the server knows all nodes that were started."""
        need = [self.superlink, *self.nodes.values()]

        def online() -> bool:
            return sum(status == "online" for status in self.flwr.nodes().values()) == len(self.nodes)

        wait(f"{len(self.nodes)} nodes to be online", ONLINE, online, need=need, every=1.5)

    def kill(self, number: int, *, hard: bool = False) -> None:
        """End a node, in good order or at once."""
        node = self.nodes.pop(number)
        self.processes.end(node, signal.SIGKILL if hard else signal.SIGTERM)
        wait(f"{node.name} to end", 30, lambda: not node.running)


@contextmanager
def loopback(
    folder: Path, nodes: int, programs: Path, *, secure: bool = True, database: Path | None = None
) -> Iterator[Loopback]:
    """Start a server and its nodes; when the block is left, all of it ends."""
    environment = quiet_environment(folder / "flower", programs)
    certificates = certify(folder / "certificates", [HOST, "localhost"]) if secure else None
    port = free_port()
    flwr = Flwr.connect(environment, f"{HOST}:{port}", certificates.authority if certificates else None)
    with Processes(folder / "logs", environment) as processes:
        federation = Loopback(folder, processes, flwr, port, certificates, database, nodes)
        federation.serve()
        for number in range(nodes):
            key = node_key(folder / KEYS, node_name(number)) if secure else None
            if key is not None:
                flwr.register(key.public)
            federation.nodes[number] = federation.join(number, key)
        federation.wait_online()
        yield federation


@contextmanager
def engine(folder: Path, programs: Path) -> Iterator[Flwr]:
    """Flower's simulation engine, whose Ray listens on loopback only; when the block is left, all of it ends."""
    environment = quiet_environment(folder / "flower", programs) | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    port = free_port()
    with Processes(folder / "logs", environment) as processes:
        superlink = processes.start("superlink", [*superlink_command(port, None), "--simulation"])
        wait("the SuperLink to listen", UP, lambda: listening(superlink.pid, port), need=[superlink])
        yield Flwr.connect(environment, f"{HOST}:{port}", None)


def superlink_command(port: int, certificates: Certificates | None, database: Path | None = None) -> list[str]:
    """How the server is started; with a database, a restarted one knows its nodes and runs."""
    command = ["flower-superlink", "--host", HOST, "--port", str(port)]
    if certificates is None:
        command.append("--insecure")
    else:
        command += ["--ssl-ca-certfile", str(certificates.authority), "--ssl-certfile", str(certificates.certificate)]
        command += ["--ssl-keyfile", str(certificates.key), "--enable-supernode-auth"]
    return command + (["--database", str(database)] if database else [])


def free_port() -> int:
    """A port that nobody listens on; random, so that two federations that start together don't try the same ones."""
    draws = random.SystemRandom()  # no result depends on it
    while True:
        port = draws.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def listening(pid: int, port: int) -> bool:
    """Whether this process listens there, and not one that was quicker to take the port."""
    try:
        connections = psutil.Process(pid).net_connections("inet")
    except psutil.Error:
        return False
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)
