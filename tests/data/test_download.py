from __future__ import annotations

import gzip
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dura.data import catalog, download
from dura.data.catalog import BUNDLED, DOWNLOAD, Published, entries, find, look_up
from dura.data.download import get
from dura.data.loading import load
from dura.types import BadInput, DuraError, Split
from servers import Handler, reply, web_server


class Server:
    """A web server on this machine; `files` are path -> bytes, `short` paths promise more than they send."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.short: set[str] = set()
        self.asked: list[str] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                data = server.files.get(self.path)
                if data is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(data) + (100 if self.path in server.short else 0)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DURA_DATA", raising=False)
    monkeypatch.setenv("DURA_CACHE", str(tmp_path / "deep" / "cache"))
    return tmp_path / "deep" / "cache"


def offer(server_address: str, monkeypatch: pytest.MonkeyPatch) -> dict[Split, bytes]:
    """The bundled nations as a graph `far` that has to be downloaded; gives the true files."""
    near = entries()["nations"]
    folder = look_up("nations").path
    assert folder is not None
    files = {
        split: Published(published.facts, published.digest, f"{server_address}/far/{split}.txt", published.size)
        for split, published in near.files.items()
    }
    monkeypatch.setitem(entries(), "far", replace(near, name="far", files=files, bundled=False))
    return {split: gzip.decompress((folder / f"{split}.txt.gz").read_bytes()) for split in near.files}


def serve(server: Server, contents: dict[Split, bytes]) -> None:
    server.files = {f"/far/{split}.txt": data for split, data in contents.items()}


def left_over(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir()]


def test_a_graph_is_downloaded_once_and_loaded(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = offer(server.address, monkeypatch)
    serve(server, {split: data.replace(b"\n", b"\r\n") for split, data in contents.items()})  # published with CRLF
    assert look_up("far").where == DOWNLOAD
    assert get("far") == cache / "far"
    assert {path.name: path.read_bytes() for path in (cache / "far").iterdir()} == {
        f"{split}.txt": data for split, data in contents.items()
    }
    assert left_over(cache) == ["far"]
    assert len(server.asked) == 3
    assert get("far") == cache / "far"
    graph = load("far")
    assert len(server.asked) == 3
    assert graph.digest == load("nations").digest
    assert graph.name == "far"


def test_load_downloads_what_is_missing(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(server, offer(server.address, monkeypatch))
    assert len(load("far", progress=False).train) == 1592
    assert look_up("far").where == str(cache / "far")


def test_the_bar_goes_to_stderr(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, offer(server.address, monkeypatch))
    get("far", progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "downloading far" in err


def test_wrong_bytes_are_refused(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = offer(server.address, monkeypatch)
    serve(server, contents | {"test": contents["test"] + b"a\tb\tc\n"})
    with pytest.raises(DuraError, match=r"/far/test\.txt sent is not the published test file of far: its sha256 is"):
        get("far")
    assert left_over(cache) == []


def test_a_missing_page_says_what_to_do(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = offer(server.address, monkeypatch)
    serve(server, {"train": contents["train"]})
    with pytest.raises(DuraError, match=r"/far/valid\.txt answers 404") as error:
        get("far")
    message = str(error.value)
    assert "\n" not in message
    assert "DURA_DATA" in message
    assert str(cache / "far") in message
    assert f"{server.address}/far/test.txt" in message
    assert left_over(cache) == []


def test_a_broken_connection_leaves_nothing(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(server, offer(server.address, monkeypatch))
    server.short = {"/far/valid.txt"}
    with pytest.raises(DuraError, match=r"broke off after 4,851 of 4,951 bytes|IncompleteRead"):
        get("far")
    assert left_over(cache) == []


@pytest.mark.parametrize("length", ["many", "-5", "1e3", "9" * 5000, "٣", ""])
def test_a_length_that_is_no_number_is_not_used(length: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents: dict[Split, bytes] = {}

    def answer(handler: Handler, body: str) -> None:
        data = next(data for split, data in contents.items() if split in handler.path)
        reply(handler, data, "text/plain", Content_Length=length.encode().decode("latin-1"))

    with web_server(answer) as address:
        contents |= offer(address, monkeypatch)
        assert get("far") == cache / "far"


def test_a_length_that_is_too_short(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents: dict[Split, bytes] = {}

    def answer(handler: Handler, body: str) -> None:
        reply(handler, contents["train"], "text/plain", Content_Length="1000")

    with web_server(answer) as address:
        contents |= offer(address, monkeypatch)
        with pytest.raises(DuraError, match="is not the published train file of far"):
            get("far")
    assert left_over(cache) == []


@pytest.mark.parametrize("size", [None, 0])
def test_an_endless_body_is_stopped(size: int | None, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the published size, with room for other line ends; or at 1,000 bytes per fact if the size is not known."""
    sent = [0]

    def answer(handler: Handler, body: str) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            sent[0] += handler.wfile.write(b"x" * 10_000)

    with web_server(answer) as address:
        offer(address, monkeypatch)
        far = entries()["far"]
        if size is not None:
            files = {split: replace(published, size=size) for split, published in far.files.items()}
            monkeypatch.setitem(entries(), "far", replace(far, files=files))
        most = {None: "40,693", 0: "1,592,000"}[size]
        with pytest.raises(
            DuraError, match=f"sends more than the {most} bytes that the published file can have"
        ) as error:
            get("far")
    assert "\n" not in str(error.value)
    assert sent[0] < 100_000_000
    assert left_over(cache) == []


def test_a_body_that_drips_is_stopped(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.3)

    def answer(handler: Handler, body: str) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.05)

    with web_server(answer) as address:
        offer(address, monkeypatch)
        with pytest.raises(DuraError, match=r"it sent only [0-9]+ bytes in 0 seconds"):
            get("far")
    assert left_over(cache) == []


def test_offline(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        offer(f"http://127.0.0.1:{free.getsockname()[1]}", monkeypatch)
    with pytest.raises(DuraError, match=r"cannot be reached: .*refused.*without a network put"):
        load("far")
    assert left_over(cache) == []


def test_a_silent_server_times_out(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        offer(f"http://127.0.0.1:{silent.getsockname()[1]}", monkeypatch)
        with pytest.raises(DuraError, match="timed out"):
            get("far")
    assert left_over(cache) == []


def test_files_put_by_hand_are_found(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = offer("http://127.0.0.1:9", monkeypatch)
    (cache / "far").mkdir(parents=True)
    for split, data in contents.items():
        (cache / "far" / f"{split}.txt.gz").write_bytes(gzip.compress(data))
    assert get("far") == cache / "far"


def test_a_damaged_cache_is_fetched_again(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(server, offer(server.address, monkeypatch))
    get("far")
    (cache / "far" / "train.txt").write_text("a\tr\tb\n")
    get("far")
    catalog.verify(look_up("far"))
    assert len(server.asked) == 6


def test_damage_in_dura_data_is_not_replaced(
    server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(server, offer(server.address, monkeypatch))
    (tmp_path / "data" / "far").mkdir(parents=True)
    (tmp_path / "data" / "far" / "train.txt").write_text("a\tr\tb\n")
    monkeypatch.setenv("DURA_DATA", str(tmp_path / "data"))
    with pytest.raises(BadInput, match="not the published"):
        get("far")
    assert server.asked == []


def test_another_process_may_be_faster(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = offer(server.address, monkeypatch)
    serve(server, contents)
    write = download._write

    def slow(path: Path, data: bytes) -> None:
        write(path, data)
        (cache / "far").mkdir(exist_ok=True)
        (cache / "far" / path.name).write_bytes(data)

    monkeypatch.setattr(download, "_write", slow)
    assert get("far") == cache / "far"
    assert left_over(cache) == ["far"]


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer("http://127.0.0.1:9", monkeypatch)
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("DURA_DATA", raising=False)
    monkeypatch.setenv("DURA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DuraError, match="cannot be written .*set DURA_CACHE"):
        get("far")


def test_bundled_graphs_need_no_network(cache: Path) -> None:
    listing = find("umls")
    assert listing is not None
    assert listing.where == BUNDLED
    assert get("umls") == listing.path
    assert not cache.exists()
