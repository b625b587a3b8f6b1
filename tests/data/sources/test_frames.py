"""Objects in memory: frames, arrays, graphs, rows and factories."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import networkx as nx  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.data.sources.found import Described
from dura.data.sources.frames import sheet_of
from dura.types import BadInput

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
ROWS = [("a b", "r", 'c"'), ("ü", "s", "1")]
COLUMNS = {"h": ["a b", "ü"], "r": ["r", "s"], "t": ['c"', "1"]}


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, lambda columns: pd.DataFrame(columns, dtype="category")],
)
def test_frames_have_titles(make: Any) -> None:
    sheet = sheet_of(make(COLUMNS), "train")
    assert sheet.titles == ("h", "r", "t") and sheet.rows.rows() == ROWS and sheet.origin == "train"


@pytest.mark.parametrize(
    "make", [list, iter, np.array, lambda rows: np.array(rows, dtype=object), lambda rows: map(list, rows)]
)
def test_rows_and_arrays_have_none(make: Any) -> None:
    sheet = sheet_of(make(ROWS), "train")
    assert sheet.titles is None and sheet.rows.rows() == ROWS


def test_rows_of_mappings_have_titles() -> None:
    sheet = sheet_of([{"h": "a", "r": "b"}, {"t": "c"}], "train")
    assert sheet.titles == ("h", "r", "t") and sheet.rows.rows() == [("a", "b", None), (None, None, "c")]
    array = np.array([("a", 1)], dtype=[("h", "U5"), ("r", int)])
    assert sheet_of(array, "train").titles == ("h", "r")


@given(st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=5))
def test_names_come_back(rows: list[tuple[str, str, str]]) -> None:
    for given_rows in (
        rows,
        pd.DataFrame(rows, columns=list("hrt")),
        pl.DataFrame(rows, schema=list("hrt"), orient="row"),
    ):
        assert sheet_of(given_rows, "train").rows.rows() == rows


def test_values_become_text() -> None:
    frame = pd.DataFrame(
        {
            "mixed": ["a", 1, None],
            "gap": [1, None, 3],
            "day": pd.to_datetime(["2020-01-02", "", "2020-01-03"]),
            "zone": pd.to_datetime(["2020-01-02", "", "2020-01-03"], utc=True),
            "Int": pd.array([2**60 + 1, None, 3], dtype="Int64"),
        }
    )
    assert sheet_of(frame, "train").rows.rows() == [
        ("a", "1", "2020-01-02", "2020-01-02T00:00:00+00:00", str(2**60 + 1)),
        ("1", None, None, None, None),
        (None, "3", "2020-01-03", "2020-01-03T00:00:00+00:00", "3"),
    ]
    rows = [(1, np.int64(2), np.float64(3.0), dt.date(2020, 1, 2), float("nan"))]
    assert sheet_of(rows, "train").rows.rows() == [("1", "2", "3", "2020-01-02", None)]
    assert sheet_of(np.array([[1, 2, 3]]), "train").rows.rows() == [("1", "2", "3")]


@pytest.mark.parametrize(
    ("given_object", "message"),
    [
        ([("a", "b")], r"fact 0 of train is \('a', 'b'\), but a fact is \(head, relation, tail\)"),
        ([("a", "b", "c"), "abc"], "fact 1 of train is 'abc'"),
        ("abc", "the facts of train are 'abc'"),
        (7, "the facts of train are 7"),
        (np.zeros(3), r"the array of train has the shape \(3,\)"),
        (
            [("a", "b", ("c",))],
            r"row 0 of train has \('c',\) in column '2', which is neither text nor a number nor a date",
        ),
        ([("a", "b", "\ud800")], "column '2' of train holds text that is not UTF-8"),
    ],
)
def test_what_is_wrong_is_said(given_object: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        sheet_of(given_object, "train")


def test_networkx() -> None:
    graph = nx.MultiDiGraph()
    graph.add_node("a", label="Ann", type="Person", description="x")
    graph.add_edge("a", 7, "knows")
    graph.add_edge("a", 7, "likes")
    sheet = sheet_of(graph, "train")
    assert isinstance(sheet, Described) and sheet.titles == ("head", "relation", "tail")
    assert sheet.rows.rows() == [("a", "knows", "7"), ("a", "likes", "7")]
    assert sheet.entities.labels == {"a": "Ann"} and sheet.entities.types == {"a": ("Person",)}
    assert sheet.entities.descriptions == {"a": "x"} and sheet.notes == ["the relation of an edge is its key"]
    plain = nx.DiGraph([("a", "b", {"type": "knows", "weight": 1})])
    assert sheet_of(plain, "train").rows.rows() == [("a", "knows", "b")]
    undirected = nx.Graph([("a", "b", {"relation": "knows"})])
    assert "the graph has no directions" in sheet_of(undirected, "train").notes[1]
    with pytest.raises(
        BadInput, match="the edge 'a' to 'b' of train has no relation; give every edge one of the attributes"
    ):
        sheet_of(nx.MultiDiGraph([("a", "b")]), "train")


def test_a_factory_of_pykeen() -> None:
    numbers = np.array([[0, 0, 1], [1, 0, 0]])
    labelled = SimpleNamespace(
        mapped_triples=numbers, entity_id_to_label={1: "b", 0: "a"}, relation_id_to_label={0: "knows"}
    )
    sheet = sheet_of(labelled, "train")
    assert sheet.rows.rows() == [("a", "knows", "b"), ("b", "knows", "a")] and sheet.titles == (
        "head",
        "relation",
        "tail",
    )
    assert sheet_of(SimpleNamespace(mapped_triples=numbers), "train").rows.row(0) == ("0", "0", "1")


def test_no_library_is_imported() -> None:
    code = (
        "import sys, dura.data.sources.frames as f; f.sheet_of([('a', 'b', 'c')], 'train'); "
        "print([name for name in ('pandas', 'pyarrow', 'networkx', 'torch', 'pykeen') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
