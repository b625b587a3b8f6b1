"""RDF files, written by rdflib or by hand."""

from __future__ import annotations

import gzip
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources import rdf
from dura.data.sources.found import Described
from dura.types import BadInput

pytest.importorskip("pyoxigraph", reason="RDF needs the extra rdf")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib warns of its own functions

OPTIONS = ReadOptions()
E = rdflib.Namespace("http://example.org/")
FORMS: dict[str, tuple[str, Callable[[Path, ReadOptions], Sheet]]] = {
    "nt": ("nt", rdf.read_ntriples),
    "nquads": ("nq", rdf.read_nquads),
    "turtle": ("ttl", rdf.read_turtle),
    "trig": ("trig", rdf.read_trig),
    "xml": ("rdf", rdf.read_xml),
}
LOCAL = st.text("abcXYZ019éßü中", min_size=1, max_size=6)
XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://example.org/">{}</rdf:RDF>'


def read(path: Path, form: str, text: str | bytes) -> Described:
    ending, reader = FORMS[form]
    file = path / f"a.{ending}"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    sheet = reader(file, OPTIONS)
    assert isinstance(sheet, Described) and sheet.titles == ("head", "relation", "tail")
    return sheet


def people() -> rdflib.Graph:
    graph = rdflib.Graph()
    graph.bind("e", E)
    graph.add((E.ann, E.knows, E.bob))
    graph.add((E.ann, rdflib.RDF.type, rdflib.FOAF.Person))
    graph.add((E.ann, rdflib.RDFS.label, rdflib.Literal("Anne", lang="fr")))
    graph.add((E.ann, rdflib.RDFS.label, rdflib.Literal("Ann", lang="en")))
    graph.add((E.ann, rdflib.RDFS.comment, rdflib.Literal("a person")))
    graph.add((E.knows, rdflib.RDFS.label, rdflib.Literal("knows well")))
    graph.add((E.bob, E.age, rdflib.Literal(7)))
    return graph


@pytest.mark.parametrize("form", FORMS)
def test_what_rdflib_writes(form: str, tmp_path: Path) -> None:
    graph = rdflib.Dataset() if form in ("nquads", "trig") else rdflib.Graph()
    graph.bind("e", E)
    for triple in people():
        graph.add(triple)
    sheet = read(tmp_path, form, graph.serialize(format=form, encoding="utf-8"))
    name = str(E)
    assert sorted(sheet.rows.rows()) == [
        (f"{name}ann", f"{name}knows", f"{name}bob"),
        (f"{name}ann", str(rdflib.RDF.type), str(rdflib.FOAF.Person)),
    ]
    assert sheet.entities.labels[f"{name}ann"] == "Ann"
    assert sheet.entities.types == {f"{name}ann": ("foaf:Person",)}
    assert sheet.entities.descriptions == {f"{name}ann": "a person"}
    assert sheet.relations.labels == {f"{name}knows": "knows well", str(rdflib.RDF.type): "rdf:type"}
    if form in ("turtle", "trig", "xml"):
        assert sheet.entities.labels[f"{name}bob"] == "e:bob"
    assert "5 statements with literals are no facts (most often rdfs:label 3" in "\n".join(sheet.notes)
    assert "IRIs are shortened with prefixes for display" in sheet.notes[-2]


@pytest.mark.parametrize("form", FORMS)
@given(rows=st.lists(st.tuples(LOCAL, LOCAL), min_size=1, max_size=5, unique=True))
def test_names_come_back(form: str, rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = rdflib.Dataset() if form in ("nquads", "trig") else rdflib.Graph()
    for head, tail in rows:
        graph.add((E[head], E.knows, E[tail]))
    sheet = read(tmp_path_factory.mktemp("back"), form, graph.serialize(format=form, encoding="utf-8"))
    found = {(head.removeprefix(str(E)), tail.removeprefix(str(E))) for head, _, tail in sheet.rows.rows()}
    assert found == set(rows)


def test_compressed(tmp_path: Path) -> None:
    (tmp_path / "a.nt.gz").write_bytes(gzip.compress(b"<http://a> <http://b> <http://c> .\n"))
    assert rdf.read_ntriples(tmp_path / "a.nt.gz", OPTIONS).rows.rows() == [("http://a", "http://b", "http://c")]


def test_blank_nodes_have_the_same_names_each_time(tmp_path: Path) -> None:
    text = "@prefix e: <http://e/> . [] e:p [ e:q e:r ] . _:x e:p e:y ; e:q _:anon_a_1 ."
    first, second = (read(tmp_path, "turtle", text) for _ in range(2))
    assert first.rows.equals(second.rows)
    assert first.rows["head"].to_list() == ["_:anon_a_1", "_:anon_a_2", "_:x", "_:x"]
    assert first.rows["tail"].to_list() == ["http://e/r", "_:anon_a_1", "http://e/y", "_:anon_a_1x"]
    assert "4 blank nodes are entities, named _:id" in first.notes


def test_blank_nodes_of_lines_keep_their_names(tmp_path: Path) -> None:
    name = "_:b8c33e02bb8b80a0a343d937841b4b7"  # as in an export whose splits are files of their own
    assert read(tmp_path, "nt", f"{name} <http://b> <http://c> .\n").rows["head"].to_list() == [name]


def test_quoted_triples_graphs_and_relative_names(tmp_path: Path) -> None:
    sheet = read(tmp_path, "turtle", "<a> <b> <c> . <a> <b> <<( <a> <b> <c> )>> .")
    assert sheet.rows.rows() == [("file:///a", "file:///b", "file:///c")]
    assert "1 statements about statements (quoted triples) are left out" in sheet.notes
    assert "relative IRIs begin with file:///, because the file names no base" in sheet.notes
    sheet = read(tmp_path, "nquads", "<http://a> <http://b> <http://c> <http://g> .\n")
    assert "named graphs are ignored: their statements are read as one graph" in sheet.notes


def test_bad_lines_are_named(tmp_path: Path) -> None:
    good = "<http://a> <http://b> <http://c> .\n"
    sheet = read(tmp_path, "nt", f"{good}nonsense\n{good}<http://a b> <http://b> <http://c> .\n{good}")
    assert len(sheet) == 3 and sheet.bad is not None
    assert [str(bad).rpartition("a.nt")[2][:3] for bad in sheet.bad.first] == [":2:", ":4:"]
    with pytest.raises(BadInput, match=r"a\.ttl:2: The prefix z: has not been declared"):
        read(tmp_path, "turtle", "<http://a> <http://b> <http://c> .\nz:a <http://b> <http://c> .\n")
    for end in (b'<http://a> <http://b> "open .\n', b"<http://a> <http://b> <http://\xff> .\n"):
        with pytest.raises(BadInput, match=r"a\.nt:2: "):  # the parser cannot go on after these, so nothing is skipped
            read(tmp_path, "nt", good.encode() + end + good.encode())


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(BadInput, match=r"RDF files need pyoxigraph; install it with: pip install 'dura-kge\[rdf\]'"):
        read(tmp_path, "nt", "")


def test_damage_inside_of_a_compressed_file(tmp_path: Path) -> None:
    packed = gzip.compress(b"<http://a> <http://b> <http://c> .\n" * 1000)
    (tmp_path / "a.nt.gz").write_bytes(packed[:-20])
    with pytest.raises(BadInput, match="is cut short"):
        rdf.read_ntriples(tmp_path / "a.nt.gz", OPTIONS)


# -- hostile files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["nt", "turtle"])
@pytest.mark.parametrize("between", [b" ", b'\n#"\n'])
def test_triples_nested_without_end_are_refused(form: str, between: bytes, tmp_path: Path) -> None:
    if form == "nt":
        between = b" "
    deep = (b"<<( <http://a>" + between + b"<http://b> ") * 200_000
    with pytest.raises(BadInput, match="more than 100 triples inside of each other"):
        read(tmp_path, form, b"<http://a> <http://b> " + deep + b"<http://c> " + b")>> " * 200_000 + b".")


def test_flat_quoted_triples_are_fine(tmp_path: Path) -> None:
    line = "<http://a> <http://b> <<( <http://a> <http://b> <http://c> )>> .\n"
    assert "1,000 statements about statements (quoted triples) are left out" in read(tmp_path, "nt", line * 1000).notes


@pytest.mark.parametrize(
    "entities",
    [
        '<!ENTITY a "lol"><!ENTITY b "&a;&a;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        "<!ENTITY a '" + "x" * 1000 + "'>",
        '<!ENTITY % a "x">',
        '<!ENTITY a "b">' + " " * 65_480 + '<!ENTITY b "&a;&a;">' + " " * 70_000,
    ],
)
def test_entities_that_grow_or_reach_out_are_refused(entities: str, tmp_path: Path) -> None:
    body = XML.format('<rdf:Description rdf:about="http://x/"><e:p rdf:resource="http://y/"/></rdf:Description>')
    with pytest.raises(BadInput, match="XML entity"):
        read(tmp_path, "xml", f"<!DOCTYPE r [{entities}]>{body}")


def test_short_entities_are_read(tmp_path: Path) -> None:
    body = XML.format('<rdf:Description rdf:about="&o;a"><e:p rdf:resource="&o;b"/></rdf:Description>')
    sheet = read(tmp_path, "xml", f'<!DOCTYPE r [<!ENTITY o "http://o/">]>{body}')
    assert sheet.rows.rows() == [("http://o/a", "http://example.org/p", "http://o/b")]


def test_deep_xml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="thousands of XML elements inside of each other"):
        read(tmp_path, "xml", XML.partition("{")[0] + "<rdf:Description><e:p>" * 100_000)


def test_prefixes_that_grow_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text(f"@prefix a: <http://{'x' * 5000}/> .\n" + "a:b a:c a:d .\n" * 20_000)
    with pytest.raises(BadInput, match=r"more than 0\.02 GB of names; .* --most-gb"):
        rdf.read_turtle(tmp_path / "a.ttl", ReadOptions(most_gb=0.01))


def test_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/more.ttl"
        text = f"@base <{address}> . <> <http://www.w3.org/2002/07/owl#imports> <{address}> ."
        assert len(read(tmp_path, "turtle", text)) == 1
        with pytest.raises(TimeoutError):
            server.accept()
