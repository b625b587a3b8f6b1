"""The page on own data lists what is really read and written, and its summary and its warnings are those of the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dura
from dura.cli.main import app
from dura.data.exporting import WRITERS
from dura.data.opening import COMPRESSIONS, MOST_GB
from dura.data.readers import READERS

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
TEXT = (PAGES / "own-data.md").read_text("utf-8")


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> list[str]:
    return [name for row in re.findall(r"^\|([^|]*)\|", text, re.M) for name in re.findall(r"`([^`]+)`", row)]


def test_formats_are_those_of_the_tables() -> None:
    assert first_cells(section("Formats")) == list(READERS)
    compressed = section("Formats").split("**Compressed files**")[1].split("such as")[0]
    assert re.findall(r"`([^`]+)`", compressed) == list(COMPRESSIONS)
    assert f"stops at {MOST_GB:g} GB" in section("Formats")
    assert sorted(first_cells(section("Import and export"))) == sorted(WRITERS)


def test_the_summary_looks_as_shown(tmp_path: Path) -> None:
    path, notes = tmp_path / "people.csv", list[str]()
    path.write_text("from_id,edge_type,to_id,weight\nann,knows,bob,1\n")
    dura.load(path, notify=notes.append)
    assert notes[0] in section("How columns are recognised")


def test_bad_lines_look_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.tsv").write_text("a\tr\tb\nx\na\t\tb\n")
    with pytest.raises(dura.BadInput) as error:
        dura.load("bad.tsv")
    assert f"dura: {error.value}" in section("How columns are recognised")


def test_the_page_on_databases_does_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("facts.db") as database:
        database.execute("CREATE TABLE facts (head, relation, tail)")
        database.executemany("INSERT INTO facts VALUES (?, 'r', ?)", [(f"a{i}", f"a{i % 7}") for i in range(50)])
    database.close()
    block = re.findall(r"```sh\n(.*?)```", (PAGES / "databases.md").read_text("utf-8"), re.S)[0]
    for line in block.splitlines():
        arguments = shlex.split(line)[1:]
        more = ["--rank", "2", "--epochs", "1", "--quiet"] if arguments[0] == "train" else []
        result = CliRunner().invoke(app, [*arguments, *more])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["other-programs", "own-data", "labels", "splits", "neo4j", "rdf", "databases"])
def test_options_in_prose_exist(name: str) -> None:
    reference = (PAGES.parent / "reference" / "command-line.md").read_text("utf-8")
    text = (PAGES / f"{name}.md").read_text("utf-8")
    options = set(re.findall(r"`(--[a-z-]+)", text)) - {"--train"}  # that of LibKGE
    assert [option for option in sorted(options) if f"`{option}`" not in reference] == []
