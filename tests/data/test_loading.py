from __future__ import annotations

from pathlib import Path

import pytest

from dura.data.graph import Graph
from dura.data.loading import load, load_with_notes
from dura.data.readers import ReadOptions
from dura.types import BadInput


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DURA_DATA", raising=False)
    monkeypatch.setenv("DURA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def facts(*rows: str) -> str:
    return "".join("\t".join(row.split()) + "\n" for row in rows)


def ring(count: int = 50) -> str:
    return facts(*(f"e{i} r e{(i + step) % count}" for i in range(count) for step in (1, 2, 3)))


def named(graph: Graph, split: str) -> list[tuple[str, str, str]]:
    return [
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
        for h, r, t in getattr(graph, split).tolist()
    ]


def test_one_file_is_split(tmp_path: Path) -> None:
    (tmp_path / "mine.v2.tsv").write_text(ring())
    notes: list[str] = []
    graph = load("mine.v2.tsv", notify=notes.append)
    assert graph.name == "mine.v2"
    assert (len(graph.train), len(graph.valid), len(graph.test)) == (120, 15, 15)
    assert len(graph.unseen) == 0
    assert notes == [
        "mine.v2.tsv: head = column 0, relation = column 1, tail = column 2; for example (e0, r, e1)",
        "split made: 120 train, 15 valid, 15 test (random, seed 0; every entity and relation stays in train)",
    ]
    assert load("./mine.v2.tsv").digest == load(tmp_path / "mine.v2.tsv").digest == graph.digest
    assert load("mine.v2.tsv", split_seed=1).digest != graph.digest
    other = load("mine.v2.tsv", valid_share=0.2, test_share=0)
    assert (len(other.valid), len(other.test)) == (30, 0)


def test_a_folder_with_all_splits_and_labels(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.txt").write_text(facts("a r b", "b r c", "a r b"))
    (folder / "validation.csv").write_text("a,r,c\n")
    (folder / "test.tsv").write_text(facts("c r a", "a r b"))
    (folder / "entities.tsv").write_text("a\tAnna Karenina\nzz\tnobody\n")
    notes: list[str] = []
    graph = load("mine", notify=notes.append, valid_share=0.5)
    assert graph.name == "mine"
    assert named(graph, "train") == [("a", "r", "b"), ("b", "r", "c")]
    assert named(graph, "valid") == [("a", "r", "c")]
    assert named(graph, "test") == [("c", "r", "a"), ("a", "r", "b")]
    assert graph.labels == {"a": "Anna Karenina"}
    assert notes == [
        "train.txt: head = column 0, relation = column 1, tail = column 2; for example (a, r, b)",
        "the shares of valid and test are not used: the graph comes with both",
        "entities.tsv: 1 name is not in the graph and left out",
        "train: 1 fact repeated, counted once",
        "test: 1 fact also in train or valid, so results will look too good",
    ]
    assert load(".//mine").digest == graph.digest


@pytest.mark.parametrize("missing", [("valid",), ("test",), ("valid", "test")])
def test_missing_splits_are_taken_out_of_train(tmp_path: Path, missing: tuple[str, ...]) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.tsv").write_text(ring())
    for part in {"valid", "test"} - set(missing):
        (folder / f"{part}.tsv").write_text(facts("e0 r e20"))
    loaded = load_with_notes(folder)
    graph = loaded.graph
    assert len(graph.train) == 150 - 15 * len(missing)
    for part in ("valid", "test"):
        assert len(getattr(graph, part)) == (15 if part in missing else 1)
    assert loaded.notes[1].startswith("split made: ")
    assert len(graph.unseen) == 0


def test_a_catalog_name_wins_over_a_folder_unless_it_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "nations").mkdir()
    (tmp_path / "nations" / "train.tsv").write_text(ring())
    assert len(load("nations").entities) == 14
    assert len(load("./nations").entities) == 50
    assert len(load("nations/").entities) == 50
    assert len(load(Path("nations")).entities) == 50
    assert load("./nations").name == "nations"


def test_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(ring() + "bad\n" + "e0\t\te1\n")
    with pytest.raises(BadInput, match=r"(?s)2 lines are bad in a\.tsv .*a\.tsv:151: 1 column"):
        load("a.tsv")
    loaded = load_with_notes("a.tsv", ReadOptions(skip_bad=True))
    assert loaded.skipped == 2
    assert [bad.line for bad in loaded.bad] == [151, 152]
    assert loaded.notes[1] == "a.tsv: 2 bad lines skipped, first a.tsv:151: 1 column instead of 3"


def test_options_reach_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("w;to;kind;from\n" + "".join(f"1;b{i};r;a\n" for i in range(5)))
    graph = load("a.csv", columns="from,kind,to", separator=";")
    assert len(graph.entities) == 6
    assert list(graph.relations) == ["r"]
    notes: list[str] = []
    (tmp_path / "b.tsv").write_text("Head\tRelation\tTail\n" + ring())
    assert "Head" not in load("b.tsv", notify=notes.append).entities
    assert notes[0] == "b.tsv: head = 'Head', relation = 'Relation', tail = 'Tail'; for example (e0, r, e1)"


def test_odd_names_survive(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("Ann\u00a0\tr\tbob\nbob\tr\tAnn\nAnn\tr\tann\n".encode())
    graph = load("a.tsv")
    assert list(graph.entities) == ["Ann", "Ann\u00a0", "ann", "bob"]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("nation", r"'nation' is neither a known graph nor a file or folder; did you mean nations\?"),
        ("facts.tsv", r"there is no file facts\.tsv"),
        ("./nowhere", "there is no file nowhere"),
        ("empty", "the folder empty holds no train file"),
        ("one.tsv", "1 column between tabs"),
        ("blank.tsv", "holds no facts"),
    ],
)
def test_wrong_sources(tmp_path: Path, source: str, sentence: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "one.tsv").write_text("x\n")
    (tmp_path / "blank.tsv").write_text("\n")
    with pytest.raises(BadInput, match=sentence):
        load(source)


def test_a_single_fact_is_a_graph(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tr\tb\n")
    graph = load("a.tsv")
    assert (len(graph.train), len(graph.valid), len(graph.test)) == (1, 0, 0)
    assert graph.valid.shape == (0, 3)
    assert graph.known.facts == 2


def test_a_graph_outside_the_catalog_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "Mine").mkdir(parents=True)
    (tmp_path / "data" / "Mine" / "train.tsv").write_text(ring())
    monkeypatch.setenv("DURA_DATA", str(tmp_path / "data"))
    assert load("mine").name == "Mine"
