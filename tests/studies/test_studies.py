"""Studies of real runs: labels, figures by category as evaluation gives them, projections of every kind of questions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import dura
from dura.studies.studies import categories, projection, run_labels
from dura.types import BadInput, DuraError


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of UMLS (complex-none, complex-dura, again in a folder of the same name, rescal) and one of nations."""
    folder = tmp_path_factory.mktemp("studies")
    umls = dura.load("umls")
    for name, model, regularizer in (
        ("none", "complex", "none"),
        ("dura", "complex", "dura"),
        ("again", "complex", "dura"),
        ("below/again", "complex", "dura"),
        ("rescal", "rescal", "dura-i"),
    ):
        trained = dura.fit(umls, model=model, rank=8, regularizer=regularizer, epochs=2, progress=False)
        trained.save(folder / name)
    dura.fit(dura.load("nations"), model="cp", rank=4, epochs=1, progress=False).save(folder / "nations")
    return folder


def test_labels_tell_runs_apart(home: Path) -> None:
    assert run_labels([home / "none", home / "rescal"]) == ["ComplEx none", "RESCAL DURA-I"]
    assert run_labels([home / "dura", home / "again", home / "none"]) == ["dura", "again", "ComplEx none"]
    same = [home / "again", home / "below" / "again", home / "rescal"]
    assert run_labels(same) == [str(same[0]), str(same[1]), "RESCAL DURA-I"]


def test_labels_say_what_was_done_to_exported_tables(home: Path, tmp_path: Path) -> None:
    whole = dura.open(home / "dura")
    sparse = whole.export(tmp_path / "sparse", sparse=0.7)
    small = whole.export(tmp_path / "small", dtype="int8")
    both = whole.export(tmp_path / "both", sparse=0.125, dtype="float16")
    labels = run_labels([home / "dura", sparse, small, both])
    assert labels == [
        "ComplEx DURA",
        "ComplEx DURA, 70 % zeros",
        "ComplEx DURA, int8",
        "ComplEx DURA, 12.5 % zeros, float16",
    ]
    copies = [dura.open(run).export(tmp_path / f"{run.name}-copy") for run in (home / "dura", sparse, small, both)]
    assert run_labels(copies) == labels


def test_runs_of_different_graphs_or_one_twice_are_refused(home: Path) -> None:
    with pytest.raises(BadInput, match=r"none and .*nations are runs of different graphs \(umls and nations"):
        categories([home / "none", home / "nations"])
    with pytest.raises(BadInput, match="given 2 times"):
        run_labels([home / "none", home / "none" / ".." / "none"])
    with pytest.raises(BadInput, match="no run folder"):
        categories([home / "nowhere"])


def test_categories_are_those_of_evaluation(home: Path) -> None:
    told: list[tuple[int, int]] = []
    study = categories([home / "none", home / "rescal"], "valid", progress=lambda *at: told.append(at))
    assert (study["graph"], study["split"]) == ("umls", "valid")
    assert study["protocol"]["data_digest"] == dura.open(home / "none").graph.digest
    assert told[-1][0] == told[-1][1]
    for run, name in zip(study["runs"], ("none", "rescal"), strict=True):
        result = dura.open(home / name).evaluate("valid", ["category", "category-side"])
        assert run["mrr"] == result.mrr
        assert run["category"] == {place: m.mrr for place, m in result.groups["category"].items()}
        assert run["category-side"] == {place: m.mrr for place, m in result.groups["category-side"].items()}
        ranks = run["ranks"]
        assert sum(ranks.values()) == result.metrics.ranks
        mean = sum(run["category"][place] * count for place, count in ranks.items()) / sum(ranks.values())
        assert mean == pytest.approx(run["mrr"]), "the categories make up the whole"
    json.dumps(study, allow_nan=False)


def test_projection_of_drawn_questions(home: Path) -> None:
    study = projection([home / "none", home / "dura"], more_than=20, most=15, seed=1)
    assert study["source"].endswith("drawn by the seed 1 among those with more than 20 answers")
    json.dumps(study, allow_nan=False)
    graph = dura.load("umls")
    known = {
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
        for h, r, t in np.concatenate([graph.train, graph.valid, graph.test]).tolist()
    }
    names = {graph.label(name): name for name in graph.entities}
    for asked in study["questions"]:
        head, relation, tail = (names.get(part, part) for part in asked["parts"])
        answers = {t for h, r, t in known if (h, r) == (head, relation)} | {
            h for h, r, t in known if (r, t) == (relation, tail)
        }
        assert asked["answers"] == len(answers) > 20
        shown = [answer["entity"] for answer in study["answers"] if answer["question"] == asked["number"]]
        assert set(shown) <= answers
        assert asked["shown"] == len(shown) <= 15
    for run in study["runs"]:
        assert len(run["coordinates"]) == len(study["answers"])
        assert len(run["within by question"]) == len(study["questions"])
        assert run["cosine within"] == pytest.approx(np.mean(run["within by question"]))
        assert all(-1 <= run[f"silhouette {kind}"] <= 1 for kind in ("cosine", "euclidean", "picture"))
    assert study["runs"][0]["coordinates"] != study["runs"][1]["coordinates"]
    assert projection([home / "dura"], more_than=20, most=15, seed=1)["runs"][0] == study["runs"][1]


def test_projection_of_questions_from_a_file(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("virus\tcauses\t?\n?\ttreats\tneoplastic_process\n")
    study = projection([home / "dura"], questions=str(file))
    graph = dura.open(home / "dura").graph
    labels = [graph.label(name) for name in ("virus", "neoplastic_process")]
    assert [asked["parts"] for asked in study["questions"]] == [[labels[0], "causes", "?"], ["?", "treats", labels[1]]]
    assert study["source"] == "of the file mine.tsv"
    for lines, sentence in (
        ("virus\tcauses\t?\nvirus\tcauses\t?\n", "1 different questions on 2 lines"),
        ("virus\tcauses\t?\n", "1 different questions on 1 lines"),
        ("virus\tcauses\t?\nvirus\tvirus\t?\n", "relation 'virus' is not in this graph"),
        ("virus\tcauses\t?\nvirus\ttreats\t?\n", r"\(virus, treats, \?\) has no known answer"),
        ("virus\tcauses\t?\t2014\nvirus\taffects\t?\t2014\n", "has a time"),
    ):
        file.write_text(lines)
        with pytest.raises(BadInput, match=sentence):
            projection([home / "dura"], questions=str(file))


def test_projection_says_what_cannot_be_shown(home: Path) -> None:
    with pytest.raises(BadInput, match="'umls' does not have the paper's ten questions"):
        projection([home / "dura"], questions="paper")
    with pytest.raises(BadInput, match="--more-than"):
        projection([home / "dura"], more_than=100)
    with pytest.raises(BadInput, match="nowhere.tsv"):
        projection([home / "dura"], questions="nowhere.tsv")


def test_a_collapsed_run_is_named(home: Path, tmp_path: Path) -> None:
    trained = dura.open(home / "none")
    with torch.no_grad():
        trained.model.target_table.fill_(0)
    trained.save(tmp_path / "flat")
    with pytest.raises(DuraError, match="flat: all answers have the same row"):
        projection([tmp_path / "flat"], more_than=20)
