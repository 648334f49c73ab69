"""What a federation on loopback is made of: certificates that hold, and processes that end to the last grandchild."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from hcsfed.cli.main import main
from hcsfed.errors import FederationError
from hcsfed.flower.demo.certificates import certify, node_key
from hcsfed.flower.demo.federation import PORTS, free_port, listening
from hcsfed.flower.demo.processes import MARK, Processes, wait

# A process that ends on SIGTERM, and has started one that has left its session and does not.
STUBBORN = """
import signal, subprocess, sys, time
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
time.sleep(600)
"""


def shake_hands(server, authority: Path, host: str) -> None:
    """A server with this certificate is spoken to by a client that trusts this authority, strictly."""
    there, here = socket.socketpair()
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(server.certificate, server.key)

    def serve() -> None:
        try:
            with accepting.wrap_socket(there, server_side=True) as connection:
                connection.recv(1)
        except (ssl.SSLError, OSError):
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    trusting = ssl.create_default_context(cafile=authority)
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        with trusting.wrap_socket(here, server_hostname=host) as connection:
            connection.send(b"x")
    finally:
        here.close()
        thread.join(10)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3"])
def test_the_server_is_believed_under_each_of_its_names(tmp_path, host):
    made = certify(tmp_path, ["127.0.0.1", "localhost", "10.1.2.3"])
    shake_hands(made, made.authority, host)


def test_nobody_else_is_believed(tmp_path):
    ours, theirs = certify(tmp_path / "ours", ["127.0.0.1"]), certify(tmp_path / "theirs", ["127.0.0.1"])
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(theirs, ours.authority, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(ours, ours.authority, "127.0.0.2")


def test_secrets_are_their_owners_alone_and_never_overwritten(tmp_path):
    made, key = certify(tmp_path, ["127.0.0.1"]), node_key(tmp_path, "node-0")
    for secret in (made.key, key.private):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    with pytest.raises(FederationError, match=r"ca\.crt.*is there already"):
        certify(tmp_path, ["127.0.0.1"])
    with pytest.raises(FederationError, match=r"node-0.*is there already"):
        node_key(tmp_path, "node-0")


def test_a_node_key_is_a_pair_on_the_curve_that_flower_takes(tmp_path):
    key = node_key(tmp_path, "node-0")
    private = load_ssh_private_key(key.private.read_bytes(), None)
    assert private.curve.name == "secp384r1"
    assert private.public_key() == load_ssh_public_key(key.public.read_bytes())


def marked(mark: str) -> list[int]:
    """Processes that bear a mark, by a look of our own at the system's table."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_the_last_grandchild_ends_however_the_block_is_left(tmp_path, monkeypatch, error):
    monkeypatch.setattr("hcsfed.flower.demo.processes.GRACE", 0.5)
    try:
        with Processes(tmp_path, os.environ) as processes:
            one = processes.start("stubborn", [sys.executable, "-c", STUBBORN])
            wait("the grandchild", 20, lambda: "up" in one.log.read_text(), need=[one])
            assert len(marked(processes.mark)) == 2
            if error:
                raise error
    except (RuntimeError, KeyboardInterrupt):
        assert error
    assert marked(processes.mark) == []


def test_sigterm_to_the_starter_leaves_nothing_behind(tmp_path):
    code = """
    import os, sys, time
    from pathlib import Path
    from hcsfed.flower.demo.processes import Processes, told_to_end
    with told_to_end(), Processes(Path(sys.argv[1]), os.environ) as processes:
        processes.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"])
        print(processes.mark, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as starter:
        mark = starter.stdout.readline().strip()
        assert marked(mark)
        starter.send_signal(signal.SIGTERM)
        assert starter.wait(20) != 0
    assert marked(mark) == []


def test_a_process_that_ends_is_named_with_its_last_words(tmp_path):
    with Processes(tmp_path, os.environ) as processes:
        one = processes.start(
            "node", [sys.executable, "-c", "print('\\x1b[92mno such key\\x1b[0m'); raise SystemExit(3)"]
        )
        with pytest.raises(FederationError, match=r"node ended with exit code 3 .*node\.log' says: no such key$"):
            wait("the node", 20, lambda: False, need=[one])


def test_no_wait_is_without_end():
    before = time.monotonic()
    with pytest.raises(FederationError, match="0 seconds in vain for nothing"):
        wait("nothing", 0.3, lambda: False, every=0.05)
    assert time.monotonic() - before < 5


def test_a_free_port_is_free(monkeypatch):
    port = free_port()
    assert port in PORTS
    assert not listening(os.getpid(), port)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert listening(os.getpid(), number)
        assert not listening(os.getppid(), number)
        monkeypatch.setattr("hcsfed.flower.demo.federation.PORTS", [number, port])
        assert {free_port() for _ in range(20)} == {port}


@pytest.fixture
def hcsfed(monkeypatch, capsys):
    """The command line → exit code, what it printed, what it complained of."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hcsfed", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def test_certify_says_which_file_goes_where(hcsfed, tmp_path):
    code, said, _ = hcsfed("federation", "certify", str(tmp_path), "--host", "10.1.2.3", "--nodes", "2")
    files = {Path(line.split()[0]).name: line for line in said.splitlines()}
    assert code == 0
    assert list(files) == ["ca.crt", "server.pem", "server.key", "node-0", "node-0.pub", "node-1", "node-1.pub"]
    assert [name for name, line in files.items() if "secret" in line] == ["server.key", "node-0", "node-1"]
    code, _, complaint = hcsfed("federation", "certify", str(tmp_path))
    assert code == 1
    assert "is there already" in complaint


@pytest.mark.parametrize("flags", [["--nodes", "-1"], ["--days", "0"], ["--host", "no host"], ["--host", ""]])
def test_certify_refuses_what_cannot_be(hcsfed, tmp_path, flags):
    code, _, complaint = hcsfed("federation", "certify", str(tmp_path / "keys"), *flags)
    assert code == 2
    assert len(complaint.splitlines()) == 1
    assert not (tmp_path / "keys").exists()
