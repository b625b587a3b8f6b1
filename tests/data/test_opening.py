from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from dura.data.facts import read_columns
from dura.data.loading import load
from dura.data.opening import COMPRESSIONS, endings, inner, open_stream, read_bytes, read_lines, stem
from dura.data.readers import ReadOptions
from dura.types import BadInput

TEXT = b"".join(b"%d\tr\tb%d\n" % (i * i, i) for i in range(1000))


def zipped(data: bytes, name: str = "a.tsv") -> bytes:
    return zip_of({name: data})


def zip_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".zst": zstandard.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": zipped,
}
each_compression = pytest.mark.parametrize("ending", COMPRESS)


def test_every_compression_is_tested() -> None:
    assert set(COMPRESS) == set(COMPRESSIONS)


def refused(path: Path, content: bytes, sentence: str, most_gb: float = 4.0) -> str:
    """The one sentence that says what is wrong with a file."""
    path.write_bytes(content)
    with pytest.raises(BadInput, match=sentence) as error:
        read_lines(path, most_gb)
    message = str(error.value)
    assert path.name in message
    assert "\n" not in message
    return message


# -- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tsv", (".tsv", "")),
        ("a.b.TXT.GZ", (".txt", ".gz")),
        ("a.csv.zst", (".csv", ".zst")),
        ("a.nt.Bz2", (".nt", ".bz2")),
        ("a", ("", "")),
        ("a.gz", ("", ".gz")),
        ("-", ("", "")),
    ],
)
def test_endings(name: str, expected: tuple[str, str]) -> None:
    assert endings(Path(name)) == expected


def test_stem_keeps_inner_dots() -> None:
    assert stem(Path("x/facts.v2.tsv.gz")) == "facts.v2"
    assert stem(Path("facts.v2.tsv")) == "facts.v2"


# -- what compressed files hold -----------------------------------------------------------------------------------------


@each_compression
@given(data=st.binary(min_size=1, max_size=2000), repeat=st.sampled_from([1, 3, 700]))
@example(data=b"\0" * 100, repeat=700)
@example(data=b"\x1f\x8b", repeat=1)
def test_any_bytes_survive(tmp_path_factory: pytest.TempPathFactory, ending: str, data: bytes, repeat: int) -> None:
    path = tmp_path_factory.getbasetemp() / f"any.tsv{ending}"
    path.write_bytes(COMPRESS[ending](data * repeat))
    assert read_bytes(path) == data * repeat
    with open_stream(path) as stream:
        assert b"".join(iter(lambda: stream.read(333), b"")) == data * repeat


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".xz"])
def test_concatenated_parts_are_one_file(tmp_path: Path, ending: str) -> None:
    compress, half = COMPRESS[ending], len(TEXT) // 2
    path = tmp_path / f"a.tsv{ending}"
    path.write_bytes(compress(TEXT[:half]) + compress(b"") + compress(TEXT[half:]))
    assert read_bytes(path) == TEXT


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_padding_at_the_end_is_passed_over(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.tsv{ending}"
    path.write_bytes(COMPRESS[ending](TEXT) + bytes(512))
    assert read_bytes(path) == TEXT


def test_a_frame_of_zst_that_is_skipped_holds_nothing(tmp_path: Path) -> None:
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    path = tmp_path / "a.tsv.zst"
    path.write_bytes(zstandard.compress(TEXT) + skipped + zstandard.compress(TEXT))
    assert read_bytes(path) == TEXT + TEXT


@pytest.mark.parametrize("ending", ["", *COMPRESS])
def test_facts_are_the_same_from_every_kind_of_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.tsv{ending}"
    path.write_bytes(COMPRESS[ending](TEXT) if ending else TEXT)
    read = read_columns(path)
    assert [column[-1] for column in read.columns] == ["998001", "r", "b999"]
    assert len(read) == 1000


# -- damage -------------------------------------------------------------------------------------------------------------


@each_compression
def test_a_file_that_is_cut_short(tmp_path: Path, ending: str) -> None:
    whole = COMPRESS[ending](TEXT)
    for length in (8, len(whole) // 2, len(whole) - 1):
        refused(tmp_path / f"a.tsv{ending}", whole[:length], "is cut short|is damaged")


@each_compression
def test_changed_bytes_are_refused_or_change_nothing(tmp_path: Path, ending: str) -> None:
    """Every byte is changed in turn. .zst without its checksum cannot notice all of that; nothing else may pass."""
    text = b"a\tr\tb\n" * 20
    compress = COMPRESS[ending]
    if ending == ".zst":
        compress = zstandard.ZstdCompressor(write_checksum=True).compress
    whole, path = compress(text), tmp_path / f"a.tsv{ending}"
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            assert read_bytes(path) == text
        except BadInput as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".xz"])
def test_text_after_the_end_is_damage(tmp_path: Path, ending: str) -> None:
    refused(tmp_path / f"a.tsv{ending}", COMPRESS[ending](TEXT) + b"rest of something", "is damaged")


@pytest.mark.parametrize("ending", ["", *COMPRESS])
@pytest.mark.parametrize("content", ["", *COMPRESS])
def test_an_ending_that_does_not_fit_the_content(tmp_path: Path, ending: str, content: str) -> None:
    if ending == content:
        return
    what = f"is {content[1:]}-compressed" if content else "is not compressed that way"
    message = refused(tmp_path / f"a.tsv{ending}", COMPRESS[content](TEXT) if content else TEXT, what)
    assert message.endswith(f"although its name says otherwise; name it a.tsv{content}")


def test_empty_missing_and_folder(tmp_path: Path) -> None:
    refused(tmp_path / "a.tsv", b"", "is empty")
    for ending in COMPRESS:
        refused(tmp_path / f"a.tsv{ending}", b"", "is empty")
    with pytest.raises(BadInput, match="there is no file"):
        read_bytes(tmp_path / "none.tsv")
    with pytest.raises(BadInput, match="is a folder"):
        read_bytes(tmp_path)
    with pytest.raises(BadInput, match="cannot be read"):
        read_bytes(tmp_path / ("x" * 300))
    with pytest.raises(BadInput, match="cannot be read"):
        read_bytes(Path("a\0b"))


# -- zip files ----------------------------------------------------------------------------------------------------------


def test_a_zip_file_holds_one_file(tmp_path: Path) -> None:
    refused(tmp_path / "a.tsv.zip", zip_of({"a.tsv": TEXT, "b.tsv": TEXT}), r"holds 2 files \(a\.tsv, b\.tsv\)")
    refused(tmp_path / "a.tsv.zip", zip_of({"folder/": b""}), r"holds 0 files \(none\), .*; unpack it first")
    path = tmp_path / "b.tsv.zip"
    path.write_bytes(zip_of({"data/": b"", "data/b.tsv": TEXT, "__MACOSX/data/._b.tsv": b"x"}))
    assert read_bytes(path) == TEXT


def test_an_empty_zip_file(tmp_path: Path) -> None:
    refused(tmp_path / "a.tsv.zip", zip_of({}), "not compressed that way|holds 0 files")


def test_the_file_inside_names_the_format(tmp_path: Path) -> None:
    path = tmp_path / "download.zip"
    path.write_bytes(zipped(b'head,relation,tail\n"a,b",r,c\n', "export/facts.csv"))
    assert inner(path).name == "facts.csv"
    assert list(load(path).entities) == ["a,b", "c"]
    path.write_bytes(zipped(TEXT, "facts.dat"))
    with pytest.raises(BadInput, match="unknown ending"):
        load(path)
    assert len(load(path, separator="tab").relations) == 1


def test_a_zip_file_with_a_password_or_another_method(tmp_path: Path) -> None:
    encrypted = bytearray(zipped(TEXT))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        encrypted[encrypted.index(mark) + at] |= 1
    refused(tmp_path / "a.tsv.zip", bytes(encrypted), "a.tsv in .* cannot be unpacked: .*password required")
    odd = bytearray(zipped(TEXT))
    for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        odd[odd.index(mark) + at] = 97
    refused(tmp_path / "a.tsv.zip", bytes(odd), "a.tsv in .* cannot be unpacked: .*not supported")


# -- text ---------------------------------------------------------------------------------------------------------------


def test_line_ends_and_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\rb\r\n\r\nc\r")
    assert read_lines(path) == b"a\rb\n\nc"
    path.write_bytes(b"a\rb\rc\r")
    assert read_lines(path) == b"a\nb\nc\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_utf16_is_refused(tmp_path: Path, encoding: str, ending: str) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"
    data = (mark + "a,r,b\n").encode(encoding)
    refused(tmp_path / f"a.csv{ending}", COMPRESS[ending](data) if ending else data, "is UTF-16, .* save it as UTF-8")


# -- the ceiling --------------------------------------------------------------------------------------------------------

PIECE = b"aaaaaaa\n" * (1 << 20)
COPIES = 500
"""A bomb holds PIECE this many times: 4 GB."""


def bomb(ending: str) -> bytes:
    """A small file that holds four gigabytes. All of these formats may be concatenated, or their blocks may."""
    if ending != ".zip":
        return COMPRESS[ending](PIECE) * COPIES
    deflate = zlib.compressobj(wbits=-15)
    block = deflate.compress(PIECE) + deflate.flush(zlib.Z_FULL_FLUSH)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.tsv", block * COPIES + deflate.flush())
    content = bytearray(packed.getvalue())
    for at in (0, content.rindex(b"PK\x01\x02") + 2):  # the headers say: deflated, 4 GB
        content[at + 8] = zipfile.ZIP_DEFLATED
        content[at + 22 : at + 26] = (len(PIECE) * COPIES).to_bytes(4, "little")
    return bytes(content)


MEASURE = """
import sys
from pathlib import Path
from dura.data.loading import load
from dura.types import BadInput
try:
    load(sys.argv[1], most_gb=float(sys.argv[2]), format=sys.argv[3])
except BadInput as error:
    print(error)
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not say how much memory was used")
@pytest.mark.parametrize(("ending", "format"), [*((ending, "tsv") for ending in COMPRESS), (".zst", "jsonl")])
def test_a_bomb_neither_fills_the_memory_nor_takes_long(tmp_path: Path, ending: str, format: str) -> None:  # noqa: A002
    path = tmp_path / f"bomb.tsv{ending}"
    path.write_bytes(bomb(ending))
    assert path.stat().st_size < 10e6
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, path, "0.1", format], capture_output=True, text=True, timeout=100
    )
    message, kilobytes = done.stdout.splitlines()
    assert message == f"{path} holds more than 0.1 GB; if this is right, raise the ceiling with --most-gb 1"
    assert int(kilobytes) < 400_000
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("ending", ["", *COMPRESS])
def test_the_ceiling_is_exact(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.tsv{ending}"
    path.write_bytes(COMPRESS[ending](TEXT) if ending else TEXT)
    assert read_bytes(path, len(TEXT) / 1e9) == TEXT
    with pytest.raises(BadInput, match="holds more than"):
        read_bytes(path, (len(TEXT) - 1) / 1e9)


def test_xz_may_not_ask_for_any_amount_of_memory(tmp_path: Path) -> None:
    large = lzma.compress(TEXT, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1536 << 20}])
    refused(tmp_path / "a.tsv.xz", large, "is damaged .*[Mm]emory")


def test_zst_may_not_ask_for_any_amount_of_memory(tmp_path: Path) -> None:
    header = b"\x28\xb5\x2f\xfd" + bytes([0x00, 0xA8])  # a window of 2 GB
    refused(tmp_path / "a.tsv.zst", header + b"\x00" * 40, "is damaged .*[Mm]emory|is damaged .*[Ww]indow")


# -- what is no regular file --------------------------------------------------------------------------------------------


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "pipe.tsv"
    os.mkfifo(path)
    yield path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.timeout(20)
def test_a_pipe_is_refused_at_once(fifo: Path) -> None:
    with pytest.raises(
        BadInput, match=r"is not a regular file; to read what another program writes, name standard input: -"
    ):
        load(fifo)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("options", [ReadOptions(format="csv"), ReadOptions(separator=","), ReadOptions()])
def test_a_device_is_refused_at_once(options: ReadOptions) -> None:
    with pytest.raises(BadInput, match="is not a regular file"):
        read_columns(Path("/dev/zero"), options)


# -- standard input -----------------------------------------------------------------------------------------------------


def check(data: bytes, *options: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "dura", "data", "check", "-", *options], input=data, capture_output=True, timeout=120
    )
    text = [done.stdout.decode(), done.stderr.decode()]
    assert "Traceback" not in text[1]
    return subprocess.CompletedProcess(done.args, done.returncode, *text)


PEOPLE = b"tail,relation,head\n" + b"".join(b"p%d,knows,p%d\n" % (i % 7, i % 5) for i in range(35))


@pytest.mark.parametrize("ending", ["", *COMPRESS])
def test_standard_input(ending: str) -> None:
    done = check(COMPRESS[ending](PEOPLE) if ending else PEOPLE, "--format", "csv")
    assert (
        "standard input: head = 'head', relation = 'relation', tail = 'tail'; for example (p0, knows, p0)"
        in done.stdout
    )


@pytest.mark.slow
def test_standard_input_needs_a_format_and_bytes() -> None:
    done = check(PEOPLE)
    assert done.returncode == 2
    assert "what is the format of standard input? Name it with --format: tsv" in done.stderr
    assert "standard input is empty" in check(b"", "--format", "csv").stderr
    assert "standard input holds more than 1e-07 GB" in check(PEOPLE, "--format", "csv", "--most-gb", "1e-7").stderr
    assert "standard input is cut short" in check(gzip.compress(PEOPLE)[:-9], "--format", "csv").stderr
    wrong = check(b"a,r\n", "--format", "csv")
    assert wrong.returncode == 2
    assert "the lines of standard input have 2 columns" in wrong.stderr
