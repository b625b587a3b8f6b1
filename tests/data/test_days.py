from __future__ import annotations

from datetime import date, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dura.data.days import civil, from_civil, from_weeks
from dura.data.times import day_of

START = date(1970, 1, 1)


@given(st.lists(st.dates(), min_size=1, max_size=30))
def test_days_and_dates_are_those_of_the_calendar(dates: list[date]) -> None:
    year, month, day = (np.array([getattr(one, part) for one in dates], np.int64) for part in ("year", "month", "day"))
    days, valid = from_civil(year, month, day)
    assert valid.all()
    assert days.tolist() == [(one - START).days for one in dates]
    assert [part.tolist() for part in civil(days)] == [year.tolist(), month.tolist(), day.tolist()]
    iso = np.array([one.isocalendar() for one in dates], np.int64).T
    again, valid = from_weeks(iso[0], iso[1], iso[2])
    assert valid.all()
    assert again.tolist() == days.tolist()


@given(st.integers(-9999, 9999), st.integers(-1, 14), st.integers(-1, 33))
def test_columns_and_single_times_agree(year: int, month: int, day: int) -> None:
    days, valid = from_civil(*(np.array([part]) for part in (year, month, day)))
    single = day_of(f"{year:05}-{month:02}-{day:02}" if year < 0 else f"{year:04}-{month:02}-{day:02}")
    assert single == (float(days[0]) if valid[0] else None)
    weeks, valid = from_weeks(*(np.array([part]) for part in (year, day, 1)))
    single = day_of(f"{year:05}-W{day:02}" if year < 0 else f"{year:04}-W{day:02}")
    assert single is None or single == weeks[0]
    assert (single is not None) == (bool(valid[0]) and day >= 0)


def test_a_week_has_seven_days() -> None:
    monday = START + timedelta(days=4)
    assert day_of("1970-W02") == 4.0 == (monday - START).days
