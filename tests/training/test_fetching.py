"""Files arrive whole and right, go on where they stopped, and are never overwritten."""

import gzip
import hashlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedfloor import cli
from fedfloor.errors import DataError
from fedfloor.files import only_writer
from fedfloor.training.data import fetching
from fedfloor.training.data.fetching import REMOTES, Remote, fetch, verify
from tests.training.test_sources import DEBIAN, IDX, real_folder, write_fashion_mnist, write_svhn

CONTENT = np.random.default_rng(0).integers(0, 256, 700_000, dtype=np.uint8).tobytes()


@dataclass
class Server:
    """What a loopback server does, and what it was asked."""

    address: str = ""
    status: int = 200
    knows_ranges: bool = True
    tells_length: bool = True
    stops_after: int | None = None  #: bytes, then it hangs up
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: list[str | None] = field(default_factory=list)

    def remote(self, file: str = "data.bin", content: bytes = CONTENT) -> Remote:
        self.files.setdefault(file, content)
        return Remote(f"{self.address}/{file}", len(content), hashlib.md5(content).hexdigest())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.ranges.append(self.headers["Range"])
            if told.status != 200:
                self.send_error(told.status)
                return
            content, begin = told.files[self.path[1:]], 0
            if told.knows_ranges and self.headers["Range"]:
                begin = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            if told.tells_length:
                self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            self.wfile.write(content[begin:][: told.stops_after])

        def log_message(self, *arguments: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        told.address = f"http://127.0.0.1:{listening.server_port}"
        yield told
        listening.shutdown()
        thread.join()


def test_a_whole_download_reports_every_byte_and_leaves_no_part(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    remotes = {"toy": (server.remote(),)}
    (done,) = fetch("toy", tmp_path / "new", on_progress=lambda *news: seen.append(news), remotes=remotes)
    assert done.fresh
    assert done.path == tmp_path / "new" / "toy" / "data.bin"
    assert done.path.read_bytes() == CONTENT
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert [news[1] for news in seen] == sorted(news[1] for news in seen)
    assert list(done.path.parent.iterdir()) == [done.path]


@pytest.mark.parametrize("place", ["", "toy"])
def test_what_is_there_and_right_is_not_fetched_again(server: Server, place: str, tmp_path: Path) -> None:
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "data.bin").write_bytes(CONTENT)
    (done,) = fetch("toy", tmp_path, remotes={"toy": (server.remote(),)})
    assert not done.fresh
    assert done.path == tmp_path / place / "data.bin"
    assert server.ranges == []


def begun(folder: Path, content: bytes) -> Path:
    part = folder / "toy" / "data.bin.part"
    part.parent.mkdir()
    part.write_bytes(content)
    return part


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_begun_download_goes_on_or_starts_anew(server: Server, knows_ranges: bool, tmp_path: Path) -> None:
    server.knows_ranges = knows_ranges
    begun(tmp_path, CONTENT[:300_000])
    seen: list[int] = []
    remotes = {"toy": (server.remote(),)}
    (done,) = fetch("toy", tmp_path, on_progress=lambda _file, here, _all: seen.append(here), remotes=remotes)
    assert done.path.read_bytes() == CONTENT
    assert server.ranges == ["bytes=300000-"]
    assert (seen[0] > 300_000) == knows_ranges


def test_a_part_that_is_a_link_is_not_followed(server: Server, tmp_path: Path) -> None:
    other, part = tmp_path / "other.txt", begun(tmp_path, b"")
    other.write_text("of someone else")
    for target in (other, tmp_path / "nowhere"):
        part.unlink()
        part.symlink_to(target)
        with pytest.raises(
            DataError, match=r"data\.bin\.part: is a link or another special file. Remove it, then fetch"
        ):
            fetch("toy", tmp_path, remotes={"toy": (server.remote(),)})
    assert (other.read_text(), (tmp_path / "nowhere").exists()) == ("of someone else", False)
    with pytest.raises(OSError, match="symbolic links"):  # one that appears after the check
        fetching._receive(server.remote(), part, 0, lambda *_: None)


def test_a_part_that_is_complete_or_too_long_is_dealt_with(server: Server, tmp_path: Path) -> None:
    remotes = {"toy": (server.remote(),)}
    part = begun(tmp_path, CONTENT)
    (done,) = fetch("toy", tmp_path, remotes=remotes)
    assert server.ranges == []
    done.path.unlink()
    part.write_bytes(CONTENT + b"more")
    (done,) = fetch("toy", tmp_path, remotes=remotes)
    assert done.path.read_bytes() == CONTENT
    assert server.ranges == [None]


@pytest.mark.parametrize("tells_length", [True, False])
def test_a_broken_connection_keeps_what_has_arrived(server: Server, tells_length: bool, tmp_path: Path) -> None:
    server.stops_after, server.tells_length = 400_000, tells_length
    remotes = {"toy": (server.remote(),)}
    with pytest.raises(DataError, match=r"data.bin: the connection ended after 400,000 of 700,000 bytes. Try again"):
        fetch("toy", tmp_path, remotes=remotes)
    server.stops_after = None
    (done,) = fetch("toy", tmp_path, remotes=remotes)
    assert done.path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=400000-"]


def test_a_wrong_checksum_removes_the_part(server: Server, tmp_path: Path) -> None:
    remote = server.remote()
    server.files["data.bin"] = CONTENT[::-1]
    with pytest.raises(
        DataError, match=rf"data.bin: the download has MD5 [0-9a-f]+ instead of {remote.md5} and was removed"
    ):
        fetch("toy", tmp_path, remotes={"toy": (remote,)})
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_offers_another_size_is_refused_before_the_part_is_touched(
    server: Server, tmp_path: Path
) -> None:
    remote = server.remote()
    server.files["data.bin"] = b"<html>log in first</html>"
    server.knows_ranges = False
    part = begun(tmp_path, CONTENT[:1000])
    with pytest.raises(DataError, match="the server offers 25 bytes, must be 700,000"):
        fetch("toy", tmp_path, remotes={"toy": (remote,)})
    assert part.read_bytes() == CONTENT[:1000]


def test_an_http_error_says_what_to_download_from_where_to_where(server: Server, tmp_path: Path) -> None:
    server.status = 404
    remotes = {"toy": (server.remote("a.bin"), server.remote("b.bin"))}
    with pytest.raises(DataError, match="HTTP 404 Not Found") as caught:
        fetch("toy", tmp_path, remotes=remotes)
    for file in ("a.bin", "b.bin"):
        assert f"{server.address}/{file} to {tmp_path / 'toy' / file}" in str(caught.value)


def test_a_refused_connection_names_only_what_is_still_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"  # bound, but nobody listens
        md5 = hashlib.md5(CONTENT).hexdigest()
        remotes = {"toy": [Remote(f"{address}/{file}", len(CONTENT), md5) for file in ("a.bin", "b.bin")]}
        (tmp_path / "a.bin").write_bytes(CONTENT)
        with pytest.raises(DataError, match=r"b.bin: Connection refused") as caught:
            fetch("toy", tmp_path, remotes=remotes)
    assert "a.bin" not in str(caught.value)


def test_another_file_of_the_same_name_is_never_overwritten(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"data.bin: exists, but is not the official file"):
        fetch("toy", tmp_path, remotes={"toy": (server.remote(),)})
    assert (tmp_path / "data.bin").read_bytes() == b"mine"


def test_a_folder_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"toy: cannot be written: File exists"):
        fetch("toy", tmp_path, remotes={"toy": (server.remote(),)})


def test_a_second_process_is_refused_while_one_fetches(server: Server, tmp_path: Path) -> None:
    remotes = {"toy": (server.remote("a.bin"), server.remote("b.bin"))}
    refused = []

    def fetch_too(file: str, _received: int, _total: int) -> None:
        with pytest.raises(
            DataError, match=r"toy: another process is writing to it. Wait for it, or name another folder for data"
        ):
            fetch("toy", tmp_path, remotes=remotes)
        refused.append(file)

    files = fetch("toy", tmp_path, on_progress=fetch_too, remotes=remotes)
    assert set(refused) == {"a.bin", "b.bin"}
    assert [file.path.read_bytes() for file in files] == [CONTENT, CONTENT]
    assert sorted(path.name for path in (tmp_path / "toy").iterdir()) == ["a.bin", "b.bin"]
    assert server.ranges == [None, None]


def test_processes_that_fetch_at_once_leave_whole_files(server: Server, tmp_path: Path) -> None:
    remotes = {"toy": tuple(server.remote(f"{name}.bin") for name in "abc")}
    code = "import sys; from pathlib import Path; from fedfloor.errors import DataError\n"
    code += "from fedfloor.training.data.fetching import Remote, fetch\n"
    code += f"try: fetch('toy', Path({str(tmp_path)!r}), remotes={remotes!r})\n"
    code += "except DataError as error: sys.exit(str(error))"
    command = [sys.executable, "-c", code]
    several = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[1] for process in several]
    assert 0 in [process.returncode for process in several], said
    assert all(not text or "toy: another process is writing to it" in text for text in said), said
    files = fetch("toy", tmp_path, remotes=remotes)
    assert [(file.fresh, file.path.read_bytes()) for file in files] == [(False, CONTENT)] * 3


def test_a_folder_that_has_everything_need_not_be_writable(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(CONTENT)
    with only_writer(tmp_path, again=""):
        (done,) = fetch("toy", tmp_path, remotes={"toy": (server.remote(),)})
    assert (done.fresh, [path.name for path in tmp_path.iterdir()]) == (False, ["data.bin"])


def test_an_unknown_name_gets_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Did you mean 'svhn'"):
        fetch("svhm", tmp_path)


def test_every_remote_has_a_checksum_and_a_size() -> None:
    for remotes in REMOTES.values():
        for remote in remotes:
            assert len(remote.md5) == 32
            assert remote.size_bytes > 5000
            assert remote.file in remote.url


# verify


def test_verify_counts_by_really_reading(tmp_path: Path) -> None:
    write_svhn(tmp_path / "svhn", [1, 10, 1])
    report = verify("svhn", tmp_path)
    assert (report.training, report.test, report.classes, report.shape) == (3, 3, 10, (3, 32, 32))
    assert report.training_per_class == (1, 2, 0, 0, 0, 0, 0, 0, 0, 0)
    assert [file.checksum for file in report.files] == ["unknown", "unknown"]
    assert report.files[0].path == tmp_path / "svhn" / "train_32x32.mat"


def test_verify_knows_official_files(tmp_path: Path) -> None:
    write_fashion_mnist(tmp_path, packed=True)
    sums = {file: hashlib.md5((tmp_path / f"{file}.gz").read_bytes()).hexdigest() for file in IDX[:3]}
    remotes = {"fashion-mnist": [Remote(f"http://x/{file}.gz", 1, md5) for file, md5 in sums.items()]}
    report = verify("fashion-mnist", tmp_path, remotes=remotes)
    assert [file.checksum for file in report.files] == ["official"] * 3 + ["unknown"]


def test_verify_knows_official_contents_that_were_packed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion_mnist(tmp_path, packed=True)
    content = gzip.decompress((tmp_path / f"{IDX[1]}.gz").read_bytes())
    monkeypatch.setattr(fetching, "_CONTENTS", {IDX[1]: hashlib.md5(content).hexdigest()})
    checksums = [file.checksum for file in verify("fashion-mnist", tmp_path).files]
    assert checksums == ["unknown", "official", "unknown", "unknown"]


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="needs the Debian package dataset-fashion-mnist")
def test_debians_fashion_mnist_is_official() -> None:
    report = verify("fashion-mnist", DEBIAN)
    assert {file.checksum for file in report.files} == {"official"}
    assert report.training_per_class == (6000,) * 10


def test_real_cifar10_is_official() -> None:
    report = verify("cifar10", real_folder("cifar10"))
    assert {file.checksum for file in report.files} == {"official"}


# the commands


def test_the_commands_fetch_and_verify(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion_mnist(tmp_path / "origin", packed=True)
    packed = [(f"{file}.gz", (tmp_path / "origin" / f"{file}.gz").read_bytes()) for file in IDX]
    remotes = {"fashion-mnist": tuple(server.remote(*entry) for entry in packed)}
    assert fetch.__kwdefaults__ is not None
    monkeypatch.setitem(fetch.__kwdefaults__, "remotes", remotes)
    folder = str(tmp_path / "here")
    for word in ("fetched", "there already:"):
        done = CliRunner().invoke(cli.program(), ["data", "fetch", "fashion-mnist", "--data-dir", folder, "--quiet"])
        assert done.exit_code == 0, done.output
        assert done.output.count(word) == 4
    done = CliRunner().invoke(
        cli.program(), ["data", "verify", "fashion-mnist", "--data-dir", folder, "--format", "json"]
    )
    assert '"training": 30' in done.output
    done = CliRunner().invoke(cli.program(), ["data", "verify", "fashion-mnist", "--data-dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
