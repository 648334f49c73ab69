"""Whose key is whose: names that no node can take by claiming them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hcsfed.errors import DataError


def read_keys(folder: Path) -> dict[bytes, str]:
    """Public keys in Flower's own form → the names of their files, which are ``NAME.pub``."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

    names: dict[bytes, str] = {}
    for file in sorted(folder.glob("*.pub")):
        try:
            key = load_ssh_public_key(file.read_bytes())
        except (OSError, ValueError, UnsupportedAlgorithm) as error:
            raise DataError(f"cannot read the public key {str(file)!r}: {error}") from error
        names[key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)] = file.stem
    if not names:
        raise DataError(f"no public keys (NAME.pub) in {str(folder)!r}")
    return names


def named(nodes: Iterable[Any], keys: dict[bytes, str]) -> dict[int, str]:
    """Node id → the name that belongs to its key, of Flower's descriptions of nodes; others are left out."""
    return {node.node_id: keys[node.public_key] for node in nodes if node.public_key in keys}
