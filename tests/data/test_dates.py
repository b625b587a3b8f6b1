from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.config.sections import Unit
from dura.data.dates import Dated, canonical, decide
from dura.data.times import Times, turned
from dura.types import BadInput

QUICK = settings(max_examples=60, deadline=None)
WRITTEN = {
    "YYYY-MM-DD": "%Y-%m-%d",
    "YYYY/MM/DD": "%Y/%m/%d",
    "YYYY.MM.DD": "%Y.%m.%d",
    "DD.MM.YYYY": "%d.%m.%Y",
    "DD/MM/YYYY": "%d/%m/%Y",
    "MM/DD/YYYY": "%m/%d/%Y",
    "DD-MM-YYYY": "%d-%m-%Y",
    "DD Month YYYY": "%d %B %Y",
    "Month DD, YYYY": "%b %d, %Y",
    "DD-Month-YYYY": "%d-%b-%Y",
    "YYYYMMDD": "%Y%m%d",
}
UNDECIDED = ("DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY")
DATES = st.lists(st.dates(date(1000, 1, 1), date(2999, 12, 31)), min_size=1, max_size=20)


def read(*texts: str | None, time_format: str | None = None, unit: Unit = "auto", zone: str = "UTC") -> Dated:
    return canonical([pl.Series(texts, dtype=pl.String)], time_format=time_format, unit=unit, zone=zone)


def times(*texts: str | None, time_format: str | None = None, unit: Unit = "auto", zone: str = "UTC") -> list[str]:
    (column,) = read(*texts, time_format=time_format, unit=unit, zone=zone).columns
    return column.to_list()


def wrong(dated: Dated) -> list[str]:
    return dated.readings[0].reasons("time").drop_nulls().to_list()


def written(day: date | datetime, pattern: str) -> str:
    """A date by a pattern, with all four digits of the year."""
    return day.strftime(pattern.replace("%Y", f"{day.year:04}"))


@QUICK
@given(DATES, st.sampled_from(sorted(WRITTEN)), st.booleans())
def test_every_date_in_every_form_comes_back(days: list[date], name: str, said: bool) -> None:
    texts = [written(day, WRITTEN[name]) for day in days]
    if not said and name in UNDECIDED:
        sure = date(2014, 5, 31)  # one day above 12 decides for all
        days, texts = (
            [*days, sure, date(2014, 6, 30)],
            [*texts, written(sure, WRITTEN[name]), written(date(2014, 6, 30), WRITTEN[name])],
        )
    dated = read(*texts, time_format=name if said else None)
    assert dated.columns[0].to_list() == [day.isoformat() for day in days]
    assert wrong(dated) == []
    # The rule that was found can be stored as a time format, and then reads the same.
    assert times(*texts, time_format=dated.rule.format) == dated.columns[0].to_list()


@QUICK
@given(
    st.lists(st.integers(0, 2**31).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)), min_size=1, max_size=10),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "+05:30"]),
)
def test_hours_are_placed_in_the_zone(moments: list[datetime], offset: int, zone: str) -> None:
    there = timezone(timedelta(minutes=offset))
    texts = [moment.replace(tzinfo=there).isoformat(timespec="seconds") for moment in moments]
    texts = [text if offset else text.replace("+00:00", "Z") for text in texts]
    home = timezone(timedelta(hours=5, minutes=30)) if zone == "+05:30" else ZoneInfo(zone)
    local = [moment.replace(tzinfo=there).astimezone(home) for moment in moments]
    assert times(*texts, unit="hour", zone=zone) == [f"{at:%Y-%m-%dT%H}" for at in local]
    assert times(*texts, zone=zone) == [f"{at:%Y-%m-%d}" for at in local]


@QUICK
@given(DATES, st.sampled_from(["hour", "day", "week", "month", "year"]))
def test_units_cut_and_keep_the_order(days: list[date], unit: Unit) -> None:
    moments = [datetime(day.year, day.month, day.day, day.day % 24, tzinfo=UTC) for day in sorted(days)]
    found = times(*(moment.isoformat() for moment in moments), unit=unit)
    for moment, text in zip(moments, found, strict=True):
        year, week, _ = moment.isocalendar()
        spelled = {"hour": f"{moment:%Y-%m-%dT%H}", "day": f"{moment:%Y-%m-%d}", "month": f"{moment:%Y-%m}"}
        assert text == (spelled | {"week": f"{year}-W{week:02}", "year": f"{moment:%Y}"})[unit]
    order = Times(found)
    assert order.kind == ("number" if unit == "year" else "date")
    assert list(order) == list(dict.fromkeys(found))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.text(max_size=120)
        | st.from_regex(r"[-+]?[0-9]{1,6}([-/. ][0-9A-Wa-w]{1,3}){0,3}([T ][0-9:]{1,8})?(Z|[-+][0-9:]{1,5})?"),
        max_size=8,
    ),
    st.sampled_from(["auto", "hour", "week", "month"]),
    st.none() | st.text(max_size=20) | st.text("YMDHS%dmyHbT-/. |", max_size=16) | st.sampled_from(["unix", "number"]),
)
def test_any_text_is_read_or_refused(texts: list[str], unit: Unit, time_format: str | None) -> None:
    try:
        dated = read(*texts, unit=unit, time_format=time_format)
    except BadInput as error:
        assert "\n" not in str(error)
        return
    (reading,) = dated.readings
    assert len(reading.times) == len(texts) == len(reading.bad)
    assert reading.times.null_count() == 0
    assert (reading.times.filter(reading.bad) == "").all()
    assert all(len(text) < 250 and "\n" not in text for text in wrong(dated))
    if dated.rule.format != "label" and (kept := [time for time in reading.times if time]):
        assert Times(kept).kind != "label"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("6.5.2014", "2014-05-06"),
        ("2014-5-6", "2014-05-06"),
        ("Tue, 06 May 2014 13:45:00 +0200", "2014-05-06"),
        ("6th May 2014", "2014-05-06"),
        ("May 6 2014", "2014-05-06"),
        ("may 2014", "2014-05"),
        ("Sept. 2014", "2014-09"),
        ("05/2014", "2014-05"),
        ("2014-05-06T23:59:60.999Z", "2014-05-06"),
        ("2014-05-06 24:00", "2014-05-07"),
        ("20140506T134500Z", "2014-05-06"),
        ("2014-05-06T13", "2014-05-06T13"),
        ("2014-W19", "2014-W19"),
        ("2014-W19-2", "2014-05-06"),
        ("2014-05-06+02:00", "2014-05-06"),
        ("2014Z", "2014"),
        ("-0044-03-15", "-0044-03-15"),
        ("-44-03-15", "-0044-03-15"),
        ("+2014-05-06T00:00:00Z", "2014-05-06"),
        (' "2014-05-06" '.strip(), "2014-05-06"),
        (" 2014-05-06 ", "2014-05-06"),
        ("1999-04-##", "1999-04"),
        ("####-##-##", ""),
        ("007", "7"),
        ("-", ""),
    ],
)
def test_spellings(text: str, kept: str) -> None:
    assert times(text) == [kept]
    assert times(kept) == [kept]


def test_day_and_month_in_doubt() -> None:
    assert times("06/05/2014", "13/05/2014") == ["2014-05-06", "2014-05-13"]
    assert times("06/05/2014", "05/13/2014 1:30 PM") == ["2014-06-05", "2014-05-13"]
    assert times("05/05/2014") == ["2014-05-05"]
    sentence = (
        r"it is not clear whether the time '06/05/2014' begins with the day or the month; "
        r"say it: --time-format DD/MM/YYYY or --time-format MM/DD/YYYY$"
    )
    with pytest.raises(BadInput, match=sentence):
        read("06/05/2014", "2014-05-07")
    with pytest.raises(BadInput, match="'13-05-2014' begins with the day, but '05-13-2014' with the month; say which"):
        read("13-05-2014", "05-13-2014")
    with pytest.raises(BadInput, match="'13-05-2014' begins with the day, but '05-13-2014' with the month; say which"):
        read("13-05-2014", "05-13-2014", "05-14-2014")  # nobody could tell what 05-06-2014 means
    # Begin and end share one reading, so each column may be in doubt alone.
    both = canonical([pl.Series(["06/05/2014"]), pl.Series(["31/05/2014"])])
    assert [column.to_list() for column in both.columns] == [["2014-05-06"], ["2014-05-31"]]


def test_bad_times_are_named() -> None:
    assert wrong(read("2014-02-30")) == ["the time 2014-02-30 is not a date of the calendar"]
    assert wrong(read("2014-05-06T25:00")) == ["the time 2014-05-06T25:00 is not a date of the calendar"]
    many = read(*(f"2014-05-{day}" for day in range(10, 20)), "n/a", "")
    assert wrong(many) == ["the time n/a is not written as YYYY-MM-DD"]
    assert wrong(read(*map(str, range(20)), "?")) == [
        "the time ? is not a number, but the other times are; leave it empty if the fact has no time"
    ]
    assert wrong(read("06.05.2014", "2014", time_format="%d.%m.%Y")) == ["the time 2014 is not written as %d.%m.%Y"]
    long = wrong(read(*map(str, range(20)), "x\n\x1b" * 100))
    assert len(long[0]) < 200
    assert "\x1b" not in long[0]


def test_labels_and_warnings() -> None:
    def warned(*texts: str) -> str:
        dated = read(*texts)
        assert dated.columns[0].to_list() == list(texts)
        return " ".join(dated.rule.warnings)

    assert warned("spring", "summer") == ""
    assert warned("Q1 2014", "Q2 2014") == (
        "times are labels in the order of text, one apart, although 'Q1 2014' resembles a date; say how dates are written, "
        "for example --time-format DD.MM.YYYY"
    )
    assert "although '2005/06' resembles a date" in warned("2005/06", "2006/07")
    assert "because 'soon' is neither a date nor a number; leave the field empty" in warned(
        "2014-02-28", "2014-03", "soon"
    )
    assert "because '12345' is no date, but others are" in warned("12345", "2014-05-06")
    assert times("06.05.14", "x", time_format="label") == ["06.05.14", "x"]
    assert times("٢٠١٤-٠٥-٠٦", "9" * 400) == ["٢٠١٤-٠٥-٠٦", "9" * 400]


def test_numbers_stay_numbers() -> None:
    assert times("20140506", "20140507") == ["2014-05-06", "2014-05-07"]
    assert read("20140506").rule.notes == (
        "times such as 20140506 are read as dates, YYYYMMDD (numbers: --time-format number)",
    )
    assert times("20140506", time_format="number") == ["20140506"]
    odd = read("20140506", "20140532")
    assert odd.columns[0].to_list() == ["20140506", "20140532"]
    assert "because '20140532' is not a date YYYYMMDD, but most are" in odd.rule.warnings[0]
    assert times("2014", "-44", "3.50", "") == ["2014", "-44", "3.5", ""]
    assert "--time-format unix makes dates" in read("1399377600").rule.warnings[0]
    assert "--time-format unix-ms makes dates" in read("1399377600123").rule.warnings[0]
    assert read("1", "22222", unit="day").rule.warnings == (
        "times such as '22222' are numbers, which --time-unit day does not change",
    )
    assert times("2014", "2013", unit="day") == ["2014", "2013"]


def test_seconds_since_1970() -> None:
    assert times("1399377600", "-1.5", "", time_format="unix") == ["2014-05-06", "1969-12-31", ""]
    assert times("1399377600123", time_format="unix-ms", unit="hour", zone="Asia/Tokyo") == ["2014-05-06T21"]
    far = read("9" * 12, "9" * 40, "0", "x", time_format="unix")
    assert far.columns[0].to_list() == ["", "", "1970-01-01", ""]
    assert wrong(far)[2] == "the time x is not a number of seconds"


def test_notes_on_hours_and_zones() -> None:
    rule = read("2014-05-06T13:45:00Z", "2014-05-06 23:45", zone="Europe/Berlin").rule
    assert rule.notes == (
        "times such as '2014-05-06 23:45' are cut to days (to keep hours: --time-unit hour)",
        "1 of 2 distinct date-times have a time zone; the others are taken as Europe/Berlin",
    )
    assert read("2014-05-06 00:00:00").rule.notes == ()
    assert read("2014-05-06T13").rule.notes == ()


def test_coarser_times_stay() -> None:
    mixed = ("2014-W19", "2014-05-06", "2014", "2014-05", "2014-05-06T13:45")
    assert times(*mixed, unit="week") == ["2014-W19", "2014-W19", "2014", "2014-05", "2014-W19"]
    assert times(*mixed, unit="month") == ["2014-05", "2014-05", "2014", "2014-05", "2014-05"]
    # The week of 29 December 2014 is the first of 2015.
    assert times("2015-W01", "2014-12-29", unit="year") == ["2015", "2014"]


@pytest.mark.parametrize(
    ("texts", "options", "sentence"),
    [
        (["06.05.14"], {}, r"the time '06\.05\.14' has a year of two digits, which may be of any century; write years with"),
        (["6 May 14"], {}, "has a year of two digits"),
        (["14-05-06"], {}, "has a year of two digits"),
        (["2014"], {"zone": "Europe/Berln"}, r"the time zone 'Europe/Berln' is not known; did you mean Europe/Berlin"),
        (["2014"], {"zone": "berlin"}, r"did you mean Europe/Berlin\?"),
        (["2014"], {"zone": ""}, r"the time zone '' is not known; write for example UTC, Europe/Berlin or \+02:00"),
        (["2014"], {"unit": "fortnight"}, "the time unit 'fortnight' is not known; known are auto, hour, day, week, month, year"),
        (["2014-05-06"], {"time_format": "DD.MM.YYYY"}, r"no time is written as DD\.MM\.YYYY, for example '2014-05-06'"),
        (["spring"], {"time_format": "number"}, "no time is written as number"),
    ],
)  # fmt: skip
def test_refusals(texts: list[str], options: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        read(*texts, **options)  # type: ignore[arg-type]


def test_splits_share_a_rule() -> None:
    rule = decide(pl.Series(["01/02/2014", "13/02/2014"]))
    assert rule.apply(pl.Series("time", ["01/02/2014", None])).times.to_list() == ["2014-02-01", ""]
    assert decide(pl.Series([], dtype=pl.String), time_format=rule.format) == rule
    assert decide(pl.Series([None], dtype=pl.String)).format == "number"


def test_turned_intervals_of_turned_dates() -> None:
    begin, end = canonical(
        [pl.Series(["09.01.2014", "10.01.2014", ""]), pl.Series(["10.01.2014", "09.01.2014", "1.1.2014"])]
    ).columns
    assert turned(begin, end).to_list() == [False, True, False]


def test_days_that_a_zone_moves_are_a_warning() -> None:
    midnights = [f"2014-05-{day:02}T00:00:00+02:00" for day in range(1, 29)]
    (warning,) = decide(pl.Series(midnights)).warnings
    assert "28 of 28 distinct date-times such as '2014-05-01T00:00:00+02:00' are on another day in UTC" in warning
    assert "--time-zone Europe/Berlin" in warning
    assert decide(pl.Series(midnights), zone="Europe/Berlin").warnings == ()
    assert decide(pl.Series([f"2014-05-{day:02}T12:00:00+02:00" for day in range(1, 29)])).warnings == ()
