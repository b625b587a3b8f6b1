from __future__ import annotations

import polars as pl
import pytest

from dura.data.forms import form_of, forms_of
from dura.types import BadInput


@pytest.mark.parametrize(
    ("pattern", "level", "text"),
    [
        ("YYYY", "year", "2014"),
        ("YYYY-Www", "week", "2014-W19"),
        ("YYYY-Www-D", "day", "2014-W19-2"),
        ("MM.YYYY", "month", "05.2014"),
        ("dd-MMM-yyyy", "day", "06-May-2014"),
        ("DD. Month YYYY", "day", "6. May 2014"),
        ("dd.MM.yyyy HH:mm:ss", "hour", "06.05.2014 13:45:00"),
        ("YYYY-MM-DD HH24:MI:SS", "hour", "2014-05-06 13:45:00.5+02:00"),
        ("HH:MM DD.MM.YYYY", "hour", "13:45 06.05.2014"),
        ("%H:%M:%S %d.%m.%Y", "hour", "13:45:10 06.05.2014"),
        ("%b %-d, %Y %I:%M %p", "hour", "May 6, 2014 1:45 PM"),
        ("%FT%T%z", "hour", "2014-05-06T13:45:00+0200"),
        ("YYYYMMDDHHMMSS", "hour", "20140506134500"),
    ],
)
def test_patterns(pattern: str, level: str, text: str) -> None:
    form = form_of(pattern)
    assert (form.name, form.level) == (pattern, level)
    parts = pl.Series([text]).str.extract_groups(form.regex).struct.unnest()
    assert parts["y"].to_list() == ["2014"]
    assert level != "hour" or parts["H"][0] in ("13", "1")


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("", r"the time format '' has no year \(YYYY\); write for example DD\.MM\.YYYY"),
        ("DD.MM.YY", "has a year of two digits, which may be of any century; write years with four digits"),
        ("%d.%m.%y", "has a year of two digits"),
        ("hello", "holds 'E', which is not known"),
        ("%q", "holds %q, which is not known"),
        ("DD.YYYY", r"has a day but no month \(MM\)"),
        ("YYYY HH", r"has an hour but no day \(DD\)"),
        ("YYYY-MM-DD MI", "has minutes, seconds or a zone but no hour"),
        ("YYYY-MM-DD-MM", "names a part twice"),
        ("YYYY-Www-MM", "names a part twice"),
        ("YYYY|", "the time format '' has no year"),
        ("Y" * 300, "is too long"),
    ],
)
def test_wrong_patterns(pattern: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        forms_of(pattern)
