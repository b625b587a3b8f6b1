"""Pieces: cut into any pieces, a file has the same rows with the same line numbers as when it is read as a whole."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data import pieces
from dura.data.pieces import sheets
from dura.data.readers import ReadOptions, read_sheet
from dura.data.sheet import Sheet
from dura.data.streams import Row, fact_rows, question_rows
from dura.types import BadInput

NAMES = st.text(st.sampled_from('ab",;\n \té'), min_size=1, max_size=6).filter(lambda name: name.strip() != "")
ROWS = st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=30)


def content(found: list[Sheet]) -> list[tuple[int, ...]]:
    rows = []
    for sheet in found:
        assert sheet.numbers is not None
        rows += list(zip(sheet.numbers.to_list(), *sheet.take([0, 1, 2]).get_columns(), strict=True))
    return rows


def bad(found: list[Sheet]) -> list[tuple[int, str]]:
    return [(line.line, line.reason) for sheet in found for line in sheet.bad.first]  # type: ignore[union-attr]


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, size=st.integers(1, 40))
def test_csv_with_quotes_and_line_breaks_in_pieces_of_any_size(rows: list[tuple[str, str, str]], size: int) -> None:
    path = Path(tempfile.mkdtemp()) / "facts.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", size)
        found = list(sheets(path, ReadOptions(separator=",")))
    assert content(found) == content([read_sheet(path, ReadOptions(separator=","))])
    assert bad(found) == []
    assert len(content(found)) == len(rows)


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_bad_lines_keep_their_numbers(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE", size)
    path = tmp_path / "facts.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\tr\tb\r\n\r\nc\t\xff\td\r\n\tr\tb\r\na\tr\ta\tb\tc\r\ne\tr\tf")
    assert list(fact_rows(path, ReadOptions())) == [
        Row(1, ("a", "r", "b", "")),
        Row(3, wrong="not UTF-8 (if the file is Latin-1, convert it first: iconv -f latin1 -t utf-8)"),
        Row(4, wrong="the head is empty"),
        Row(5, wrong="5 columns instead of 3"),
        Row(6, ("e", "r", "f", "")),
    ]


FACTS = [(f"h{i}", "r", f"t{i}") for i in range(300)]


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet", "arrow", "nt", "tsv.gz", "json"])
def test_every_format_gives_the_same_rows(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE", 1000)
    monkeypatch.setattr(pieces, "ROWS", 100)
    frame, path = pl.DataFrame(FACTS, schema=["head", "relation", "tail"], orient="row"), tmp_path / f"facts.{ending}"
    if ending in ("tsv", "tsv.gz"):
        text = frame.write_csv(separator="\t").encode()
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    elif ending == "json":
        path.write_text(frame.write_json())
    elif ending == "nt":
        path.write_text("".join(f"<u:{h}> <u:{r}> <u:{t}> .\n" for h, r, t in FACTS))
    else:
        writers = {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet", "arrow": "write_ipc"}
        getattr(frame, writers[ending])(path)
    rows = list(fact_rows(path, ReadOptions()))
    prefix = "u:" if ending == "nt" else ""
    assert [row.parts for row in rows] == [(f"{prefix}{h}", f"{prefix}{r}", f"{prefix}{t}", "") for h, r, t in FACTS]
    first = 2 if ending.startswith(("tsv", "csv")) else 1
    assert [row.line for row in rows] == list(range(first, first + 300))


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("two.tsv", "a\tr\nb\tr\n", [("a", "r", "", ""), ("b", "r", "", "")]),
        ("mixed.tsv", "a\tr\n?\tr\tb\n", [("a", "r", "", ""), ("?", "r", "b", "")]),
        ("titled.csv", "relation,head\nr,a\n", [("a", "r", "", "")]),
        ("later.jsonl", '{"head":"a","relation":"r"}\n{"tail":"b","relation":"r"}\n', [("a", "r", "", ""), ("", "r", "b", "")]),
        ("arrays.jsonl", '["a","r",null]\n["?","r","b"]\n', [("a", "r", "", ""), ("?", "r", "b", "")]),
        ("words.csv", "subject,predicate,object\n?,r,b\n", [("?", "r", "b", "")]),
        ("times.csv", "head,relation,tail,time\na,r,?,1990\n", [("a", "r", "?", "1990")]),
    ],
)  # fmt: skip
def test_questions_may_be_written_in_many_ways(
    tmp_path: Path, name: str, text: str, parts: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(text)
    for size in (1 << 20, 1):
        monkeypatch.setattr(pieces, "PIECE", size)
        assert [row.parts for row in question_rows(tmp_path / name, ReadOptions())] == parts


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("first", ["array", "object"])
def test_an_array_among_objects_is_a_bad_line(
    tmp_path: Path, size: int, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE", size)
    lines = ['["a", "r", "b"]', '{"head": "a", "relation": "r", "tail": "b"}']
    own, other = lines if first == "array" else lines[::-1]
    (tmp_path / "mixed.jsonl").write_text(f"{own}\n{other}\n{other}\n{own}\n")
    rows = list(fact_rows(tmp_path / "mixed.jsonl", ReadOptions()))
    assert [(row.line, row.parts[:3]) for row in rows if not row.wrong] == [(1, ("a", "r", "b")), (4, ("a", "r", "b"))]
    kinds = (
        "an object, but the lines before are arrays"
        if first == "array"
        else "an array, but the lines before are objects"
    )
    assert [(row.line, row.wrong) for row in rows if row.wrong] == [
        (n, f"{kinds}; write all lines in the same way") for n in (2, 3)
    ]
    sheet = read_sheet(tmp_path / "mixed.jsonl", ReadOptions())
    assert sheet.bad is not None and [line.line for line in sheet.bad.first] == [2, 3]


def test_standard_input_may_hold_lines_or_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("a\tr\t?\n", json.dumps({"head": "a", "relation": "r", "tail": "?"})):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert list(question_rows(Path("-"), ReadOptions())) == [Row(1, ("a", "r", "?", ""))]


def test_what_is_no_file_of_questions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.tsv").write_text("a\nb\n")
    with pytest.raises(BadInput, match="one.tsv holds no questions: a line is a head and a relation"):
        list(question_rows(tmp_path / "one.tsv", ReadOptions()))
    (tmp_path / "other.jsonl").write_text('{"x": "a", "y": "b"}\n')
    with pytest.raises(BadInput, match=r"has the columns 'x', 'y'; a question has the columns head, relation and tail"):
        list(question_rows(tmp_path / "other.jsonl", ReadOptions()))
    (tmp_path / "spans.csv").write_text("head,relation,tail,begin,end\na,r,b,1990,1991\n")
    with pytest.raises(BadInput, match="have a begin and an end, but a fact is scored at one time"):
        list(fact_rows(tmp_path / "spans.csv", ReadOptions()))
    monkeypatch.setattr(pieces, "LONGEST", 50)
    monkeypatch.setattr(pieces, "PIECE", 20)
    (tmp_path / "long.tsv").write_text("a\tr\t?\n" + "x" * 100)
    with pytest.raises(BadInput, match=r"line 2 of .*long.tsv has more than"):
        list(question_rows(tmp_path / "long.tsv", ReadOptions()))
