from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.content import ENOUGH, look_like_dates
from dura.data.facts import facts_of
from dura.data.graph import Graph
from dura.data.loading import load
from dura.data.memory import from_facts
from dura.data.readers import FACT, INTERVAL, POINT, ReadOptions
from dura.data.recognition import recognise
from dura.data.sheet import Sheet
from dura.types import BadInput

RANDOM = random.Random(0)
FACTS = [(f"a{RANDOM.randrange(40)}", f"r{RANDOM.randrange(2)}", f"b{RANDOM.randrange(40)}") for _ in range(200)]


def sheet(rows: list[Any], titles: tuple[str, ...] | None = None) -> Sheet:
    width = len(rows[0]) if rows else len(titles or ())
    frame = pl.DataFrame(rows, schema=dict.fromkeys(map(str, range(width)), pl.String), orient="row")
    return Sheet("some.csv", frame, titles)


# -- what the user says -------------------------------------------------------------------------------------------------


def test_what_the_user_says_comes_first() -> None:
    rows = [(h, r, t, "x") for h, r, t in FACTS]
    titles = ("tail", "relation", "head", "other")
    assert recognise(sheet(rows, titles), ReadOptions()).positions == (2, 1, 0)
    assert recognise(sheet(rows, titles), ReadOptions(columns="0,3,2")).positions == (0, 3, 2)
    assert recognise(sheet(rows, titles), ReadOptions(columns="other,relation,tail")).positions == (3, 1, 0)
    plan = recognise(sheet(rows, titles), ReadOptions(time="other"))
    assert (plan.roles, plan.positions) == (POINT, (2, 1, 0, 3))
    assert plan.chosen == ("head", "relation", "tail", "other")


def test_chosen_columns_and_the_header() -> None:
    rows = [("from", "kind", "to"), *FACTS]
    assert recognise(sheet(rows), ReadOptions(columns="0,1,2")).header
    assert not recognise(sheet(rows), ReadOptions(columns="0,1,2", header=False)).header
    assert not recognise(sheet([("x", "y", "z"), *FACTS]), ReadOptions(columns="0,1,2")).header
    assert recognise(sheet([("x", "y", "z"), *FACTS]), ReadOptions(columns="x,y,z")).header


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (ReadOptions(columns="0,1,9"), r"some\.csv has no column 9: its 3 columns are numbered from 0"),
        (ReadOptions(columns="0,1,z"), r"some\.csv has no column 'z'; its header has 'a', 'b', 'b'"),
        (ReadOptions(columns="a,b,0"), r"2 columns called 'b'; choose by position, from 0"),
        (ReadOptions(columns="0,1,0"), r"a column of some\.csv is chosen twice: 0, 1, 0"),
        (ReadOptions(columns="0,1"), "3 columns are needed"),
        (ReadOptions(columns="0,1,2,0,1,2"), "but 6 are chosen"),
        (ReadOptions(time=2), "no column|are needed"),
    ],
)
def test_wrong_choices(options: ReadOptions, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        recognise(sheet([("a", "r", "b")] * 5, ("a", "b", "b")), options)


# -- titles -------------------------------------------------------------------------------------------------------------


def test_titles_that_nobody_knows_are_refused_with_an_example() -> None:
    with pytest.raises(BadInput, match=r"has the columns 'w', 'x', 'y', 'z', but which .*for example --columns w,x,y"):
        recognise(sheet([("a", "r", "b", "c")], ("w", "x", "y", "z")), ReadOptions())


@pytest.mark.parametrize(
    ("extra", "roles"),
    [(("date",), POINT), (("since", "until"), INTERVAL), (("weight",), FACT), (("date", "timestamp"), FACT)],
)
def test_titles_name_times(extra: tuple[str, ...], roles: tuple[str, ...]) -> None:
    rows = [(*fact, *("2014" for _ in extra)) for fact in FACTS]
    assert recognise(sheet(rows, (*FACT, *extra)), ReadOptions()).roles == roles


EXTRA = ["weight", "note", "id", "date"]


@settings(max_examples=40)
@given(st.permutations(range(7)), st.sampled_from([FACT, ("from_id", "edge_type", "to_id"), ("s", "p", "o")]))
def test_permuted_columns_with_titles_are_the_same_graph(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], titles: tuple[str, ...]
) -> None:
    every = [*titles, *EXTRA]
    rows = [(*fact, f"0.{i}", "a note", str(i), f"2014-{1 + i % 12:02}") for i, fact in enumerate(FACTS)]
    frame = pl.DataFrame([[row[at] for at in order] for row in rows], schema=[every[at] for at in order], orient="row")
    expected = from_facts([(*fact, row[-1]) for fact, row in zip(FACTS, rows, strict=True)])
    assert from_facts(frame).digest == expected.digest
    path = tmp_path_factory.getbasetemp() / "permuted.csv"
    frame.write_csv(path)
    assert load(path).digest == expected.digest


# -- content ------------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.permutations(FACTS), st.sampled_from([(0, 1, 2), (1, 0, 2), (0, 2, 1)]))
def test_the_order_of_rows_does_not_matter(facts: list[tuple[str, ...]], order: tuple[int, ...]) -> None:
    plan = recognise(sheet([[fact[at] for at in order] for fact in facts]), ReadOptions())
    assert plan.positions == tuple(order.index(at) for at in range(3))
    assert bool(plan.warnings) == (order != (0, 1, 2))


def test_few_rows_decide_nothing() -> None:
    rows = [(r, h, t) for h, r, t in FACTS[: ENOUGH - 1]]
    plan = recognise(sheet(rows), ReadOptions())
    assert (plan.positions, plan.warnings) == ((0, 1, 2), [])


def test_columns_after_the_fact_are_times_only_if_they_are_dates() -> None:
    days = [(*fact, f"2014-05-{1 + i % 28:02}") for i, fact in enumerate(FACTS)]
    assert recognise(sheet(days), ReadOptions()).roles == POINT
    spans = [(*day, "2015-01-01") for day in days]
    assert recognise(sheet(spans), ReadOptions()).roles == INTERVAL
    for wrong in ("0.5", "7", "2014", "note"):
        with pytest.raises(
            BadInput, match=r"have 4 columns, but 3 are needed .*--columns 0,1,2, and a time with --time"
        ):
            recognise(sheet([(*fact, wrong) for fact in FACTS]), ReadOptions())


@pytest.mark.parametrize(
    ("values", "dates"),
    [
        (["2014-05-06"] * 9 + ["unknown"], True),
        (["2014-05-06"] * 8 + ["unknown"] * 2, False),
        (["06.05.2014", "5/6/2014", "2014/5", "2014-05-06T12:00:00Z", ""], True),
        (["2014"], False),
        (["1.5.2"], False),
        (["", None], False),
        ([], False),
    ],
)
def test_what_looks_like_dates(values: list[str | None], dates: bool) -> None:
    assert look_like_dates(pl.Series(values, dtype=pl.String)) == dates


# -- anything -----------------------------------------------------------------------------------------------------------

CELLS = st.text(max_size=6) | st.sampled_from(
    ["head", "relation", "tail", "from", "to", "type", "date", "2014-05-06", "1"]
)
OPTIONS = st.builds(
    ReadOptions,
    columns=st.none()
    | st.sampled_from(["0,1,2", "head,relation,tail", "2,1,0,3", "0", "9,1,2", (0, 1, -1), ("",) * 3]),
    header=st.sampled_from([None, True, False]),
    skip_bad=st.booleans(),
    time=st.none() | st.sampled_from([0, 3, "date", "1,2", "x"]),
)


@st.composite
def sheets(draw: st.DrawFn) -> Sheet:
    width = draw(st.integers(1, 6))
    row = st.lists(st.none() | CELLS, min_size=width, max_size=width)
    titles = draw(st.none() | st.lists(CELLS, min_size=width, max_size=width))
    rows = draw(st.lists(row, max_size=5)) * draw(st.sampled_from([1, 1, 40]))
    frame = pl.DataFrame(rows, schema=dict.fromkeys(map(str, range(width)), pl.String), orient="row")
    return Sheet("any", frame, None if titles is None else tuple(titles))


@settings(max_examples=300)
@given(sheets(), OPTIONS)
def test_any_sheet_and_options_give_facts_or_a_sentence(anything: Sheet, options: ReadOptions) -> None:
    try:
        read = facts_of(anything, options)
    except BadInput as error:
        assert str(error)
        return
    assert all(len(column) == len(read) > 0 for column in read.columns)
    assert not any((column == "").any() or column.null_count() for column in read.columns[:3])
    assert read.notes


@settings(max_examples=100)
@given(st.lists(CELLS, min_size=3, max_size=5))
def test_any_text_as_titles_gives_a_graph_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, titles: list[str]
) -> None:
    rows = [[*fact, "2014-05-06", "x"][: len(titles)] for fact in FACTS]
    frame = pl.DataFrame(rows, schema=[str(at) for at in range(len(titles))], orient="row")
    path = tmp_path_factory.getbasetemp() / "titles.csv"
    pl.concat([pl.DataFrame([titles], schema=frame.schema, orient="row"), frame]).write_csv(path, include_header=False)
    try:
        assert isinstance(load(path), Graph)
    except BadInput as error:
        assert str(error)


def test_an_empty_file_of_a_split(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("head,relation,tail\na,r,b\n")
    (tmp_path / "test.csv").write_text("head,relation,tail\n")
    with pytest.raises(BadInput, match=r"test\.csv holds no facts"):
        load(tmp_path)
