"""Neo4j: files for admin import and exports of apoc."""

from __future__ import annotations

from pathlib import Path

import pytest

from dura.data.readers import ReadOptions
from dura.data.recognition import recognise
from dura.data.sources import folder_kind
from dura.data.sources.found import Described
from dura.data.sources.neo4j import fits, fits_file, load, parse_header, read_file
from dura.types import BadInput

OPTIONS = ReadOptions()


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name.replace('__', '-')}.csv").write_text(text, "utf-8")
    return folder


def test_nodes_and_relationships(tmp_path: Path) -> None:
    write(
        tmp_path,
        people='id:ID(Person),name,:LABEL,description\n1,"Ann, the ""boss""",Person;Boss,"two\nlines"\n2,Bö b,Person,\n',
        knows=":START_ID(Person),since:int,:END_ID(Person),:TYPE\n1,2000,2,KNOWS\n2,2001,1,LIKES\n",
    )
    assert folder_kind(tmp_path) is load
    found = load(tmp_path, OPTIONS)
    sheet = found.sheets["train"]
    assert sheet.titles == ("head", "relation", "tail", "since")
    assert sheet.rows.rows() == [("1", "KNOWS", "2", "2000"), ("2", "LIKES", "1", "2001")]
    assert recognise(sheet, OPTIONS).positions[:3] == (0, 1, 2)
    assert found.entities.labels == {"1": 'Ann, the "boss"', "2": "Bö b"}
    assert found.entities.types == {"1": ("Person", "Boss"), "2": ("Person",)}
    assert found.entities.descriptions == {"1": "two\nlines"}


def test_headers_in_files_of_their_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        knows__header=":START_ID;:END_ID;:TYPE;weight:float",
        knows__part1="1;2;KNOWS;0.5\n",
        knows__part2="2;3;KNOWS;1\n",
        other="a,b\n",
    )
    found = load(tmp_path, OPTIONS)
    assert found.sheets["train"].rows.rows() == [("1", "KNOWS", "2"), ("2", "KNOWS", "3")]
    assert "properties of relationships are not used: weight" in found.sheets["train"].notes
    assert "not used, because no header belongs to them: other.csv" in found.sheets["train"].notes


def test_the_same_id_in_two_groups(tmp_path: Path) -> None:
    write(
        tmp_path,
        people="id:ID(Person),name\n1,Ann\n",
        films="id:ID(Film),title\n1,Up\n",
        saw=":START_ID(Person),:END_ID(Film)\n1,1\n",
    )
    found = load(tmp_path, OPTIONS)
    assert found.sheets["train"].rows.rows() == [("Person/1", "saw", "Film/1")]
    assert found.entities.labels == {"Person/1": "Ann", "Film/1": "Up"}
    assert "ids of several groups are the same, so names are written as group/id" in found.sheets["train"].notes
    assert "saw.csv has no column :TYPE, so its facts have the relation 'saw'" in found.sheets["train"].notes


def test_an_export_of_apoc(tmp_path: Path) -> None:
    text = '"_id","_labels","name","_start","_end","_type","since"\n"0",":Person:Boss","Ann",,,,\n"1",":Person","Bob",,,,\n'
    write(tmp_path, all=text + ',,,"0","1","KNOWS","2000"\n')
    assert fits_file(tmp_path / "all.csv")
    sheet = read_file(tmp_path / "all.csv", OPTIONS)
    assert isinstance(sheet, Described)
    assert sheet.rows.select("head", "relation", "tail").rows() == [("0", "KNOWS", "1")]
    assert sheet.entities.labels == {"0": "Ann", "1": "Bob"}
    assert sheet.entities.types == {"0": ("Person", "Boss"), "1": ("Person",)}


def test_bad_lines_are_named(tmp_path: Path) -> None:
    write(tmp_path, knows=":START_ID,:END_ID,:TYPE\n1,2,KNOWS\n1,2\n,2,KNOWS\n")
    with pytest.raises(BadInput) as error:
        load(tmp_path, OPTIONS)
    assert "knows.csv:3: 2 columns instead of 3" in str(error.value)
    assert "knows.csv:4: the start, the end or the type of a relationship is empty" in str(error.value)
    found = load(tmp_path, ReadOptions(skip_bad=True))
    assert len(found.sheets["train"]) == 1 and "2 bad lines of knows.csv are skipped" in found.sheets["train"].notes


def test_other_folders_and_files_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, train="head,relation,tail\na,b,c\n", nodes="id:ID,name\n1,x\n")
    assert not fits(tmp_path) and folder_kind(tmp_path) is None
    assert not fits_file(tmp_path / "train.csv")
    with pytest.raises(BadInput, match="has no header of Neo4j such as :START_ID,:END_ID,:TYPE"):
        read_file(tmp_path / "train.csv", OPTIONS)


def test_headers() -> None:
    header = parse_header("personId:ID(Person){label:Person},name:string,:IGNORE,:LABEL", ",")
    assert header is not None and header.kinds == {"ID": 0, "LABEL": 3} and header.groups["ID"] == "Person"
    assert header.properties == {"personId": 0, "name": 1}
    assert parse_header("http://a,b", ",") is None


def test_a_header_without_an_end_is_none(tmp_path: Path) -> None:
    write(tmp_path, knows=":START_ID,:END_ID,:TYPE" + ",x" * 1_000_000 + "\n1,2,KNOWS\n")
    assert not fits(tmp_path)


def test_what_is_known_about_nodes_becomes_descriptions(tmp_path: Path) -> None:
    write(tmp_path, people='id:ID,name,:LABEL\n1,"Ann\n  Lee",Person\n', knows=":START_ID,:END_ID,:TYPE\n1,1,KNOWS\n")
    about = load(tmp_path, OPTIONS).entities.finished()
    assert about.label("1") == "Ann Lee" and about.types == {"1": ("Person",)}
