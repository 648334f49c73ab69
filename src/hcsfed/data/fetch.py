"""Downloads that can break off at any moment: resumed where they stopped, checked, and only then given their name.

Bytes collect in ``NAME.part``; when the last has come the file passes pooch's checksum and is renamed. A part survives
the process and the mirror: another place is asked for the rest, for the checksum knows whether the whole is right.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import http.client
import logging
import os
import sys
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hcsfed.data.files import VARIABLE, Published, cache, find, matches, roots
from hcsfed.errors import DataError

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes that there will be (0: unknown)."""

_BLOCK = 1 << 18
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def fetch(
    published: Published,
    *,
    urls: Sequence[str] | None = None,
    to: Path | None = None,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Find the file's contents on this machine, or download them into the user's cache.

    Parameters
    ----------
    urls
        Other places than the published ones.
    to
        Another folder than the user's cache.
    progress
        Called as bytes come in; by default a bar is shown where standard error is a terminal.
    """
    found = find(published) if to is None else None
    if found:
        return found
    folder = (cache() if to is None else to) / published.folders[0]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f".{published.name}.lock"):
            found = find(published) if to is None else None  # another process may have brought it meanwhile
            if found:
                return found
            archive = _archive(published) if to is None else None
            if archive is None:
                archive = _download(published, urls or published.urls, folder, timeout, progress)
            return _unpack(published, archive, folder)
    except OSError as error:
        raise DataError(f"cannot write {published.name} to {folder}: {error.strerror or error}") from error


def _download(
    published: Published, urls: Sequence[str], folder: Path, timeout: float, progress: Progress | None
) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise DataError(_remedy(published, "downloading it needs pooch (pip install 'hcsfed[sim]')")) from error
    part = folder / f"{published.name}.part"
    reasons = []
    with _bar(published, progress) as shown, _quiet(pooch.get_logger()):

        def bring(url: str, target: Any, _: Any) -> None:
            resume(url, part, timeout, shown)
            os.replace(part, target)

        for url in urls:
            place = url.split("/")[2] if "//" in url else url
            restarted = False
            while True:
                had = _size(part)
                try:
                    return Path(pooch.retrieve(url, published.digest, published.name, folder, downloader=bring))
                except ValueError:  # the checksum differs, and the bytes are gone
                    reasons.append(f"{place}: wrong checksum")
                    if not had or restarted:
                        break
                    restarted = True  # the fault may be in what was there before
                except urllib.error.HTTPError as error:
                    reasons.append(f"{place}: HTTP {error.code}")
                    break
                except (OSError, http.client.HTTPException) as error:
                    if isinstance(error, OSError) and error.errno in _DISK:  # this machine's fault, not the mirror's
                        raise
                    reasons.append(f"{place}: {_reason(error)}")
                    if _size(part) <= had:  # asked again for the rest as long as something comes
                        break
    raise DataError(_remedy(published, f"could not be downloaded ({'; '.join(dict.fromkeys(reasons))})"))


def resume(url: str, part: Path, timeout: float, progress: Progress) -> None:
    """Bring the rest of a file into ``part``; raises where the connection ends before the file does."""
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "hcsfed"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is left to bring; the checksum says whether that is right
        raise
    with answer:
        if answer.status != http.client.PARTIAL_CONTENT:
            have = 0  # the server sends the whole
        rest = int(answer.headers.get("Content-Length") or 0)
        total = have + rest if rest else 0
        with part.open("r+b" if have else "wb") as file:
            file.seek(have)
            while block := answer.read(_BLOCK):
                file.write(block)
                have += len(block)
                progress(have, total)
    if have < total:
        raise http.client.IncompleteRead(b"", total - have)


def _archive(published: Published) -> Path | None:
    """An archive that somebody has put where its contents belong."""
    places = (root / folder / published.name for root in roots() for folder in published.folders)
    return next((path for path in places if _is_archive(path) and path.is_file()), None)


def _is_archive(path: Path) -> bool:
    return path.name.endswith(".tar.gz")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _unpack(published: Published, path: Path, folder: Path) -> dict[str, Path]:
    """An archive's files, each renamed into place when it is whole and right; other files are read as they are."""
    if not _is_archive(path):
        return dict.fromkeys(published.contents, path)
    wrong = f"{path} is not the published archive; delete it to have it fetched again"
    try:
        with tarfile.open(path) as archive:
            inside = {Path(member.name).name: member for member in archive if member.isfile()}
            for name, digest in published.contents.items():
                stream = archive.extractfile(inside[name]) if name in inside else None
                raw = stream.read() if stream else b""
                if not matches(raw, digest):
                    raise DataError(wrong)
                part = folder / f"{name}.part"
                part.write_bytes(raw)
                os.replace(part, folder / name)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(wrong) from error
    if path.parent == folder:
        path.unlink()
    return {name: folder / name for name in published.contents}


def _remedy(published: Published, reason: str) -> str:
    where = Path(os.environ.get(VARIABLE) or cache()) / published.folders[0]
    names, place = published.together or (published.name,), published.urls[0].rpartition("/")[0]
    return f"{published.name} is missing and {reason}; put {', '.join(names)} (from {place}) into {where}"


def _reason(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "connection broke off"
    cause = getattr(error, "reason", None) or error
    return str(getattr(cause, "strerror", None) or cause)


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _bar(published: Published, progress: Progress | None) -> Iterator[Progress]:
    if progress is not None:
        yield progress
    elif not sys.stderr.isatty():
        yield lambda have, total: None
    else:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task(published.name, total=published.size)
            yield lambda have, total: bar.update(task, completed=have, total=total or published.size)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time write a part, where the system can lock files."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
