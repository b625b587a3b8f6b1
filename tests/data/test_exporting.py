from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyoxigraph
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.assembly import Shares
from dura.data.exporting import BASE, WRITERS, _term, export_graph, import_graph
from dura.data.graph import Graph
from dura.data.loading import load
from dura.data.memory import from_facts
from dura.data.readers import ReadOptions
from dura.data.stored import store
from dura.types import SPLITS, BadInput, DuraError

ALIKE = ["parquet", "arrow", "csv", "tsv", "jsonl"]
"""The formats that keep everything."""
ODD = [
    ('say "hi"', "r,1", "Zürich"),
    ("a,b", "r;2", "'quoted'"),
    (" spaces ", "r 3", "東京 🗼"),
    ("\u00a0", "r,1", "null"),
    ("NaN", "-", "1.50"),
    ("head", "relation", "tail"),
    ('"', "#", "\\N"),
    ("Zürich", "r,1", 'say "hi"'),
    ("true", "r 3", "a\x0bb"),
]


def described(facts: Any = ODD, **more: Any) -> Graph:
    return from_facts(
        facts,
        facts[:2],
        facts[2:3],
        name="odd",
        labels={"a,b": 'A, "B"', "Zürich": "Zürich; the city"},
        entity_types={"a,b": ["letter", "pair of letters"], "東京 🗼": "city", "Zürich": ["city"]},
        relation_labels={"r,1": "first"},
        **more,
    )


def again(graph: Graph, path: Path, form: str = "") -> Graph:
    """The graph after it was written and read. The splits of a folder must all be there."""
    files = export_graph(graph, path, format=form)
    assert all(file.is_file() for file in files)
    return load(path, valid_share=0, test_share=0)


def named(graph: Graph) -> set[tuple[str, ...]]:
    facts = [fact for split in SPLITS for fact in graph.facts(split).tolist()]
    times = graph.times
    return {
        (
            graph.entities.name(head),
            graph.relations.name(relation),
            graph.entities.name(tail),
            *(times.column([time])[0] for time in when if times is not None),  # type: ignore[arg-type]
        )
        for head, relation, tail, *when in facts
    }


@pytest.mark.parametrize("form", ALIKE)
def test_a_folder_keeps_everything(tmp_path: Path, form: str) -> None:
    graph = described()
    read = again(graph, tmp_path / "folder", form)
    assert read.digest == graph.digest
    assert read.about_entities == graph.about_entities
    assert read.about_relations == graph.about_relations
    there = sorted(file.name for file in (tmp_path / "folder").iterdir())
    assert there == sorted(f"{name}.{form}" for name in ("train", "valid", "test", "entities", "relations"))


@pytest.mark.parametrize("form", ALIKE)
def test_a_file_keeps_all_facts(tmp_path: Path, form: str) -> None:
    graph = described()
    read = again(graph, tmp_path / f"facts.{form}")
    assert named(read) == named(graph) == set(ODD)


@pytest.mark.parametrize("form", ALIKE)
@pytest.mark.parametrize(
    "facts",
    [
        [("a", "r", "b", "2014-05-06"), ("b", "r", "c", "2014-05"), ("c", "s", "a", None), ("a", "s", "c", "2015")],
        [("a", "r", "b", "2014-05-06T13"), ("b", "r", "c", "2014-05-06T14"), ("c", "s", "a", "2014-05-07T00")],
        [("a", "r", "b", "2014-W19"), ("b", "r", "c", "2014-W20"), ("c", "s", "a", "2014-W21")],
        [("a", "r", "b", "-44"), ("b", "r", "c", "3.5"), ("c", "s", "a", "2014")],
        [("a", "r", "b", "20140506"), ("b", "r", "c", "20140507"), ("c", "s", "a", "20140508")],
        [("a", "r", "b", "spring"), ("b", "r", "c", "summer"), ("c", "s", "a", "autumn, late")],
        [("a", "r", "b", "2001", "2003"), ("b", "r", "c", None, "2002"), ("c", "s", "a", "2002", None)],
        [("a", "r", "b", "2001-01-02", "2003-02"), ("b", "r", "c", "2002-01-01", "2002-01-01"), ("c", "s", "a", None, None)],
    ],
)  # fmt: skip
def test_times_are_kept(tmp_path: Path, form: str, facts: list[Any]) -> None:
    graph = from_facts(facts, facts[:1], facts[1:2], time_unit="hour" if "T" in str(facts[0][3]) else "auto")
    read = again(graph, tmp_path / "folder", form)
    assert read.times is not None and graph.times is not None
    assert (read.times.kind, list(read.times)) == (graph.times.kind, list(graph.times))
    assert read.digest == graph.digest


NAMES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1, max_size=8)
FACTS = st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=6)
LABELS = st.dictionaries(st.integers(0, 5), NAMES.filter(str.strip), max_size=4)


@settings(max_examples=40)
@pytest.mark.parametrize("form", ALIKE)
@given(facts=FACTS, test=FACTS, labels=LABELS)
def test_any_names_and_labels_survive(
    tmp_path_factory: pytest.TempPathFactory,
    form: str,
    facts: Any,
    test: Any,
    labels: dict[int, str],
) -> None:
    called = {facts[at % len(facts)][0]: label for at, label in labels.items()}
    graph = from_facts(facts, facts[:1], test, labels=called, entity_types=called)
    folder = tmp_path_factory.mktemp("any")
    if form == "tsv" and any(mark in name for fact in [*facts, *test] for name in fact for mark in "\t\r"):
        with pytest.raises(BadInput, match="holds a tab or a line break, which TSV cannot hold; export as csv"):
            export_graph(graph, folder / "x", format="tsv")
        assert not (folder / "x").exists()
        return
    read = again(graph, folder / "x", form)
    assert read.digest == graph.digest
    assert read.labels == graph.labels


# -- N-Triples ----------------------------------------------------------------------------------------------------------


def plain(name: str) -> str:
    return unquote(name.removeprefix(BASE)) if name.startswith(BASE) else name


@pytest.mark.parametrize("path", ["all.nt", "folder"])
def test_ntriples_hold_the_facts(tmp_path: Path, path: str) -> None:
    facts = [*ODD, ("http://example.org/a#b", "http://example.org/r", "_:node"), ("_:node", "_:r", "_:odd one")]
    graph = described(facts)
    read = again(graph, tmp_path / path, "nt")
    assert {tuple(map(plain, fact)) for fact in named(read)} == named(graph)
    assert "http://example.org/a#b" in read.entities
    assert "_:node" in read.entities


@given(NAMES | st.from_regex(r"\A[a-z]{1,4}:[/\[\]%?#@:a-z0-9é_-]{0,8}\Z"))
def test_every_name_becomes_a_valid_iri(name: str) -> None:
    for blank in (True, False):
        term = _term(name, blank)
        if term.startswith("<"):
            assert plain(pyoxigraph.NamedNode(term[1:-1]).value) == plain(name)
        else:
            assert blank
            pyoxigraph.BlankNode(term[2:])
        (quad,) = pyoxigraph.parse(f"{term} <a:r> {term} .".encode(), pyoxigraph.RdfFormat.N_TRIPLES)
        assert str(quad.object) == term


def test_ntriples_refuse_times_and_names_that_would_be_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="N-Triples cannot hold times; export the graph as csv, tsv, jsonl or parquet"):
        export_graph(from_facts([("a", "r", "b", "2014")]), tmp_path / "x.nt")
    with pytest.raises(BadInput, match="two names would both be <urn:dura:a> in N-Triples"):
        export_graph(from_facts([("a", "r", "urn:dura:a")]), tmp_path / "x.nt")
    assert not (tmp_path / "x.nt").exists()


# -- what is refused ----------------------------------------------------------------------------------------------------


def test_tsv_refuses_tabs_and_leaves_nothing(tmp_path: Path) -> None:
    graph = from_facts([("a", "r", "b")], [("a", "r", "a")], [("a\tx", "r", "b")])
    for path in (tmp_path / "x.tsv", tmp_path / "new" / "folder"):
        with pytest.raises(BadInput, match=r"the head 'a\\tx' holds a tab or a line break, which TSV cannot hold"):
            export_graph(graph, path, format="tsv")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    graph = described()
    (tmp_path / "x.csv").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    for path in (tmp_path / "x.csv", tmp_path / "full"):
        with pytest.raises(BadInput, match=r"is there already; name a new file or folder"):
            export_graph(graph, path)
        with pytest.raises(BadInput, match=r"is there already"):
            import_graph("nations", path, ReadOptions(), Shares(), split=False)
    assert (tmp_path / "x.csv").read_text() == "mine"
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    assert again(graph, tmp_path / "empty").digest == graph.digest


def test_unknown_formats(tmp_path: Path) -> None:
    known = "known are " + ", ".join(WRITERS)
    with pytest.raises(BadInput, match=f"'xlsx' is not a format to write; {known}"):
        export_graph(described(), tmp_path / "x.xlsx")
    with pytest.raises(BadInput, match=f"'ttl' is not a format to write; {known}"):
        export_graph(described(), tmp_path / "folder", format="ttl")
    with pytest.raises(BadInput, match=r"ends in \.tsv, but the format is to be csv"):
        export_graph(described(), tmp_path / "x.tsv", format="csv")
    assert list(tmp_path.iterdir()) == []


def test_a_type_that_holds_a_mark_stays_one_type(tmp_path: Path) -> None:
    graph = from_facts([("a", "r", "b")], entity_types={"a": ["x; y", "z|w"]}, valid_share=0, test_share=0)
    assert again(graph, tmp_path / "x").types("a") == ("x, y", "z,w")


@pytest.mark.parametrize("form", WRITERS)
def test_disk_errors_are_one_sentence(tmp_path: Path, form: str) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / f"x.{form}", tmp_path / "file" / "folder"):
        with pytest.raises(DuraError, match=r"^cannot write .* in the folder .*; name another place$") as error:
            export_graph(described(), path, format=form)
        assert "\n" not in str(error.value)


FULL = """
import resource, sys
from dura.data.exporting import export_graph
from dura.data.loading import load
from dura.types import DuraError
graph = load("umls")
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    export_graph(graph, sys.argv[1], format=sys.argv[2])
except DuraError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="only Unix limits the size of files")
@pytest.mark.parametrize("form", WRITERS)
def test_a_file_that_cannot_grow_is_said_and_removed(tmp_path: Path, form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "out", form], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout.startswith("cannot write ")
    assert done.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# -- importing ----------------------------------------------------------------------------------------------------------


def test_import_holds_nothing_out_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text("from,kind,to\n" + "".join(f"a{i % 9},r{i % 2},b{i % 7}\n" for i in range(126)))
    loaded, files = import_graph(tmp_path / "facts.csv", tmp_path / "whole", ReadOptions(), Shares(), split=False)
    assert [file.name for file in files] == ["train.parquet"]
    assert len(loaded.graph.train) == 126
    split, files = import_graph(tmp_path / "facts.csv", tmp_path / "split", ReadOptions(), Shares(), split=True)
    assert [file.name for file in files] == ["train.parquet", "valid.parquet", "test.parquet"]
    assert load(tmp_path / "split").digest == split.graph.digest
    assert load(tmp_path / "whole", split_seed=3).digest == load(tmp_path / "facts.csv", split_seed=3).digest


def test_published_stored_and_temporal_graphs(tmp_path: Path) -> None:
    umls = load("umls")
    loaded, _ = import_graph("umls", tmp_path / "umls", ReadOptions(), Shares(), split=False)
    assert loaded.graph.digest == umls.digest == load(tmp_path / "umls").digest
    store(described(), tmp_path / "stored")
    assert again(load(tmp_path / "stored"), tmp_path / "back", "csv").digest == described().digest
    dated = from_facts(
        [("a", "r", "b", "2014-05-06"), ("b", "r", "a", None)], [("a", "r", "b", "2014")], [("b", "r", "b", "2013")]
    )
    store(dated, tmp_path / "dated")
    assert again(load(tmp_path / "dated"), tmp_path / "dated-back", "jsonl").digest == dated.digest
