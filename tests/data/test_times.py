from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.times import Times, day_of, spelled, spelling, turned
from dura.types import BadInput

QUICK = settings(max_examples=60)
DATES = st.lists(st.dates(), min_size=1, max_size=20)
NUMBERS = st.lists(st.integers(-(10**6), 10**6).map(lambda n: n / 8), min_size=1, max_size=20)
LABELS = st.lists(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=12
)


@QUICK
@given(DATES)
def test_dates_are_in_order_with_the_days_between_them(dates: list[date]) -> None:
    times = Times(day.isoformat() for day in dates)
    ordered = sorted(set(dates))
    if len(ordered) == 0:
        return
    assert list(times) == [day.isoformat() for day in ordered]
    assert times.kind == "date"
    assert times.positions.tolist() == [(day - date(1970, 1, 1)).days for day in ordered]
    assert [times.id(day.isoformat()) for day in ordered] == list(range(len(ordered)))


@QUICK
@given(NUMBERS)
def test_numbers_are_in_order_with_their_distances(numbers: list[float]) -> None:
    times = Times(map(str, numbers))
    assert times.kind == "number"
    assert times.positions.tolist() == sorted(set(numbers))
    assert [float(time) for time in times] == times.positions.tolist()


@QUICK
@given(LABELS)
def test_any_times_survive_writing_and_are_one_time_each(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    times = Times(names)
    path = tmp_path_factory.getbasetemp() / "times.txt"
    times.write(path)
    again = Times.read(path)
    assert (list(again), again.kind, again.no_time) == (list(times), times.kind, times.no_time)
    assert again.positions.tolist() == times.positions.tolist()
    assert again.digest == times.digest
    assert len(times.positions) == len(times) - times.no_time
    assert (np.diff(times.positions) >= 0).all()
    ids = times.ids(pl.Series(names, dtype=pl.String))
    assert ids.dtype == np.int32
    assert times.names(ids) == [spelling(name) for name in names]
    assert [spelling(time) for time in times] == list(times)


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("1963-##-##", "1963"),
        ('"1963-##-##"', "1963"),
        ("600-##-##", "600"),
        ("1999-04-##", "1999-04"),
        ("2014-05-06", "2014-05-06"),
        ("007", "7"),
        ("+5", "5"),
        ("1.50", "1.5"),
        ("2014.0", "2014"),
        ("-0", "0"),
        (".5", "0.5"),
        ("100", "100"),
        ("-44", "-44"),
        ("-", ""),
        ("####-##-##", ""),
        ('"####-##-##"', ""),
        ("", ""),
        ("1e3", "1e3"),
        (" x ", " x "),
        (".", "."),
        ('"', '"'),
    ],
)
def test_spellings(given_name: str, kept: str) -> None:
    assert spelling(given_name) == kept


@QUICK
@given(LABELS | st.lists(st.text('0123456789.+-#"', max_size=8), max_size=20))
def test_columns_are_spelled_like_single_times(names: list[str]) -> None:
    assert spelled(pl.Series(names, dtype=pl.String)).to_list() == [spelling(name) for name in names]


def test_hours_and_weeks_are_dates() -> None:
    mixed = Times(["2014-05-06T13", "2014-W19", "2014-05-06", "2014-05", "2014", "2014-05-06T00", "2014-05-05"])
    assert mixed.kind == "date"
    assert list(mixed) == ["2014", "2014-05", "2014-W19", "2014-05-05", "2014-05-06", "2014-05-06T00", "2014-05-06T13"]
    assert mixed.positions[-1] - mixed.positions[-2] == pytest.approx(13 / 24)
    assert [day_of(text) for text in ("2014-05-06T24", "2014-W00", "2014-W53", "2014-05T01")] == [None] * 4
    assert day_of("2015-W01") == day_of("2014-12-29")


def test_kinds() -> None:
    years = Times(["2014", "1963-##-##", "600-##-##", "-44"])
    assert (list(years), years.kind) == (["-44", "600", "1963", "2014"], "number")
    assert np.diff(years.positions).tolist() == [644, 1363, 51]
    mixed = Times(["2014-03", "2013", "2014-02-28", "2014-##-##"])
    assert (list(mixed), mixed.kind) == (["2013", "2014", "2014-02-28", "2014-03"], "date")
    assert np.diff(mixed.positions).tolist() == [365, 58, 1]
    words = Times(["2014-03-01", "10", "9", "May"])
    assert (list(words), words.kind) == (["10", "2014-03-01", "9", "May"], "label")
    assert words.positions.tolist() == [0, 1, 2, 3]
    assert list(Times(["1", "2", ""])) == ["1", "2", ""]
    assert list(Times(["9" * 400, "1"])) == ["1", "9" * 400]  # no float, so text


def test_days_of_the_calendar() -> None:
    assert day_of("2000-02-29") is not None
    assert [day_of(text) for text in ("1900-02-29", "2014-13-01", "2014-00-01", "2014-5-6", "20140506")] == [None] * 5
    for years in (-400, 0, 400):
        start, end = day_of(f"{2000 + years}-03-01"), day_of(f"{2001 + years}-03-01")
        assert start is not None
        assert end is not None
        assert end - start == 365
    before, after = day_of("0000-12-31"), day_of("0001-01-01")
    assert (before, after) == ((date(1, 1, 1) - date(1970, 1, 1)).days - 1, (date(1, 1, 1) - date(1970, 1, 1)).days)


def test_unknown_times_name_their_neighbours() -> None:
    days = Times([(date(2014, 1, 1) + timedelta(days=7 * week)).isoformat() for week in range(3)])
    assert days.id("2014-01-08") == 1
    assert "2014-01-08" in days
    assert "2014-01-09" not in days
    for asked, sentence in (
        (
            "2014-01-10",
            "the time '2014-01-10' is not in this graph; the nearest are 2014-01-08 before and 2014-01-15 after it",
        ),
        ("2013", "the nearest is 2014-01-01 after it"),
        ("2020-01-01", "the nearest is 2014-01-15 before it"),
        ("May", "not in this graph, whose times are dates from 2014-01-01 to 2014-01-15"),
        ("", "no time is given, but every fact of this graph has one, from 2014-01-01 to 2014-01-15"),
    ):
        with pytest.raises(BadInput, match=sentence):
            days.id(asked)
    with pytest.raises(BadInput, match=r"the time 'sprng' is not in this graph; did you mean 'spring'\?"):
        Times(["spring", "autumn"]).id("sprng")
    assert Times(["1", ""]).id("-") == 1
    with pytest.raises(BadInput, match="line break"):
        Times(["a\nb"])


def test_turned_intervals(tmp_path: Path) -> None:
    begin, end = pl.Series(["9", "10", "", "5", ""]), pl.Series(["10", "9", "3", "-", "-"])
    assert turned(begin, end).to_list() == [False, True, False, False, False]
