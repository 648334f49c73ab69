"""Downloads against a server on this machine that lies, breaks off and dies."""

import errno
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
from pathlib import Path

import pytest

from hcsfed.data import files, load
from hcsfed.data.fetch import fetch
from hcsfed.data.files import Published, find, read
from hcsfed.errors import DataError

pytest.importorskip("pooch")

BODY = bytes(range(256)) * 5000  # 1.28 MB
BROKEN = BODY[:-1] + b"?"


class Server(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.bodies = {"/ok": BODY, "/cut": BODY, "/plain": BODY, "/corrupt": BROKEN}

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    """``/cut`` breaks off after a third, the first three times; ``/plain`` knows no ranges and breaks off once."""

    def do_GET(self):
        wanted = self.headers.get("Range")
        times = sum(path == self.path for path, _ in self.server.asked)
        self.server.asked.append((self.path, wanted))
        if self.path not in self.server.bodies:
            self.send_error(404)
            return
        body = self.server.bodies[self.path]
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.path != "/plain" else 0
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        breaks = times < {"/cut": 3, "/plain": 1}.get(self.path, 0)
        self.wfile.write(body[start : start + len(body) // 3] if breaks else body[start:])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def empty_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("HCSFED_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(files, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr("hcsfed.data.fetch.cache", lambda: tmp_path / "cache")


def md5(raw: bytes) -> str:
    return "md5:" + hashlib.md5(raw, usedforsecurity=False).hexdigest()


def published(*urls: str, body: bytes = BODY, name: str = "rows.bin") -> Published:
    return Published(("set",), name, urls, md5(body), {name: md5(body)}, len(body))


def left_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".lock"))


def test_a_file_is_brought_once_and_then_found(server, tmp_path):
    file = published(server.url("/ok"))
    assert find(file) is None
    assert read(file, "rows.bin") == BODY
    assert read(file, "rows.bin") == BODY
    assert len(server.asked) == 1
    assert left_in(tmp_path) == ["rows.bin"]


def test_the_users_own_folder_comes_first(server, tmp_path):
    (tmp_path / "mine/set").mkdir(parents=True)
    (tmp_path / "mine/set/rows.bin.gz").write_bytes(gzip.compress(BODY))
    assert read(published(server.url("/ok")), "rows.bin") == BODY
    assert not server.asked


def test_a_corrupted_mirror_is_passed_over(server, tmp_path):
    file = published(server.url("/corrupt"), server.url("/ok"))
    assert read(file, "rows.bin") == BODY
    assert [path for path, _ in server.asked] == ["/corrupt", "/ok"]
    assert left_in(tmp_path) == ["rows.bin"]


def test_a_corrupted_file_never_becomes_data(server, tmp_path):
    with pytest.raises(DataError, match=r"127\.0\.0\.1:\d+: wrong checksum"):
        fetch(published(server.url("/corrupt")))
    assert left_in(tmp_path) == []


def test_a_cut_off_file_is_resumed_where_it_stopped(server, tmp_path):
    assert read(published(server.url("/cut")), "rows.bin") == BODY
    third = len(BODY) // 3
    assert server.asked == [("/cut", None), *(("/cut", f"bytes={i * third}-") for i in (1, 2, 3))]
    assert left_in(tmp_path) == ["rows.bin"]


def test_a_server_without_ranges_starts_over(server):
    assert read(published(server.url("/plain")), "rows.bin") == BODY
    assert len(server.asked) == 2


def test_another_mirror_brings_the_rest(server, tmp_path):
    folder = tmp_path / "cache/set"
    folder.mkdir(parents=True)
    (folder / "rows.bin.part").write_bytes(BODY[:1000])  # left by a process that was killed
    assert read(published(server.url("/gone"), server.url("/ok")), "rows.bin") == BODY
    assert server.asked[-1] == ("/ok", "bytes=1000-")


@pytest.mark.parametrize("left", [b"rubbish", BROKEN, BODY + b"more"])
def test_a_broken_part_is_thrown_away_and_the_mirror_asked_again(server, tmp_path, left):
    folder = tmp_path / "cache/set"
    folder.mkdir(parents=True)
    (folder / "rows.bin.part").write_bytes(left)
    assert read(published(server.url("/ok")), "rows.bin") == BODY
    assert server.asked[-1] == ("/ok", None)
    assert left_in(tmp_path) == ["rows.bin"]


def test_a_whole_part_needs_only_its_checksum(server, tmp_path):
    folder = tmp_path / "cache/set"
    folder.mkdir(parents=True)
    (folder / "rows.bin.part").write_bytes(BODY)
    assert read(published(server.url("/ok")), "rows.bin") == BODY


def test_offline_says_what_to_put_where_in_one_line(tmp_path):
    dead = "http://127.0.0.1:9/rows.bin"  # the discard port: nobody answers
    with pytest.raises(DataError) as caught:
        fetch(published(dead, dead))
    message = str(caught.value)
    assert "\n" not in message
    assert f"put rows.bin (from http://127.0.0.1:9) into {tmp_path / 'mine/set'}" in message
    assert "127.0.0.1:9" in message


def test_offline_names_all_files_of_a_set_at_once(monkeypatch):
    def dead(*_):
        raise OSError("Name or service not known")

    monkeypatch.setattr("hcsfed.data.fetch.resume", dead)
    with pytest.raises(DataError, match=r"put train-images.*, train-labels.*, t10k-images.*, t10k-labels.*mine/mnist"):
        load("mnist")


def test_all_mirrors_dead_names_each(server):
    with pytest.raises(DataError, match=r"HTTP 404.*refused"):
        fetch(published(server.url("/gone"), "http://127.0.0.1:9/rows.bin"))


def test_progress_counts_up_to_the_whole(server):
    seen = []
    fetch(published(server.url("/cut")), progress=lambda have, total: seen.append((have, total)))
    have = [h for h, _ in seen]
    assert have == sorted(have)
    assert seen[-1] == (len(BODY), len(BODY))
    assert {total for _, total in seen} == {len(BODY)}


def test_a_bar_is_shown_on_a_terminal_only(server, monkeypatch, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for kind, shown in ((Terminal, True), (io.StringIO, False)):
        screen = kind()
        monkeypatch.setattr("sys.stderr", screen)
        fetch(published(server.url("/ok")), to=tmp_path / kind.__name__)
        assert ("rows.bin" in screen.getvalue()) is shown


def test_other_places_and_another_folder_can_be_named(server, tmp_path):
    places = fetch(published("http://127.0.0.1:9/"), urls=[server.url("/ok")], to=tmp_path / "there")
    assert places["rows.bin"] == tmp_path / "there/set/rows.bin"


def tarball(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, raw in contents.items():
            member = tarfile.TarInfo(f"batches/{name}")
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))
    return buffer.getvalue()


def archive(url: str, body: bytes, contents: dict[str, bytes]) -> Published:
    return Published(
        ("set",), "set.tar.gz", (url,), md5(body), {name: md5(raw) for name, raw in contents.items()}, len(body)
    )


def test_an_archive_is_unpacked_and_its_files_are_kept_instead(server, tmp_path):
    contents = {"one.bin": b"1" * 1000, "two.bin": b"2" * 10}
    body = server.bodies["/tar"] = tarball(contents)
    file = archive(server.url("/tar"), body, contents)
    assert {name: read(file, name) for name in contents} == contents
    assert len(server.asked) == 1
    assert left_in(tmp_path) == ["one.bin", "two.bin"]


def test_an_archive_put_there_by_hand_is_used_and_left_alone(server, tmp_path):
    contents = {"one.bin": b"1" * 1000}
    body = tarball(contents)
    (tmp_path / "mine/set").mkdir(parents=True)
    (tmp_path / "mine/set/set.tar.gz").write_bytes(body)
    assert read(archive(server.url("/tar"), body, contents), "one.bin") == contents["one.bin"]
    assert not server.asked
    assert left_in(tmp_path / "mine") == ["set.tar.gz"]


@pytest.mark.parametrize(
    "body",
    [b"not an archive", tarball({"one.bin": b"other"}), tarball({"one.bin": b"1" * 99})[:-9]],
    ids=["no-archive", "other", "cut-off"],  # the bytes hold the time, and every worker must see the same names
)
def test_a_wrong_archive_put_there_by_hand_is_named(tmp_path, body):
    (tmp_path / "mine/set").mkdir(parents=True)
    (tmp_path / "mine/set/set.tar.gz").write_bytes(body)
    with pytest.raises(DataError, match=r"mine/set/set.tar.gz is not the published archive; delete it"):
        read(archive("http://127.0.0.1:9/", b"", {"one.bin": b"1" * 1000}), "one.bin")


@pytest.mark.parametrize(
    ("name", "raw"),
    [("rows.bin", b"other"), ("rows.bin.gz", b"no gzip"), ("rows.bin.gz", gzip.compress(BODY)[:99])],
    ids=["other", "no-gzip", "cut-off"],
)
def test_a_wrong_file_put_there_by_hand_is_named(tmp_path, name, raw):
    (tmp_path / "mine/set").mkdir(parents=True)
    (tmp_path / "mine/set" / name).write_bytes(raw)
    with pytest.raises(DataError, match=rf"{name}.*delete it to have it fetched again"):
        read(published("http://127.0.0.1:9/"), "rows.bin")


def test_a_folder_that_cannot_be_written_is_one_clear_line(server, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"cannot write rows.bin to .*cache/set"):
        fetch(published(server.url("/ok")))


def test_two_at_once_bring_it_once(server):
    file = published(server.url("/ok"))
    threads = [threading.Thread(target=fetch, args=(file,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.asked) == 1
    assert read(file, "rows.bin") == BODY


def test_a_full_disk_is_one_clear_line(server, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hcsfed.data.fetch.resume", full)
    with pytest.raises(DataError, match=r"cannot write rows.bin to .*: No space left on device"):
        fetch(published(server.url("/ok")))
