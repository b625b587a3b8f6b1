"""Sheets: what they show, that any name survives in them, and that files are read back as they were written."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.sheets.sheet import Sheet, plain_markdown
from dura.types import BadInput

SHEET = Sheet(
    "Sizes",
    [
        {"name": "a|b", "rank": 1000, "mrr": 0.35061, "best": True, "share": 0.12345},
        {"name": "<i>", "rank": 2, "mrr": None, "best": False, "share": 1234.5},
    ],
    ["A note."],
    {"share": 1},
)
values = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6) | st.text(max_size=8)
tables = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.lists(st.fixed_dictionaries(dict.fromkeys(names, values)), min_size=1, max_size=4)
)


def test_markdown_shows_rounded_numbers_to_the_right_and_names_as_they_are() -> None:
    assert SHEET.markdown() == (
        "### Sizes\n\n"
        "| name | rank | mrr | best | share |\n"
        "|---|---:|---:|---:|---:|\n"
        "| a\\|b | 1,000 | 0.3506 | yes | 0.1 |\n"
        "| &lt;i> | 2 |  | no | 1,234.5 |\n"
        "\nA note.\n"
    )


def test_terminal_aligns_columns() -> None:
    assert SHEET.terminal().splitlines() == [
        "Sizes",
        "",
        "name   rank     mrr  best    share",
        "a|b   1,000  0.3506   yes      0.1",
        "<i>       2            no  1,234.5",
        "",
        "A note.",
    ]


def test_csv_keeps_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(SHEET.csv())))
    assert rows[0] == {"name": "a|b", "rank": "1000", "mrr": "0.35061", "best": "True", "share": "0.12345"}
    assert rows[1]["mrr"] == ""


def test_a_sheet_without_rows_says_so() -> None:
    assert Sheet("Nothing", []).markdown() == "### Nothing\n\n(no rows)\n"
    assert Sheet("Nothing", []).columns == []


@settings(max_examples=40)
@given(tables)
def test_no_value_breaks_a_markdown_table(rows: list[dict[str, str]]) -> None:
    lines = Sheet("t", rows).markdown().splitlines()[2:]
    assert len(lines) == len(rows) + 2
    for line in lines:
        bars = re.findall(r"(?<!\\)(?:\\\\)*\|", line)  # a bar is escaped by an odd number of backslashes
        assert len(bars) == len(rows[0]) + 1, line
        assert "<" not in line


@given(st.text())
def test_plain_markdown_is_one_line_without_html(text: str) -> None:
    plain = plain_markdown(text)
    assert "<" not in plain
    assert len(plain.splitlines()) <= 1


def test_written_files_are_read_back(tmp_path: Path) -> None:
    paths = SHEET.write(tmp_path / "deep" / "down", "sizes", command="dura study sizes")
    assert [path.name for path in paths] == ["sizes.md", "sizes.csv", "sizes.json"]
    assert Sheet.read(paths[2]) == Sheet(SHEET.title, SHEET.rows, ["A note."], {"share": 1})
    document = json.loads(paths[2].read_text())
    assert document["format"] == 1
    assert document["command"] == "dura study sizes"
    assert paths[0].read_text() == SHEET.markdown()


@settings(max_examples=15)
@given(rows=tables)
def test_any_table_comes_back(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]) -> None:
    sheet = Sheet("any", rows)
    path = sheet.write(tmp_path_factory.getbasetemp() / "any", "any")[2]
    assert Sheet.read(path).rows == rows


def test_numbers_that_json_lacks_become_empty_places(tmp_path: Path) -> None:
    sheet = Sheet("odd", [{"x": math.nan, "y": math.inf}])
    assert sheet.text(sheet.rows[0], "x") == ""
    assert Sheet.read(sheet.write(tmp_path, "odd")[2]).rows == [{"x": None, "y": None}]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is not a table that dura wrote: it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ('{"rows": []}', "it has no title"),
        ('{"title": 3, "rows": []}', "title is not text"),
        ('{"title": "t", "rows": [{"a": 1}, {"b": 1}]}', "same columns"),
        ('{"title": "t", "rows": [{"a": [1]}]}', "not a plain value"),
        ('{"title": "t", "rows": [], "format": 2}', "update dura"),
        ('{"title": "t", "rows": [], "notes": [1]}', "a note is not text"),
        ('{"title": "t", "rows": [], "digits": {"a": 1e9}}', "digits are not whole numbers"),
        ("[" * 100_000, "nested more than 32 deep"),
    ],
)
def test_a_file_that_is_no_table_is_one_sentence(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(BadInput, match=why) as error:
        Sheet.read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
