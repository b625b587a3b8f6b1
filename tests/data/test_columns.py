"""Which columns hold facts if only the column of times is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dura.data.columns import with_time
from dura.data.facts import read_columns
from dura.data.loading import load, load_with_notes
from dura.data.readers import ReadOptions
from dura.types import BadInput

HERE = "a.tsv"


@pytest.mark.parametrize(
    ("first", "time", "columns"),
    [
        ("a r b 2014", 3, (0, 1, 2, 3)),
        ("2014 a r b", 0, (1, 2, 3, 0)),
        ("a 1990 r 1995 b", "1,3", (0, 2, 4, 1, 3)),
        ("from when link to note", "when", ("from", "link", "to", "when")),
        ("a when b c note", "when", (0, 2, 3, "when")),
        ("when tail Head note relation", "when", ("Head", "relation", "tail", "when")),
        ("head relation tail x", 3, ("head", "relation", "tail", 3)),
        ("a b c first last", ("first", "last"), (0, 1, 2, "first", "last")),
    ],
)
def test_the_others_are_head_relation_and_tail(first: str, time: int | str, columns: tuple[int | str, ...]) -> None:
    assert with_time(HERE, first.split(), ReadOptions(time=time)) == columns


def test_a_line_without_header_has_no_names() -> None:
    assert with_time(HERE, ["s", "p", "o", "2014"], ReadOptions(header=False, time=3)) == (0, 1, 2, 3)


def test_columns_of_facts_may_be_chosen_too() -> None:
    assert with_time(HERE, [], ReadOptions("from,link,to", time="date")) == ("from", "link", "to", "date")
    assert with_time(HERE, [], ReadOptions((3, 2, 1), time=0)) == (3, 2, 1, 0)


def test_impossible_choices_are_one_sentence() -> None:
    first = ["from", "link", "to", "day"]
    with pytest.raises(BadInput, match=r"a.tsv has no column 'date'; its first line has 'from', 'link', 'to', 'day'"):
        with_time(HERE, first, ReadOptions(time="date"))
    with pytest.raises(BadInput, match="3 columns of times are chosen, but a fact has one time, or a begin and an end"):
        with_time(HERE, first, ReadOptions(time="1,2,3"))
    with pytest.raises(BadInput, match="4 columns are chosen, but next to a time there must be three"):
        with_time(HERE, first, ReadOptions("0,1,2,3", time="day"))
    with pytest.raises(BadInput, match="a column is chosen twice: 0, 1, 2, 2"):
        with_time(HERE, first, ReadOptions("0,1,2", time=2))


@pytest.mark.parametrize(
    ("name", "text", "options", "chosen"),
    [
        ("a.csv", '"the, date",x,y,z\n2014,a,r,b\n', ReadOptions(time=("the, date",)), (1, 2, 3, "the, date")),
        ("a.txt", "\ndate;x;y;z\n2014;a;r;b\n", ReadOptions(separator=";", time="date"), (1, 2, 3, "date")),
        ("a.tsv", "2014\ta\tr\tb\n", ReadOptions(time=0), (1, 2, 3, 0)),
    ],
)
def test_readers_find_the_columns_while_they_read(
    tmp_path: Path, name: str, text: str, options: ReadOptions, chosen: tuple[int | str, ...]
) -> None:
    (tmp_path / name).write_text(text)
    read = read_columns(tmp_path / name, options)
    assert [column.to_list() for column in read.columns] == [["a"], ["r"], ["b"], ["2014"]]
    assert read.chosen == chosen
    again = read_columns(tmp_path / name, replace(options, columns=chosen, time=None))
    assert [column.to_list() for column in again.columns] == [column.to_list() for column in read.columns]


def test_a_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tr\tb\t1\nb\tr\ta\t2\n")
    opened = []
    real = Path.open

    def counted(self: Path, mode: str) -> object:
        opened.append(self)
        return real(self, mode)

    monkeypatch.setattr(Path, "open", counted)
    assert load(path, time=3).sizes.times == 2
    assert opened == [path]


def test_the_train_file_of_a_folder_decides_for_all(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("date\thead\trelation\ttail\n1\ta\tr\tb\n2\tb\tr\tc\n")
    (tmp_path / "valid.tsv").write_text("relation\ttail\thead\tdate\nr\tc\ta\t1\n")
    loaded = load_with_notes(tmp_path, ReadOptions(time="date"))
    assert loaded.columns == ("head", "relation", "tail", "date")
    assert loaded.graph.valid.tolist() == [[0, 0, 2, 0]]
    (tmp_path / "valid.tsv").write_text("when\thead\trelation\ttail\n1\ta\tr\tc\n")
    with pytest.raises(BadInput, match="valid.tsv has no column 'date'"):
        load(tmp_path, time="date")


def test_a_known_graph_has_its_own_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DURA_DATA", raising=False)
    with pytest.raises(BadInput, match=r"for your own file or folder, but 'umls' is a known graph"):
        load("umls", time=3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.tsv").write_text("a\tr\tb\t1\nb\tr\ta\t2\n")
    monkeypatch.setenv("DURA_DATA", str(tmp_path))
    assert load("mine", time=3).sizes.times == 2
