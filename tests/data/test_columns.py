"""Which columns are facts where only the column of times is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from dura.data.columns import with_time
from dura.types import BadInput


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("first", "time", "columns"),
    [
        ("a\tr\tb\t2014", 3, (0, 1, 2, 3)),
        ("2014\ta\tr\tb", 0, (1, 2, 3, 0)),
        ("a\t1990\tr\t1995\tb", "1,3", (0, 2, 4, 1, 3)),
        ("from\twhen\tlink\tto\tnote", "when", (0, 2, 3, "when")),
        ("when\ttail\tHead\tnote\trelation", "when", ("Head", "relation", "tail", "when")),
        ("head\trelation\ttail\tx", 3, ("head", "relation", "tail", 3)),
        ("a\tb\tc\tfirst\tlast", ("first", "last"), (0, 1, 2, "first", "last")),
    ],
)
def test_the_others_are_head_relation_and_tail(
    tmp_path: Path, first: str, time: int | str, columns: tuple[int | str, ...]
) -> None:
    assert with_time(write(tmp_path / "a.tsv", f"\n{first}\n"), time) == columns


def test_separators_quotes_and_folders(tmp_path: Path) -> None:
    assert with_time(write(tmp_path / "a.csv", '"the, date",x,y,z\n'), ("the, date",)) == (1, 2, 3, "the, date")
    assert with_time(write(tmp_path / "a.txt", "date;x;y;z\n"), "date", separator=";") == (1, 2, 3, "date")
    write(tmp_path / "train.tsv", "date\tx\ty\tz\n")
    assert with_time(tmp_path, "date") == (1, 2, 3, "date")
    plain = write(tmp_path / "b.tsv", "s\tp\to\t2014\n")
    assert with_time(plain, 3, header=False) == (0, 1, 2, 3)


def test_columns_of_facts_may_be_chosen_too(tmp_path: Path) -> None:
    assert with_time(tmp_path / "unread.tsv", "date", "from,link,to") == ("from", "link", "to", "date")
    assert with_time(tmp_path / "unread.tsv", 0, (3, 2, 1)) == (3, 2, 1, 0)


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "from\tlink\tto\tday\n")
    with pytest.raises(BadInput, match=r"a.tsv has no column 'date'; its first line has 'from', 'link', 'to', 'day'"):
        with_time(path, "date")
    with pytest.raises(BadInput, match="3 columns of times are chosen, but a fact has one time, or a begin and an end"):
        with_time(path, "1,2,3")
    with pytest.raises(BadInput, match="4 columns are chosen, but beside a time they are three"):
        with_time(path, "day", "0,1,2,3")
    with pytest.raises(BadInput, match="a column is chosen twice: 0, 1, 2, 2"):
        with_time(path, 2, "0,1,2")
