"""Who may speak to whom: a certificate authority, the server's certificate, and a key for each node.

The authority signs the one certificate and is then forgotten: its private key is never written down, so nobody can make
a second server that the nodes would believe.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hcsfed.errors import FederationError, bad

SECRET, OPEN = 0o600, 0o644


@dataclass(frozen=True)
class Certificates:
    """What the server shows (``certificate`` and ``key``), and what all others check it against (``authority``)."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class NodeKey:
    """A node's secret, and what the server is told of it."""

    private: Path
    public: Path


def certify(folder: Path, hosts: Sequence[str], *, days: int = 365) -> Certificates:
    """Make an authority and a certificate for a server that is reached by any of these names or IP addresses."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority, server = _name("hcsfed federation"), _name("hcsfed server")
    reached = x509.SubjectAlternativeName([_host(host) for host in hosts])
    known = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())

    root = (
        _draft(authority, authority, authority_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(known, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    shown = (
        _draft(server, authority, server_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(reached, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(server_key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    return Certificates(
        _write(folder / "ca.crt", root.public_bytes(Encoding.PEM), OPEN),
        _write(folder / "server.pem", shown.public_bytes(Encoding.PEM), OPEN),
        _write(folder / "server.key", _private(server_key, PrivateFormat.PKCS8), SECRET),
    )


def node_key(folder: Path, name: str) -> NodeKey:
    """Make a node's pair of keys, as ``ssh-keygen -t ecdsa -b 384`` would."""
    key = ec.generate_private_key(ec.SECP384R1())
    folder.mkdir(parents=True, exist_ok=True)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return NodeKey(
        _write(folder / name, _private(key, PrivateFormat.OpenSSH), SECRET),
        _write(folder / f"{name}.pub", public + b"\n", OPEN),
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*", host):
            raise bad("host", "a certificate", "a name or an IP address", host) from None
        return x509.DNSName(host)


def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # the machines' clocks may differ
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _write(path: Path, content: bytes, mode: int) -> Path:
    """A new file; a secret is at no moment readable by others, and nothing that is there is overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise FederationError(f"{str(path)!r} is there already and is not overwritten; give another folder") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return path
