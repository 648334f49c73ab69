"""Where published files lie on this machine, and how they are read: ``HCSFED_DATA``, then the user's cache.

What is read is always checked against the digest of its contents, so a broken or different file never becomes data.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hcsfed.errors import DataError

VARIABLE = "HCSFED_DATA"


@dataclass(frozen=True)
class Published:
    """One published file (or archive of files).

    Parameters
    ----------
    folders
        Names of the folder it may lie in, below ``HCSFED_DATA`` or the cache; the first is the one written to.
    name
        The file as it is published.
    urls
        Where it is published, the preferred place first.
    digest
        Of the published file, ``"md5:…"``.
    contents
        The files that it holds once unpacked → their digests.
    size
        Bytes to download, roughly.
    together
        All published files of the same set, where it has several.
    """

    folders: tuple[str, ...]
    name: str
    urls: tuple[str, ...]
    digest: str
    contents: Mapping[str, str]
    size: int
    together: tuple[str, ...] = ()


def cache() -> Path:
    """The user's cache folder for downloads."""
    try:
        import pooch
    except ImportError:
        return Path.home() / ".cache" / "hcsfed"
    return Path(pooch.os_cache("hcsfed"))


def roots() -> Iterator[Path]:
    """Folders that are looked into, in this order."""
    if os.environ.get(VARIABLE):
        yield Path(os.environ[VARIABLE]).expanduser()
    yield cache()


def find(published: Published) -> dict[str, Path] | None:
    """Where each content file lies (plain or with ``.gz``), or None where one is missing."""
    for root in roots():
        for folder in published.folders:
            places = {member: _place(root / folder / member) for member in published.contents}
            if all(places.values()):
                return {member: path for member, path in places.items() if path}
    return None


def _place(path: Path) -> Path | None:
    packed = path.with_name(path.name + ".gz")
    return next((p for p in (path, packed) if p.is_file()), None)


def read(published: Published, member: str) -> bytes:
    """The contents of one file, fetched if it is on neither disk place, and checked."""
    places = find(published)
    if places is None:
        from hcsfed.data.fetch import fetch

        places = fetch(published)
    path = places[member]
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; delete it to have it fetched again") from error
    if not matches(raw, published.contents[member]):
        raise DataError(f"{path} is not the published file (its checksum differs); delete it to have it fetched again")
    return raw


def matches(raw: bytes, digest: str) -> bool:
    algorithm, _, value = digest.partition(":")
    return hashlib.new(algorithm, raw, usedforsecurity=False).hexdigest() == value
