"""The Python face: reading facts with times, asking a trained temporal model."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import dura
from dura.types import BadInput, Sizes
from graphs import random_graph


def test_read_with_a_column_of_times(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("when,from,link,to\n2014-01-02,a,r,b\n2014-01-01,b,r,c\n,a,r,c\n")
    graph = dura.read(path, time="when", valid_share=0, test_share=0)
    assert graph.sizes == Sizes(3, 1, 3)
    assert graph.times is not None
    assert list(graph.times) == ["2014-01-01", "2014-01-02", ""]
    assert graph.train[graph.train[:, 3] == 1].tolist() == [[0, 0, 1, 1]]
    again = dura.read(path, time=0, columns=(1, 2, 3), header=True, valid_share=0, test_share=0)
    assert again.digest == graph.digest


def test_read_with_begin_and_end(tmp_path: Path) -> None:
    path = tmp_path / "spans.tsv"
    path.write_text("a\tr\tb\t1990\t1995\nb\tr\tc\t1992\t\n")
    graph = dura.read(path, time=(3, 4), valid_share=0, test_share=0)
    assert graph.intervals
    assert graph.train.tolist() == [[0, 0, 1, 0, 2], [1, 0, 2, 1, 2]]


def test_columns_that_do_not_exist_are_named(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("head,relation,tail,date\na,r,b,2014\n")
    with pytest.raises(
        BadInput, match=r"visits.csv has no column 'day'; its first line has 'head', 'relation', 'tail', 'date'"
    ):
        dura.read(path, time="day")
    with pytest.raises(BadInput, match="has no column 7: its 4 columns are numbered from 0"):
        dura.read(path, time=7)
    with pytest.raises(BadInput, match="there is no file or folder"):
        dura.read(tmp_path / "nowhere.csv", time="date")


def test_a_temporal_model_is_trained_saved_opened_and_asked(tmp_path: Path) -> None:
    """A fact that holds on even days only: the model says so after training."""
    facts = [
        (f"p{i}", "visits", f"p{(i + 1 + day % 2) % 8}", f"2014-01-{day:02d}") for i in range(8) for day in range(1, 13)
    ]
    (tmp_path / "visits.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    graph = dura.read(tmp_path / "visits.tsv", time=3, test_share=0)
    model = dura.fit(
        graph, model="tcomplex", rank=16, regularizer="none", epochs=30, batch=20, progress=False, seed=1,
        settings={"training.patience": 0, "training.validate_every": 30},
    )  # fmt: skip
    times = model.when(head="p0", relation="visits", tail="p1", k=12, known=True)
    even = {f"2014-01-{day:02d}" for day in range(2, 13, 2)}
    assert {a.time for a in times[:6]} == even == {a.time for a in times if a.known}
    assert model.predict(head="p0", relation="visits", time="2014-01-03", k=1, known=True)[0].entity == "p2"
    scores = model.score([("p0", "visits", "p2", "2014-01-03"), ("p0", "visits", "p2", "2014-01-04")])
    assert scores[0] > scores[1]
    opened = dura.open(model.save(tmp_path / "run"))
    assert opened.when(head="p0", relation="visits", tail="p1", k=12, known=True) == times
    with pytest.raises(BadInput, match=r"from 2014-01-01 to 2014-01-12, so a question needs a time too \(--time"):
        opened.predict(head="p0", relation="visits")


def test_one_method_asks_for_entities_and_times(tmp_path: Path) -> None:
    facts = [(f"p{i}", "visits", f"p{(i + day) % 5}", f"2014-01-{day:02d}") for i in range(5) for day in range(1, 5)]
    model = dura.fit(dura.from_facts(facts, valid_share=0, test_share=0), rank=4, epochs=1, progress=False)
    asked = [("p0", "visits", "p1", "?"), ("p0", "visits", None, "2014-01-02"), (None, "visits", "p3", "2014-01-01")]
    times, tails, heads = model.ask(asked, 2, known=True)
    assert times == model.when(head="p0", relation="visits", tail="p1", k=2, known=True)
    alone = model.predict(head="p0", relation="visits", time="2014-01-02", k=2, known=True)
    assert (tails.question, [a.shown for a in tails]) == (alone.question, [a.shown for a in alone])
    assert [times.question.when, tails.question.when, heads.question.when] == [True, False, False]
    assert [a.shown for a in model.predict_many([asked[2]], 2, known=True)[0]] == [a.shown for a in heads]
    with pytest.raises(BadInput, match="asks for a time; `when` and `ask` answer it"):
        model.predict_many([("p0", "visits", "p1", "?")])


@pytest.mark.parametrize("question", [("a", "r"), ("a", None, "b"), ("a", "r", "b", "?", "c"), "a r ?"])
def test_a_question_of_another_shape_is_refused(question: object) -> None:
    model = dura.fit(random_graph(), rank=2, epochs=0, progress=False)
    with pytest.raises(
        BadInput, match=r"^a question is \(head, relation, tail\) or \(head, relation, tail, time\), not "
    ):
        model.ask([question])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "fact", [("a", "r"), ("a", None, "b"), ("a", "r", "b", "?", "c"), "a r b", ("a", "r", "b", 3), 5]
)
def test_a_fact_of_another_shape_is_refused(fact: object) -> None:
    model = dura.fit(random_graph(), rank=2, epochs=0, progress=False)
    with pytest.raises(
        BadInput, match=r"^a fact is \(head, relation, tail\) or \(head, relation, tail, time\) as text, not "
    ):
        model.score([fact])  # type: ignore[list-item]


@pytest.mark.parametrize("path", [None, 3, ["runs/mine"]])
def test_only_a_path_is_opened(path: Any) -> None:
    with pytest.raises(BadInput, match=r"^open takes the path of a run folder, such as 'runs/mine', not "):
        dura.open(path)


def test_a_model_describes_itself(tmp_path: Path) -> None:
    model = dura.fit(random_graph(), model="distmult", rank=4, epochs=0, regularizer="n3", progress=False)
    about = model.describe()
    assert (about["run"], about["model"], about["rank"], about["regularizer"]) == (None, "distmult", 4, "n3")
    sizes = model.graph.sizes
    labels = {"entities": 0, "relations": 0}
    counts = {"entities": sizes.entities, "relations": sizes.relations, "times": None, "labels": labels}
    assert about["graph"] == {"name": "random", **counts}
    assert about["tables"] == {
        "sparse": False,
        "dtype": "float32",
        "bytes": 4 * 4 * (sizes.entities + 2 * sizes.relations),
    }
    saved = dura.open(model.export(tmp_path / "small", dtype="int8")).describe()
    assert (saved["run"], saved["tables"]["dtype"]) == ("small", "int8")
    with pytest.raises(BadInput, match="inside the run that is exported; name a folder next to it"):
        dura.open(tmp_path / "small").export(tmp_path / "small" / "inner")


def test_read_splits_as_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "years.tsv"
    path.write_text("".join(f"e{i % 9}\tr\te{(i * 5 + 1) % 9}\t{2000 + i}\n" for i in range(40)))
    graph = dura.read(path, time=3, split="time")
    assert graph.times is not None
    assert graph.times.names(graph.test[:, 3]) and min(graph.times.names(graph.test[:, 3])) == "2036"
    with pytest.raises(dura.BadInput, match="a split by time needs facts with times"):
        dura.read(path, columns=(0, 1, 2), split="time")


def test_read_takes_what_load_takes() -> None:
    """All parameters, with the same defaults, but for those that make no sense for files."""
    load, read = (inspect.signature(function).parameters for function in (dura.load, dura.read))
    assert {**{name: one.default for name, one in list(read.items())[1:]}, "query": None, "progress": None} == {
        name: one.default for name, one in list(load.items())[1:]
    }


def test_read_hands_on_how_to_read(tmp_path: Path) -> None:
    path = tmp_path / "facts.dat"
    path.write_text("a,r,b,03/04/2014 13:00\nb,r,c,04/04/2014 14:00\n")
    graph = dura.read(
        path, format="csv", time=3, time_format="DD/MM/YYYY HH:MM", time_unit="month", valid_share=0, test_share=0
    )
    assert graph.times is not None
    assert list(graph.times) == ["2014-04"]
    with pytest.raises(BadInput, match="holds more than 1e-08 GB"):
        dura.read(path, format="csv", most_gb=1e-8)
