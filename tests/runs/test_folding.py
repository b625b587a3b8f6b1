"""Fold-in: laws over all models, what is added to the graph, what is refused, and that new entities are answered well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dura
from doubles import known, law_models
from dura.config import Experiment
from dura.data.graph import Graph
from dura.records import RunFolder
from dura.runs.build import build_model
from dura.runs.folding import fold_in
from dura.runs.run import train
from dura.runs.trained import Trained
from dura.types import BadInput
from graphs import dated_graph, graph_for, random_graph
from texts import options_of

REFUSED = {"kbgat": "heard", "star": "entity_text", "rtfe": "entity"}
"""Models that keep more about an entity than one learned row, and the tensor that the message names."""


@pytest.fixture(params=law_models())
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return known(str(request.param), monkeypatch)


def untrained(name: str, graph: Graph | None = None, **tables: dict[str, Any]) -> Trained:
    """A model with random numbers."""
    graph = graph_for(name) if graph is None else graph
    model = {"name": name, "rank": 4, **options_of(name, graph), **tables.pop("model", {})}
    experiment = Experiment.from_dict({"model": model, "regularizer": {"name": "fro"}, **tables})
    torch.manual_seed(0)
    return Trained(build_model(experiment, graph.sizes, "cpu"), graph, experiment)


def new_facts(graph: Graph) -> list[tuple[str, ...]]:
    """Facts of two new entities, one of which sorts before all others: with known ones, with each other, and one twice."""
    facts = [("a", "r0", "e003"), ("e005", "r1", "a"), ("a", "r2", "z"), ("z", "r0", "e001"), ("z", "r0", "e001")]
    return [(*fact, "2014-01-03") if graph.times is not None else fact for fact in facts]


def test_known_rows_and_all_other_numbers_stay_bit_equal(name: str, tmp_path: Path) -> None:
    trained = untrained(name)
    before = {key: tensor.clone() for key, tensor in trained.model.state().items()}
    if name in REFUSED:
        with pytest.raises(BadInput, match=rf"no entity can be folded into the model '{name}'.*{REFUSED[name]}"):
            trained.fold_in(new_facts(trained.graph))
        return
    grown = trained.fold_in(new_facts(trained.graph), tmp_path / "grown")
    old, now = trained.graph, grown.graph
    place = torch.tensor([now.entities.id(entity) for entity in old.entities])
    grew = 0
    for key, tensor in grown.model.state().items():
        if tensor.shape == before[key].shape:
            assert torch.equal(tensor, before[key]), key
        else:
            grew += 1
            assert len(tensor) == len(before[key]) + 2
            assert torch.equal(tensor[place], before[key]), key
            assert tensor.isfinite().all()
    assert grew
    assert all(torch.equal(tensor, before[key]) for key, tensor in trained.model.state().items())
    assert now.entities.id("a") == 0 and now.entities.id("z") == len(now.entities) - 1
    assert len(now.train) == len(old.train) + 4
    time = None if now.times is None else "2014-01-03"
    answers = grown.predict(head="a", relation="r0", time=time, k=30)
    assert "e003" not in {answer.entity for answer in answers} and len(answers) == 21
    assert grown.evaluate("test").metrics.ranks == 2 * len(old.test)


def test_a_new_entity_is_answered_nearly_as_if_it_had_been_there(tmp_path: Path) -> None:
    """Of UMLS, 13 entities are taken out and folded in with four fifths of their facts; the others are ranked."""
    graph, rng = dura.load("umls"), np.random.default_rng(1)
    out = set(rng.choice(len(graph.entities), 13, replace=False).tolist())
    every = np.concatenate([graph.train, graph.valid, graph.test])
    about = np.array([h in out or t in out for h, _, t in every.tolist()])
    theirs = rng.permutation(every[about])
    given, asked = np.split(theirs, [4 * len(theirs) // 5])
    names = [_named(graph, facts) for facts in (every[~about], given, asked)]
    small = dura.from_facts(names[0], valid_share=0.0, test_share=0.0)
    trained = dura.fit(small, rank=30, epochs=15, batch=100, progress=False)
    grown, done = fold_in(trained, names[1])
    assert done.entities == len(grown.graph.entities) - len(small.entities) and done.facts == len(given)
    assert done.loss["last"] < done.loss["first"]
    folded = _mrr(grown, names[2])
    random = Trained(_shuffled(grown, small), grown.graph, grown.experiment)
    assert folded > 0.55 and folded > 2 * _mrr(random, names[2])


def _named(graph: Graph, facts: np.ndarray) -> list[tuple[str, str, str]]:
    columns = (graph.entities.names(facts[:, 0]), graph.relations.names(facts[:, 1]), graph.entities.names(facts[:, 2]))
    return list(zip(*columns, strict=True))


def _mrr(trained: Trained, facts: list[tuple[str, str, str]]) -> float:
    from dataclasses import replace

    from dura.evaluation import evaluate

    graph = trained.graph
    ids = np.array([(graph.entity(h), graph.relation(r), graph.entity(t)) for h, r, t in facts], dtype=np.int32)
    return evaluate(trained.model, replace(graph, test=ids), "test").mrr


def _shuffled(grown: Trained, small: Graph) -> Any:
    """The model with rows of known entities for the new ones."""
    from dura.models import adopt
    from dura.runs.build import blank_model

    new = [i for i, name in enumerate(grown.graph.entities) if name not in small.entities]
    others = [i for i in range(len(grown.graph.entities)) if i not in new][: len(new)]
    state = {key: tensor.clone() for key, tensor in grown.model.state().items()}
    state["entity"][new] = state["entity"][others]
    model = blank_model(grown.experiment, grown.graph.sizes)
    adopt(model, state)
    return model


# -- what is added ------------------------------------------------------------------------------------------------------


def test_facts_that_change_nothing_are_counted_and_said() -> None:
    trained = untrained("complex")
    graph = trained.graph
    old = _named(graph, graph.test[:1])[0]
    every = {tuple(row) for row in np.concatenate([graph.train, graph.valid, graph.test]).tolist()}
    fresh = _named(graph, np.array([next((0, 0, t) for t in range(20) if (0, 0, t) not in every)]))[0]
    said: list[str] = []
    grown, done = fold_in(trained, [("new", "r0", "e001"), ("new", "r0", "e001"), old, fresh], notify=said.append)
    assert (done.entities, done.facts, done.repeated, done.known, done.among_known) == (1, 2, 1, 1, 1)
    assert said == [
        "1 fact is repeated, counted once",
        "1 fact is already in the graph, not added again",
        "1 fact is between known entities: known from now on, but no row changes",
    ]
    assert fresh[2] not in {answer.entity for answer in grown.predict(head=fresh[0], relation="r0", k=30)}


def test_names_that_may_be_slips_are_said() -> None:
    said: list[str] = []
    graph = dura.from_facts([("Germany", "r", "France"), ("Q1234567", "r", "France")], valid_share=0.0, test_share=0.0)
    trained = untrained("complex", graph)
    rows = [("Germny", "r", "?"), ("france", "r", "Q1234568"), ("nan", "r", "Japan"), ("q1234567", "r", "Peru")]
    _, done = fold_in(trained, rows, notify=said.append)
    assert done.entities == 8 and done.names == ["?", "Germny", "Japan", "Peru", "Q1234568"]
    looks = "looks like a missing value; if it is one, delete its facts"
    near = "'Germny' for 'Germany', 'france' for 'France', 'q1234567' for 'Q1234567'"
    assert said == [
        f"warning: the new entity '?' {looks}",
        f"warning: the new entity 'nan' {looks}",
        f"warning: 3 new names are very near to known ones: {near}; they count as new entities, so look for slips",
    ]


def test_a_calibrated_run_says_that_the_new_one_is_not(tmp_path: Path) -> None:
    trained = untrained("complex")
    trained.calibration = object()  # type: ignore[assignment]
    said: list[str] = []
    trained.fold_in([("new", "r0", "e001")], notify=said.append)
    trained.fold_in([("new", "r0", "e001")], tmp_path / "grown", notify=said.append)
    sentence = "the run is calibrated, but the new one is not, so its answers have no probabilities yet"
    assert said == [f"{sentence}; call its calibrate()", f"{sentence}; run: dura calibrate {tmp_path / 'grown'}"]


def test_intervals_are_folded_in_with_open_ends() -> None:
    graph = dated_graph(intervals=True)
    trained = untrained("tcomplex", graph)
    rows = [("new", "r0", "e001", "2014-01-02", "2014-01-04"), ("e002", "r1", "new", "", "2014-01-03")]
    grown, _ = fold_in(trained, rows)
    new = grown.graph.entity("new")
    kept = grown.graph.train[(grown.graph.train[:, 0] == new) | (grown.graph.train[:, 2] == new)]
    assert kept[:, 3:].tolist() == [[1, 3], [0, 2]]


def test_labels_of_the_new_entities_come_along_and_a_label_of_a_known_one_is_said(tmp_path: Path) -> None:
    graph = random_graph().described(
        dura.data.descriptions.Descriptions({"e001": "Anna"}), random_graph().about_relations
    )
    trained = untrained("complex", graph)
    (tmp_path / "names.tsv").write_text("name\tlabel\nnew\tBrand new\n")
    (tmp_path / "new.tsv").write_text("new\tr0\te001\nAnna\tr1\tnew\n")
    said: list[str] = []
    options = dura.data.readers.ReadOptions(entities=tmp_path / "names.tsv")
    grown = trained.fold_in(tmp_path / "new.tsv", options=options, notify=said.append)
    assert grown.graph.label("new") == "Brand new" and grown.graph.label("e001") == "Anna"
    assert any("1 of the new names are labels of known entities, such as 'Anna' for 'e001'" in text for text in said)


# -- what is refused ----------------------------------------------------------------------------------------------------


def test_unknown_relations_and_times_are_bad_lines(tmp_path: Path) -> None:
    trained = untrained("tcomplex", dated_graph())
    file = tmp_path / "new.tsv"
    file.write_text("new\tr0\te001\t2014-01-03\nnew\tr9\te002\t2014-01-03\nnew\tr1\te001\t2015-01-01\n")
    with pytest.raises(BadInput) as caught:
        trained.fold_in(file)
    assert f"2 lines are bad in {file}" in str(caught.value)
    assert f"{file}:2: the relation 'r9' is not in this graph" in str(caught.value)
    assert f"{file}:3: the time '2015-01-01' is not in this graph" in str(caught.value)
    said: list[str] = []
    grown, done = fold_in(trained, file, options=dura.data.readers.ReadOptions(skip_bad=True), notify=said.append)
    assert len(grown.graph.train) == len(trained.graph.train) + 1
    assert done.skipped == 2 and [line.split(": ")[0] for line in done.bad] == [f"{file}:2", f"{file}:3"]
    assert "\n  ".join(["2 bad lines skipped:", *done.bad]) in said


def test_bad_lines_of_all_kinds_are_reported_together(tmp_path: Path) -> None:
    trained, file = untrained("tcomplex", dated_graph()), tmp_path / "new.tsv"
    good = "new\tr0\te001\t2014-01-03\n"
    file.write_text(good + "new\tr9\te002\t2015-01-01\nshort\tr0\n" + good + "new\tr0\te002\t2014-02-31\n")
    with pytest.raises(BadInput) as caught:
        trained.fold_in(file)
    first, *lines = str(caught.value).splitlines()
    assert first.startswith(f"3 lines are bad in {file}")
    assert [line.split(": ")[0] for line in lines] == [f"  {file}:{number}" for number in (2, 3, 5)]
    assert "the relation 'r9'" in lines[0] and "the time '2015-01-01'" in lines[0] and "2 columns" in lines[1]
    _, done = fold_in(trained, file, options=dura.data.readers.ReadOptions(skip_bad=True))
    assert done.skipped == 3 and done.bad == [line.strip() for line in lines]
    file.write_text("new\tr9\te002\t2014-01-01\n")
    with pytest.raises(BadInput, match="1 line is bad"):
        trained.fold_in(file)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ([("e001", "r0", "e002")], "every entity of these facts is already known to the run"),
        (
            [{"head": "new", "relation": "r0", "tail": "e002", "time": "2014"}],
            "have times, but those of this graph have none",
        ),
        ("folder", "is a folder, but new facts are one file"),
        ("none.tsv", "none.tsv"),
    ],
)
def test_facts_that_cannot_be_folded_in_are_refused(facts: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    given = tmp_path / facts if isinstance(facts, str) else facts
    with pytest.raises(BadInput, match=message):
        untrained("complex").fold_in(given)


def test_facts_without_the_times_that_the_graph_needs_are_refused() -> None:
    with pytest.raises(BadInput, match="every fact of this graph has a time, from 2014-01-01 to 2014-01-08"):
        untrained("tcomplex", dated_graph()).fold_in([("new", "r0", "e002")])


def test_packed_runs_and_least_squares_are_refused(tmp_path: Path) -> None:
    trained = untrained("complex")
    trained.export(tmp_path / "small", dtype="int8")
    with pytest.raises(BadInput, match="tables of this run are packed"):
        dura.open(tmp_path / "small").fold_in(new_facts(trained.graph))
    squares = untrained("dedicom", optimizer={"name": "als"})
    with pytest.raises(BadInput, match="alternating least squares"):
        squares.fold_in(new_facts(squares.graph))


# -- the run folder -----------------------------------------------------------------------------------------------------


def test_the_new_run_is_a_run_like_any_other_and_says_where_it_is_from(tmp_path: Path) -> None:
    experiment = Experiment.from_dict({"model": {"name": "cp", "rank": 4}, "training": {"epochs": 2, "batch": 20}})
    trained = train(experiment, random_graph(), tmp_path / "run")
    grown, done = fold_in(trained, new_facts(trained.graph), tmp_path / "grown")
    record = RunFolder.open(tmp_path / "grown").records()[-1]
    assert (record["kind"], record["run"], record["entities"]) == ("fold-in", str(tmp_path / "run"), 2)
    assert record["steps"] == done.steps
    again = dura.open(tmp_path / "grown")
    assert again.graph.digest == grown.graph.digest
    assert again.score([("a", "r0", "e003")]) == grown.score([("a", "r0", "e003")])
    twice = again.fold_in([("b", "r0", "a")], tmp_path / "twice")
    assert len(twice.graph.entities) == len(grown.graph.entities) + 1
    with pytest.raises(BadInput, match="exists and is not an empty folder; name a new folder to fold in to"):
        trained.fold_in(new_facts(trained.graph), tmp_path / "grown")
    same = trained.fold_in(new_facts(trained.graph))
    assert same.score([("z", "r0", "a")]) == grown.score([("z", "r0", "a")])
    assert json.loads((tmp_path / "grown" / "run.json").read_text())["graph"]["entities"] == 22
