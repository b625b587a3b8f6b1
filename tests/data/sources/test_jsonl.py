"""JSON Lines: objects, arrays, exports of apoc, and bad lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.data.readers import ReadOptions
from dura.data.sheet import BadLines, Sheet
from dura.data.sources.found import Described
from dura.data.sources.jsonl import _line_by_line, read_jsonl
from dura.types import BadInput

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def read(path: Path, *lines: str) -> Sheet:
    (path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return read_jsonl(path / "a.jsonl", ReadOptions())


def test_titles_are_all_keys_in_order(tmp_path: Path) -> None:
    sheet = read(tmp_path, '{"h": "a", "r": "b"}', "", '{"t": 3, "h": "x"}')
    assert sheet.titles == ("h", "r", "t")
    assert sheet.rows.rows() == [("a", "b", None), ("x", None, "3")]
    assert sheet.numbers is not None and sheet.numbers.to_list() == [1, 3]


def test_whole_numbers_are_as_written(tmp_path: Path) -> None:
    numbers = ["0", "-12", "9007199254740993", "123456789012345678901234567890", "9" * 60]
    for some in (numbers[:4], numbers):  # the last is too long for polars
        sheet = read(tmp_path, *(f'{{"h": {number}}}' for number in some))
        assert sheet.rows["h"].to_list() == some
    assert read(tmp_path, '{"h": 1.0, "r": 2.5, "t": true}').rows.row(0) == ("1", "2.5", "true")


@given(st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_names_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], escaped: bool, arrays: bool
) -> None:
    path = tmp_path_factory.mktemp("back")
    values = [list(row) if arrays else dict(zip("hrt", row, strict=True)) for row in rows]
    sheet = read(path, *(json.dumps(value, ensure_ascii=escaped) for value in values))
    assert sheet.rows.rows() == rows
    assert sheet.titles == (None if arrays else ("h", "r", "t"))


def test_both_ways_agree(tmp_path: Path) -> None:
    lines = [
        '{"h": "a", "n": 1, "x": [1]}',
        '{"h": null, "n": 2.0, "x": [], "b": false}',
        '{"h": "é", "h": "2", "n": -0}',
    ]
    sheet = read(tmp_path, *lines)
    path = tmp_path / "a.jsonl"
    other = _line_by_line(path, "\n".join(lines).encode(), BadLines(path))
    assert sheet.titles == other.titles and sheet.notes == other.notes
    assert sheet.rows.drop("n").equals(other.rows.drop("n"))
    assert sheet.notes == ["column 'x' not used: lists, objects and bytes are not names"]


def test_a_column_of_texts_and_lists_keeps_its_texts(tmp_path: Path) -> None:
    sheet = read(tmp_path, '{"h": "[a]", "r": "x"}', '{"h": ["b"], "r": "y"}')
    assert sheet.rows.rows() == [("[a]", "x"), (None, "y")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "not JSON: Expecting value at column 1"),
        ('{"h": 1,}', "not JSON: "),
        ("3", "not a row: an object or an array is needed"),
        ('{"h": NaN}', "not JSON: NaN is not a JSON number"),
        ('{"h": "\\ud800"}', "a name holds half of a character"),
        ('{"h":' + "[" * 100_000 + "]" * 100_000 + "}", "not a row: nested too deeply"),
    ],
)
def test_a_bad_line_is_named(line: str, reason: str, tmp_path: Path) -> None:
    sheet = read(tmp_path, '{"h": "a"}', line, '{"h": "b"}')
    assert sheet.rows["h"].to_list() == ["a", "b"]
    assert sheet.bad is not None and sheet.bad.total == 1
    assert str(sheet.bad.first[0]).startswith(f"{tmp_path / 'a.jsonl'}:2: {reason}")
    with pytest.raises(BadInput, match="1 line is bad"):
        sheet.bad.stop(False)


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"h": "a"}\n{"h": "\xff"}\n')
    sheet = read_jsonl(tmp_path / "a.jsonl", ReadOptions())
    assert sheet.bad is not None and str(sheet.bad.first[0]).endswith(":2: not UTF-8")


def test_objects_and_arrays_are_not_mixed(tmp_path: Path) -> None:
    sheet = read(tmp_path, '["a", "b", "c"]', '{"h": "a"}')
    assert sheet.bad is not None
    with pytest.raises(BadInput, match=r"a\.jsonl:2: an object, but the lines before are arrays"):
        sheet.bad.stop(False)


def test_too_many_columns(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="columns, more than 10,000"):
        read(tmp_path, json.dumps({str(at): "x" for at in range(20_000)}))
    with pytest.raises(BadInput, match="columns, more than 10,000"):
        read(tmp_path, json.dumps(["x"] * 20_000))


def test_an_export_of_apoc(tmp_path: Path) -> None:
    ann = {
        "type": "node",
        "id": "0",
        "labels": ["Person", "Boss"],
        "properties": {"name": "Ann", "description": "runs it"},
    }
    bob = {"type": "node", "id": "1", "labels": ["Person"], "properties": {"age": 3}}
    knows = {
        "id": "5",
        "type": "relationship",
        "label": "KNOWS",
        "start": {"id": "0", "labels": ["Person"]},
        "end": {"id": "1"},
    }
    sheet = read(tmp_path, *map(json.dumps, (ann, bob, knows)))
    assert isinstance(sheet, Described)
    assert sheet.titles == ("head", "relation", "tail") and sheet.rows.rows() == [("0", "KNOWS", "1")]
    assert sheet.entities.labels == {"0": "Ann"} and sheet.entities.types == {"0": ("Person", "Boss"), "1": ("Person",)}
    assert sheet.entities.descriptions == {"0": "runs it"}
    sheet = read(tmp_path, '{"type": "likes", "h": "a", "t": "b"}')
    assert sheet.titles == ("type", "h", "t")
