from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

import dura
from dura.data import graph as graph_module
from dura.data import names as names_module
from dura.data import stored as stored_module
from dura.data.descriptions import Descriptions
from dura.data.doctor import check
from dura.data.graph import Graph
from dura.data.names import StoredNames
from dura.data.questions import Questions
from dura.data.stored import read_stored, store
from dura.data.stored_descriptions import FILES
from dura.records import tensors
from dura.types import SPLITS, BadInput, DuraError
from graphs import dated_graph, random_graph

GRAPHS = [random_graph(), dated_graph(untimed=True), dated_graph(intervals=True)]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All graphs count as large: names stay in files, facts are mapped, questions are kept."""
    monkeypatch.setattr(names_module, "LAZY", 0)
    monkeypatch.setattr(tensors, "MAPPED", 8)
    monkeypatch.setattr(graph_module, "KEPT", 50)
    monkeypatch.setattr(stored_module, "ROWS", 7)


def same(one: Graph, other: Graph) -> bool:
    return one.digest == other.digest and all(np.array_equal(one.facts(s), other.facts(s)) for s in SPLITS)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_a_stored_graph_is_the_same(tmp_path: Path, graph: Graph) -> None:
    folder = store(graph, tmp_path / "folder")
    for found in (read_stored(folder), dura.load(folder), dura.read(str(folder))):
        assert same(found, graph) and found.name == graph.name and found.home == folder
        assert found.entities == graph.entities and found.times == graph.times
        assert found.train.dtype == np.int32


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_a_large_stored_graph_is_the_same(tmp_path: Path, graph: Graph) -> None:
    folder = store(graph, tmp_path / "folder")
    found = read_stored(folder)
    assert same(found, graph) and isinstance(found.entities, StoredNames)
    for name in ("questions", "known", "training_facts", "known_ever"):
        mine, theirs = getattr(found, name), getattr(graph, name)
        again = getattr(read_stored(folder), name)
        for questions in (mine, again):
            assert all(
                np.array_equal(getattr(questions, part), getattr(theirs, part))
                for part in ("head", "relation", "offsets", "answers", *(["time"] if theirs.time is not None else []))
            )
    assert len(list((folder / "cache").glob("*.safetensors"))) == 4
    assert found.unseen.tolist() == graph.unseen.tolist()


def test_labels_are_stored(tmp_path: Path) -> None:
    graph = dura.load("nations")
    labelled = Graph("n", graph.entities, graph.relations, graph.train, graph.valid, graph.test, {"usa": "U\tS A"})
    assert dura.load(store(labelled, tmp_path / "n")).labels == {"usa": "U S A"}


def test_types_descriptions_and_labels_of_relations_are_stored(tmp_path: Path) -> None:
    """Names may hold tabs, and texts anything; old folders without these files are the same graph without them."""
    facts = [("a\tb", "r\t", "c"), ("c", "r\t", "a\tb"), ("c", "s", "c")]
    graph = replace(
        dura.from_facts(facts, valid_share=0, test_share=0),
        labels={"a\tb": "A B", "c": ""},
        entity_types={"a\tb": ("x;y", 'q"\\', "Zürich")},
        entity_descriptions={"c": "two\nlines", "stranger": "left out"},
        relation_labels={"r\t": "is\trelated"},
        relation_types={"s": ("symmetric",)},
        relation_descriptions={"s": "same"},
    )
    folder = store(graph, tmp_path / "graph")
    found = dura.load(folder)
    assert found.about_entities == Descriptions(
        {"a\tb": "A B", "c": ""}, {"a\tb": ("x;y", 'q"\\', "Zürich")}, {"c": "two lines"}
    )
    assert found.about_relations == Descriptions({"r\t": "is related"}, {"s": ("symmetric",)}, {"s": "same"})
    assert found.digest == graph.digest and found.relation("is related") == found.relations.id("r\t")
    for name in (*FILES["entity"], *FILES["relation"]):
        (folder / name).unlink()
    assert not dura.load(folder).about_entities and not dura.load(folder).about_relations


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("types.tsv", "usa\todd\n", "types.tsv is damaged: the types 'odd' cannot be read: it is not JSON"),
        ("types.tsv", 'usa\t["a", 1]\n', "are not a list of at most 100 texts"),
        ("types.tsv", f"usa\t[{','.join(101 * ['0'])}]\n", "are not a list of at most 100 texts"),
        ("descriptions.tsv", "utopia\tx\n", "'utopia' is not an entity of the graph"),
        ("relation-labels.tsv", "usa\tx\n", "'usa' is not a relation of the graph"),
        ("relation-labels.tsv", "embassy\tx\nembassy\ty\n", "with each name at most once"),
        ("relation-types.tsv", "embassy\n", "each line must be a name, a tab and a text"),
    ],
)
def test_descriptions_of_strangers_are_checked(tmp_path: Path, file: str, text: str, why: str) -> None:
    folder = store(dura.load("nations"), tmp_path / "n")
    (folder / file).write_text(text)
    with pytest.raises(DuraError, match=why):
        dura.load(folder)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=5),
        st.tuples(st.text(st.characters(codec="utf-8")), st.lists(st.text(st.characters(codec="utf-8")), max_size=3)),
        min_size=1,
        max_size=5,
    )
)
def test_any_text_is_stored(tmp_path_factory: pytest.TempPathFactory, given: dict[str, tuple[str, list[str]]]) -> None:
    graph = dura.from_facts([(name, "r", name) for name in given], valid_share=0, test_share=0)
    labels = {name: label for name, (label, _) in given.items()}
    graph = replace(graph, labels=labels, entity_types={name: tuple(types) for name, (_, types) in given.items()})
    found = dura.load(store(graph, tmp_path_factory.mktemp("any") / "graph"))
    assert found.labels == {name: " ".join(label.split()) for name, label in labels.items()}
    assert found.entity_types == {
        name: tuple(" ".join(each.split()) for each in types) for name, (_, types) in given.items()
    }


def test_facts_have_the_bytes_of_the_safetensors_library(tmp_path: Path) -> None:
    graph = GRAPHS[0]
    folder = store(graph, tmp_path / "folder")
    facts: dict[str, np.ndarray] = {split: np.ascontiguousarray(graph.facts(split)) for split in SPLITS}
    assert (folder / "facts.safetensors").read_bytes() == safetensors.numpy.save(facts)


@pytest.mark.usefixtures("large")
def test_training_reads_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dura.load(store(random_graph(), tmp_path / "graph"))
    with monkeypatch.context() as patch:
        patch.setattr(StoredNames, "_series", lambda *_: pytest.fail("names are read"))
        trained = dura.fit(graph, rank=4, epochs=1, out=tmp_path / "run", progress=False)
        assert len(trained.graph.entities) == len(graph.entities)
        trained.evaluate("test")
    assert (tmp_path / "run" / "entities.txt").read_bytes() == (tmp_path / "graph" / "entities.txt").read_bytes()
    assert dura.open(tmp_path / "run").predict(head="e001", relation="r0", k=2)[0].entity.startswith("e")


def test_stored_and_plain_graphs_train_the_same(tmp_path: Path) -> None:
    plain = random_graph()
    stored = dura.load(store(plain, tmp_path / "graph"))
    scores = [dura.fit(g, rank=4, epochs=2, progress=False).score([("e001", "r0", "e002")]) for g in (plain, stored)]
    assert scores[0] == scores[1]


def test_a_stored_graph_in_dura_data_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(random_graph(), tmp_path / "mine")
    monkeypatch.setenv("DURA_DATA", str(tmp_path))
    assert same(dura.load("mine"), random_graph())


def test_what_cannot_be_chosen_is_refused(tmp_path: Path) -> None:
    folder = store(random_graph(), tmp_path / "graph")
    with pytest.raises(BadInput, match="is a stored graph, which has no columns to choose"):
        dura.load(folder, columns="0,1,2")
    notes: list[str] = []
    dura.load(folder, valid_share=0.1, notify=notes.append)
    assert notes == ["the shares of valid and test are not used: a stored graph comes with both"]
    with pytest.raises(BadInput, match="already holds a stored graph"):
        store(random_graph(), folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(BadInput, match="is not an empty folder"):
        store(random_graph(), tmp_path / "full")


def test_the_doctor_counts_repeated_facts_of_a_stored_graph(tmp_path: Path) -> None:
    graph = random_graph()
    twice = np.concatenate([graph.train, graph.train[:3]])
    folder = store(Graph("twice", graph.entities, graph.relations, twice, graph.valid, graph.test), tmp_path / "graph")
    (found,) = (finding for finding in check(folder).findings if finding.topic == "repeated")
    assert found.severity == "notice" and found.text == "3 repeated facts in train (each counts once)"


def rewrite(path: Path, **changes: object) -> None:
    document = json.loads(path.read_text())
    graph = {key: value for key, value in changes.items() if key != "format"}
    document["format"] = changes.get("format", document["format"])
    path.write_text(json.dumps(document | {"graph": document["graph"] | graph}))


def facts_with(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    facts = dict(safetensors.numpy.load_file(folder / "facts.safetensors"))
    change(facts)
    (folder / "facts.safetensors").write_bytes(safetensors.numpy.save(facts))


def lead_out(folder: Path, name: str) -> None:
    shutil.move(folder / name, folder.parent / name)
    (folder / name).symlink_to(Path("..") / name)


def set_id(facts: dict[str, np.ndarray], column: int, value: int) -> None:
    facts["valid"][3, column] = value


HOSTILE: list[tuple[str, Callable[[Path], object], str]] = [
    ("no entities", lambda f: (f / "entities.txt").unlink(), "entities.txt is missing"),
    ("no facts", lambda f: (f / "facts.safetensors").unlink(), "facts.safetensors is missing"),
    ("a link", lambda f: lead_out(f, "entities.txt"), "entities.txt cannot be read: it is a link that leads out"),
    ("facts elsewhere", lambda f: lead_out(f, "facts.safetensors"), "is a link that leads out"),
    ("no JSON", lambda f: (f / "graph.json").write_text("{"), "graph.json cannot be read"),
    ("a list", lambda f: (f / "graph.json").write_text("[]"), "is not a JSON object"),
    ("newer", lambda f: rewrite(f / "graph.json", format=2), "has format 2, but this dura reads formats up to 1"),
    ("no number", lambda f: rewrite(f / "graph.json", format="x"), "graph.json is damaged: format must be"),
    ("fewer", lambda f: rewrite(f / "graph.json", entities=19), "entities.txt is damaged"),
    ("more", lambda f: rewrite(f / "graph.json", entities=2**31 - 1), "entities.txt is damaged"),
    ("too many", lambda f: rewrite(f / "graph.json", entities=2**40), "graph.json is damaged: graph.entities must be"),
    ("facts", lambda f: rewrite(f / "graph.json", train=7), "train must be 7 rows of int32 numbers, as graph.json"),
    ("digest", lambda f: rewrite(f / "graph.json", digest="0"), "was changed or damaged: its digest differs"),
    ("head", lambda f: facts_with(f, lambda a: set_id(a, 0, 20)), "valid has an id that is not among the 20 names"),
    ("relation", lambda f: facts_with(f, lambda a: set_id(a, 1, -1)), "valid has an id that is not among the 3 names"),
    ("another", lambda f: facts_with(f, lambda a: set_id(a, 0, 5)), "its digest differs"),
    ("cut", lambda f: os.truncate(f / "facts.safetensors", 300), "facts.safetensors is damaged"),
    ("names", lambda f: (f / "entities.txt").write_text("e\n" * 20), "not distinct and sorted|digest differs"),
]


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize(("change", "said"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_folders_give_one_sentence(
    tmp_path: Path, change: Callable[[Path], object], said: str, size: str, request: pytest.FixtureRequest
) -> None:
    if size == "large":
        request.getfixturevalue("large")
    folder = store(random_graph(), tmp_path / "graph")
    change(folder)
    with pytest.raises(DuraError, match=said) as caught:
        dura.load(folder)
    assert "\n" not in str(caught.value)


@pytest.fixture
def kept(tmp_path: Path, large: None) -> Path:
    """The file of questions of a large graph."""
    folder = store(random_graph(), tmp_path / "graph")
    assert len(read_stored(folder).questions)
    (path,) = (folder / "cache").glob("questions-*.safetensors")
    return path


def kept_with(path: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    arrays = dict(safetensors.numpy.load_file(path))
    change(arrays)
    path.write_bytes(safetensors.numpy.save(arrays))


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a["answers"].__setitem__(0, 20),
        lambda a: a["head"].__setitem__(0, -1),
        lambda a: a["relation"].__setitem__(0, 6),
        lambda a: a["offsets"].__setitem__(1, 10**6),
        lambda a: a["offsets"].__setitem__(0, 1),
        lambda a: a.update(offsets=a["offsets"][:-1]),
        lambda a: a.update(head=a["head"][:-1]),
        lambda a: a.pop("answers"),
        lambda a: a.update(head=a["head"].astype(np.float32)),
        lambda a: a.update(time=a["head"]),
    ],
)
def test_questions_that_someone_else_has_written_are_made_again(
    kept: Path, change: Callable[[dict[str, np.ndarray]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept.read_bytes()
    kept_with(kept, change)
    assert read_stored(kept.parent.parent).questions.facts == Questions.of(random_graph().train, relations=3).facts
    assert kept.read_bytes() == before
    kept_with(kept, change)
    monkeypatch.setattr("dura.data.kept._sealed", lambda *_: True)  # also a file with our seal is not trusted blindly
    with pytest.raises(DuraError, match=r"questions-\w+-1.safetensors is damaged: .*; delete it"):
        len(read_stored(kept.parent.parent).questions)


def test_questions_that_are_sealed_with_another_key_are_made_again(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_with(kept, lambda a: a.update(answers=a["answers"][::-1].copy()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another user"))
    expected = Questions.of(random_graph().train, relations=3)
    assert read_stored(kept.parent.parent).questions.answers.tolist() == expected.answers.tolist()
    assert (tmp_path / "another user" / "dura" / "key").stat().st_mode & 0o777 == 0o600


def test_a_cache_elsewhere_is_refused(kept: Path, tmp_path: Path) -> None:
    shutil.move(kept.parent, tmp_path / "elsewhere")
    kept.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DuraError, match="leads out of the folder"):
        len(read_stored(kept.parent.parent).questions)
    kept.parent.unlink()
    (tmp_path / "precious").write_text("content")
    kept.parent.mkdir()
    (kept.parent / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(DuraError, match="it is a link"):
        len(read_stored(kept.parent.parent).questions)
    assert (tmp_path / "precious").read_text() == "content"


def test_questions_of_another_graph_are_not_used(kept: Path, tmp_path: Path) -> None:
    other = store(random_graph(seed=1), tmp_path / "other")
    shutil.copytree(kept.parent, other / "cache")
    assert same_questions(read_stored(other).questions, random_graph(seed=1).questions)


def same_questions(one: Questions, other: Questions) -> bool:
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in ("head", "relation", "offsets", "answers"))


def test_a_folder_that_cannot_be_written_needs_no_cache(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(kept.parent)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert same_questions(read_stored(kept.parent.parent).questions, random_graph().questions)
    assert not list(kept.parent.glob("*.safetensors"))


COUNT = """
import sys
from pathlib import Path
from dura.data import graph, names
from dura.records import tensors
from dura.data.stored import read_stored
names.LAZY, tensors.MAPPED, graph.KEPT = 0, 8, 50
print(len(read_stored(Path(sys.argv[1])).questions))
"""


def test_several_processes_may_make_the_questions_at_once(tmp_path: Path) -> None:
    folder = store(random_graph(), tmp_path / "graph")
    command = [sys.executable, "-c", COUNT, str(folder)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    counts = [int(process.communicate(timeout=60)[0]) for process in started]
    assert counts == 3 * [len(random_graph().questions)]
    assert len(list((folder / "cache").glob("*.safetensors"))) == 1 and not list((folder / "cache").glob("*.tmp"))
