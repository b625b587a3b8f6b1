from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from dura.data.files import endings, read_bytes, read_lines, stem
from dura.types import BadInput

TEXT = "ä\tr\tb\n" * 1000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tsv", (".tsv", "")),
        ("a.b.TXT.GZ", (".txt", ".gz")),
        ("a.csv.zst", (".csv", ".zst")),
        ("a", ("", "")),
        ("a.gz", ("", ".gz")),
    ],
)
def test_endings(name: str, expected: tuple[str, str]) -> None:
    assert endings(Path(name)) == expected


def test_stem_keeps_inner_dots() -> None:
    assert stem(Path("x/facts.v2.tsv.gz")) == "facts.v2"
    assert stem(Path("facts.v2.tsv")) == "facts.v2"


def test_plain_and_compressed_hold_the_same(tmp_path: Path) -> None:
    data = TEXT.encode()
    half = len(data) // 2
    contents = {
        "a.tsv": data,
        "a.tsv.gz": gzip.compress(data[:half]) + gzip.compress(data[half:]),
        "a.tsv.zst": zstandard.compress(data[:half]) + zstandard.compress(data[half:]),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert read_bytes(tmp_path / name) == data, name


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.tsv", b"", "is empty"),
        ("a.tsv.gz", gzip.compress(TEXT.encode(), mtime=0)[:-20], "is cut short"),
        ("a.tsv.gz", gzip.compress(TEXT.encode(), mtime=0)[:30] + b"zzzzzz" * 9, "is damaged"),
        ("a.tsv.gz", TEXT.encode(), r"not compressed that way, unlike its name says; name it a\.tsv$"),
        (
            "a.tsv.gz",
            zstandard.compress(TEXT.encode()),
            r"zst-compressed, unlike its name says; name it a\.tsv\.zst$",
        ),
        ("a.tsv", gzip.compress(TEXT.encode(), mtime=0), r"gz-compressed, unlike its name says; name it a\.tsv\.gz$"),
        ("a.tsv.zst", zstandard.compress(TEXT.encode())[:-4], "is cut short"),
        ("a.tsv.zst", zstandard.compress(TEXT.encode()) + b"rest", "is damaged"),
        ("a.tsv", TEXT.encode("utf-16"), "UTF-16"),
    ],
)
def test_bad_files_are_said_in_one_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=sentence) as error:
        read_lines(tmp_path / name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no file"):
        read_bytes(tmp_path / "none.tsv")
    with pytest.raises(BadInput, match="is a folder"):
        read_bytes(tmp_path)


def test_line_ends_and_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\rb\r\n\r\nc\r")
    assert read_lines(path) == b"a\rb\n\nc"
