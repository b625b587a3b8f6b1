"""Files and columns that describe entities and relations are recognised, and what is odd in them is told."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dura
from dura.data.describing import Described, describe, described_columns, from_columns
from dura.data.descriptions import Descriptions
from dura.data.graph import Graph
from dura.data.sheet import Sheet
from dura.types import BadInput

FACTS = "head,relation,tail\nQ64,P17,Q183\nQ821244,P17,Q30\nQ183,P36,Q64\nQ64,P36,Q30\n"


def sheet(*rows: tuple[str | None, ...], titles: tuple[str, ...] | None = None) -> Sheet:
    width = max(map(len, rows), default=0)
    full = [(*row, *(None,) * (width - len(row))) for row in rows]
    frame = pl.DataFrame(full, schema=dict.fromkeys(map(str, range(width)), pl.String), orient="row")
    return Sheet("some/entities.csv", frame, titles)


def read(folder: Path, **files: str) -> tuple[Graph, list[str]]:
    (folder / "train.csv").write_text(FACTS)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    notes: list[str] = []
    return dura.load(folder, notify=notes.append), notes


@pytest.mark.parametrize(
    ("titles", "row", "expected"),
    [
        (("entity", "label"), ("a", "Anna"), Descriptions({"a": "Anna"})),
        (("ID", "Name"), ("a", "Anna"), Descriptions({"a": "Anna"})),
        (("name", "label"), ("a", "Anna"), Descriptions({"a": "Anna"})),
        (("label", "id", "type"), ("Anna", "a", "person"), Descriptions({"a": "Anna"}, {"a": ("person",)})),
        (("personId:ID(Person)", "name:string", ":LABEL"), ("a", "Anna", "Person;Author"),
         Descriptions({"a": "Anna"}, {"a": ("Person", "Author")})),
        (("entity_id", "rdfs:label", "Class"), ("a", "Anna", "x|y; x"), Descriptions({"a": "Anna"}, {"a": ("x", "y")})),
        (("id", "title", "types", "text"), ("a", "Anna", "", " a\nbook "), Descriptions({"a": "Anna"}, {}, {"a": "a book"})),
        (("id", "age", "comment"), ("a", "7", "old"), Descriptions({}, {}, {"a": "old"})),
        (("id", "relation", "label"), ("a", "r", "Anna"), Descriptions({"a": "Anna"})),
    ],
)  # fmt: skip
def test_headers(titles: tuple[str, ...], row: tuple[str, ...], expected: Descriptions) -> None:
    with_titles, without = describe(sheet(row, titles=titles), "entity"), describe(sheet(titles, row), "entity")
    assert with_titles.about == without.about == expected
    assert with_titles.notes[0].startswith("entities.csv: ") and with_titles.notes == without.notes
    assert not with_titles.warnings


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("a", "Anna"), Descriptions({"a": "Anna"})),
        (("a", "Anna", "person"), Descriptions({"a": "Anna"}, {"a": ("person",)})),
        (("a", "", "person", "a book"), Descriptions({}, {"a": ("person",)}, {"a": "a book"})),
    ],
)
def test_without_a_header_the_order_counts(row: tuple[str, ...], expected: Descriptions) -> None:
    found = describe(sheet(row), "entity")
    assert found.about == expected
    order = [
        "entities.csv: its columns are name, label, type",
        "entities.csv: its columns are name, label, type, description",
    ]
    assert found.notes == ([] if len(row) == 2 else [order[len(row) - 3]])


def test_what_cannot_describe() -> None:
    assert describe(sheet(("a",), ("b",)), "relation").warnings == [
        "entities.csv has one column, so it describes no relation; add a column with labels"
    ]
    with pytest.raises(BadInput, match="has 5 columns, but it is not known what they hold; give it a header with"):
        describe(sheet(("a", "b", "c", "d", "e")), "entity")
    with pytest.raises(BadInput, match="has the columns 'mid', 'title', which do not describe entities; give it"):
        describe(sheet(("a", "b"), titles=("mid", "title")), "entity")
    assert describe(sheet(), "entity").warnings == ["entities.csv is empty, so it describes no entity"]


def test_a_list_of_ids_is_no_list_of_labels() -> None:
    numbers = describe(sheet(("a", "1"), ("b", "0"), ("c", "2")), "entity")
    assert numbers == Described(Descriptions(), [], numbers.warnings) and "a list of ids" in numbers.warnings[0]
    years = describe(sheet(("a", "1999"), ("b", "2001")), "entity")
    assert years.about.labels == {"a": "1999", "b": "2001"} and not years.warnings


def test_bad_rows_have_their_line_and_can_be_skipped() -> None:
    rows = [("id", "label"), ("", "Anna"), ("b", "Bert"), (None, None), ("c", "Carl")]
    with pytest.raises(
        BadInput, match="1 line is bad in some/entities.csv .*\n  some/entities.csv:2: the name is empty"
    ):
        describe(sheet(*rows), "entity")
    found = describe(sheet(*rows), "entity", skip_bad=True)
    assert found.about.labels == {"b": "Bert", "c": "Carl"}
    assert found.notes[-1] == "entities.csv: 1 bad line is skipped, first some/entities.csv:2: the name is empty"
    plain = [(f"e{i}", f"label {i}") for i in range(30)]
    with pytest.raises(BadInput, match="entities.csv:31: 1 column instead of 2\n.*:32: 3 columns instead of 2"):
        describe(sheet(*plain, ("x",), ("y", "stray", "tab")), "entity")


def test_several_lines_of_a_name() -> None:
    rows = [("id", "label", "type"), ("a", "", "x"), ("a", "Anna", "y"), ("a", "Ann", "x"), ("b", "Anna", "")]
    found = describe(sheet(*rows), "entity")
    assert found.about == Descriptions({"a": "Anna", "b": "Anna"}, {"a": ("x", "y")})
    assert found.notes[1:] == [
        "entities.csv: 1 name has several labels; the first one of each is used",
        "entities.csv: 1 label is shared by several entities; ask for these by name",
    ]


def test_long_texts_are_cut_and_that_is_told() -> None:
    rows = [
        ("id", "label", "description", "type"),
        ("a", "x" * 2000, "y" * 20_000, ";".join(f"t{i}" for i in range(150))),
    ]
    found = describe(sheet(*rows), "entity")
    assert (len(found.about.labels["a"]), len(found.about.descriptions["a"]), len(found.about.types["a"])) == (
        1000,
        10_000,
        100,
    )
    assert len([note for note in found.notes if "longer than" in note or "more than 100 types" in note]) == 3


CELLS = st.one_of(
    st.none(), st.text(st.characters(codec="utf-8"), max_size=8), st.sampled_from(["id", "label", "type", "a"])
)


@given(st.integers(1, 6).flatmap(lambda width: st.lists(st.tuples(*[CELLS] * width), max_size=12)))
def test_any_sheet_is_described_or_refused_in_one_sentence(rows: list[tuple[str | None, ...]]) -> None:
    try:
        found = describe(sheet(*rows), "entity")
    except BadInput as error:
        assert "entities.csv" in str(error)
        return
    for label in found.about.labels.values():
        assert label == " ".join(label.split()) and label
    names = {row[at] for row in rows for at in range(len(row))}
    assert {*found.about.labels, *found.about.types, *found.about.descriptions} <= names


def test_a_folder_with_both_files(tmp_path: Path) -> None:
    entities = (
        'id,label,type,description\nQ64,Berlin,city;capital,"the capital, since 1990"\nQ821244,Berlin,,\nQ9,Nobody,,\n'
    )
    graph, notes = read(tmp_path, entities_csv=entities, relations_tsv="P17\tcountry\nP36\tcapital\n")
    assert graph.labels == {"Q64": "Berlin", "Q821244": "Berlin"}
    assert graph.types("Q64") == ("city", "capital")
    assert graph.entity_descriptions == {"Q64": "the capital, since 1990"}
    assert graph.relation_labels == {"P17": "country", "P36": "capital"}
    used = "entities.csv: 'id' is the name, 'label' is the label, 'type' is the type, 'description' is the description"
    assert [note for note in notes if note.startswith("entities")] == [
        used,
        "entities.csv: 1 label is shared by several entities; ask for these by name",
        "entities.csv: 1 name is not in the graph and left out",
    ]


def test_files_of_strangers_are_told(tmp_path: Path) -> None:
    graph, notes = read(tmp_path, entities_tsv="x\tXaver\ny\tYvonne\n", relations_txt="P17\nP36\n")
    assert not graph.about_entities and not graph.about_relations
    assert "warning: entities.tsv: none of its 2 names is in the graph, so it describes nothing" in notes
    assert "warning: relations.txt has one column, so it describes no relation; add a column with labels" in notes


def test_files_next_to_one_file_of_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("facts.csv").write_text(FACTS)
    Path("who.tsv").write_text("Q64\tBerlin\n")
    Path("what.csv").write_text("relation,label\nP17,country\n")
    graph = dura.load("facts.csv", entities="who.tsv", relations=Path("what.csv"))
    assert (graph.label("Q64"), graph.relation_label("P17")) == ("Berlin", "country")
    assert dura.read("facts.csv", entities="who.tsv").labels == {"Q64": "Berlin"}
    stored = dura.data.store(graph, tmp_path / "stored")
    Path("more.tsv").write_text("Q64\tBERLIN\nQ30\tUSA\n")
    again = dura.load(stored, entities="more.tsv")
    assert again.labels == {"Q64": "BERLIN", "Q30": "USA"} and again.relation_labels == {"P17": "country"}
    with pytest.raises(BadInput, match="nowhere.tsv"):
        dura.load("facts.csv", entities="nowhere.tsv")


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("head_label", ("head", "label")),
        ("headLabel", ("head", "label")),
        ("Object Label", ("tail", "label")),
        ("source_type", ("head", "type")),
        ("target-type", ("tail", "type")),
        ("predicate_label", ("relation", "label")),
        ("tail_description", ("tail", "description")),
        ("edge_type", None),
        ("relation_type", None),
        ("label", None),
        ("head", None),
        ("from_id", None),
        ("head_label_en", None),
    ],
)
def test_columns_of_facts_that_describe(title: str, expected: tuple[str, str] | None) -> None:
    assert described_columns(("a", title)) == ({} if expected is None else {expected: 1})


def test_descriptions_from_columns_of_facts() -> None:
    names = {
        "head": pl.Series(["a", "b", "a"]),
        "relation": pl.Series(["r", "s", "r"]),
        "tail": pl.Series(["b", "c", "b"]),
    }
    columns = {
        ("head", "label"): pl.Series(["Anna", "Bert ", None]),
        ("tail", "type"): pl.Series(["x;y", "z", ""]),
        ("relation", "label"): pl.Series(["likes", "", "likes"]),
    }
    entities, relations = from_columns("facts.csv", names, columns)  # type: ignore[arg-type]
    assert entities.about == Descriptions({"a": "Anna", "b": "Bert"}, {"b": ("x", "y"), "c": ("z",)})
    assert relations.about == Descriptions({"r": "likes"}) and not entities.notes
