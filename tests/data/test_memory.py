from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from dura.data.memory import from_facts
from dura.types import BadInput

FACTS = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a")]


class Frame:
    """What a pandas frame looks like from outside."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._data = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return np.array(self._data[name], dtype=object)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    "rows",
    [
        FACTS,
        [list(fact) for fact in FACTS],
        (fact for fact in FACTS),
        np.array(FACTS),
        np.array(FACTS, dtype=object),
        list(np.array(FACTS)),
        pl.DataFrame(FACTS, schema=["x", "y", "z"], orient="row"),
        pl.DataFrame(
            {"tail": ["b", "c", "a"], "w": [1, 2, 3], "head": ["a", "b", "c"], "relation": ["r", "r", "s"]},
            schema_overrides={"relation": pl.Categorical},
        ),
        Frame(
            {
                "head": ["a", "b", "c"],
                "relation": ["r", "r", "s"],
                "tail": ["b", "c", "a"],
                "index": [0, 1, 2],
            }
        ),
    ],
)
def test_every_form_gives_the_same_graph(rows: Any) -> None:
    graph = from_facts(rows, valid_share=0, test_share=0)
    names = [
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t)) for h, r, t in graph.train.tolist()
    ]
    assert sorted(names) == FACTS
    assert (len(graph.valid), len(graph.test)) == (0, 0)


def test_pandas_frames_are_taken() -> None:
    pandas = pytest.importorskip("pandas")
    graph = from_facts(pandas.DataFrame(FACTS, columns=["head", "relation", "tail"]), valid_share=0, test_share=0)
    assert len(graph.train) == 3


def test_whole_numbers_become_names() -> None:
    graph = from_facts(np.array([[0, 0, 10], [10, 0, 2]]))
    assert list(graph.entities) == ["0", "10", "2"]


def test_given_splits_are_kept_and_notes_told() -> None:
    notes: list[str] = []
    graph = from_facts([*FACTS, FACTS[0]], FACTS[:1], [("a", "r", "a")], name="mine", notify=notes.append)
    assert (len(graph.train), len(graph.valid), len(graph.test)) == (3, 1, 1)
    assert graph.name == "mine"
    assert notes == ["train: 1 fact repeated, counted once"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("a", "r")], r"fact 0 of train is \('a', 'r'\), but a fact is \(head, relation, tail\)"),
        (["abc"], "fact 0 of train is 'abc'"),
        ([("a", "r", None)], "train:1: the tail is empty"),
        ([("", "r", "b")], "train:1: the head is empty"),
        (
            [("a", "r", "b"), (object(), "r", "b")],
            "row 1 of train has .*, which is neither text nor a number nor a date",
        ),
        (np.array(["a", "r", "b"]), r"has the shape \(3,\); a row is head, relation, tail, so \[n, 3\] is needed"),
        (
            pl.DataFrame({"a": ["x"], "b": ["y"]}),
            r"train has the columns 'a', 'b', but which are head, relation and tail\?",
        ),
        (pl.DataFrame({"a": ["x"], "b": ["y"], "c": ["z"], "d": [1]}), "choose them|Choose them"),
        ([("a\nb", "r", "c")], "line break"),
        ([], "no facts"),
    ],
)
def test_bad_facts_are_refused(rows: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        from_facts(rows)
