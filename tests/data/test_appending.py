"""Appending: what is added is in the file, the file is there only when it is whole, and nothing else is left."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from dura.data import appending as module
from dura.data.appending import APPENDERS, appending
from dura.types import BadInput, DuraError

SCHEMA = {"line": pl.Int64, "name": pl.String, "score": pl.Float64, "known": pl.Boolean}
ROWS = [{"line": i, "name": f'n,"{i}', "score": i / 3, "known": i % 2 == 0} for i in range(100)]


def content(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    separator = "\t" if path.suffix == ".tsv" else ","
    quote = None if path.suffix == ".tsv" else '"'
    return pl.read_csv(path, separator=separator, quote_char=quote, schema_overrides=SCHEMA).to_dicts()


@pytest.mark.parametrize("at_once", [7, 1000])
@pytest.mark.parametrize("ending", APPENDERS)
def test_rows_are_written_in_order(tmp_path: Path, ending: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", at_once)
    path = tmp_path / f"out{ending}"
    with appending(path, SCHEMA) as file:
        for row in ROWS:
            file.add([row])
        assert not path.exists()
    assert content(path) == ROWS
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", APPENDERS)
def test_a_file_without_rows_has_its_columns(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending}"
    with appending(path, SCHEMA):
        pass
    assert content(path) == []
    if ending == ".parquet":
        assert pl.read_parquet_schema(path) == SCHEMA


@pytest.mark.parametrize("ending", APPENDERS)
def test_after_an_error_nothing_is_left(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 7)
    with pytest.raises(KeyboardInterrupt), appending(tmp_path / f"out{ending}", SCHEMA) as file:
        file.add(ROWS)
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("mine")
    for name, sentence in [
        ("old.csv", "old.csv is there already; name a new file"),
        ("new.xlsx", "new.xlsx must end in .csv, .tsv, .jsonl, .parquet, or be - for JSON Lines on standard output"),
        ("nowhere/new.csv", "there is no folder .*nowhere for new.csv"),
    ]:
        with pytest.raises(BadInput, match=sentence), appending(tmp_path / name, SCHEMA):
            pass
    assert (tmp_path / "old.csv").read_text() == "mine"
    with pytest.raises(BadInput, match=r"the name 'a\\tb' holds a tab"), appending(tmp_path / "a.tsv", SCHEMA) as file:
        file.add([{"line": 1, "name": "a\tb", "score": 0.0, "known": True}])


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_csv", full)
    with (
        pytest.raises(DuraError, match="cannot write out.csv .* no space left"),
        appending(tmp_path / "out.csv", SCHEMA),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
