from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data import separated
from dura.data.facts import FileColumns, read_columns
from dura.data.readers import READERS, ReadOptions, split_files
from dura.types import BadInput

QUICK = settings(max_examples=40)
NBSP = "\u00a0"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(read: FileColumns) -> list[tuple[str, ...]]:
    return list(zip(*(column.to_list() for column in read.columns), strict=True))


def test_names_are_taken_as_they_stand(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", f' A \tr "x"\tb{NBSP}\nÄ\rö\t,\t"q"\n')
    read = read_columns(path)
    assert rows(read) == [(" A ", 'r "x"', f"b{NBSP}"), ("Ä\rö", ",", '"q"')]
    assert read.numbers.to_list() == [1, 2]
    assert (read.bad, read.skipped, read.warnings) == ([], 0, [])


@pytest.mark.parametrize("ending", [".tsv", ".txt", ".tab", ".csv"])
@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_every_ending_compression_and_line_end(
    tmp_path: Path, ending: str, compression: str, line_end: str, mark: bytes
) -> None:
    separator = "," if ending == ".csv" else "\t"
    lines = [separator.join(fact) for fact in [("a", "r", "b"), ("c", "s", "d")]]
    data = mark + line_end.join(lines).encode()
    compressions: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
    compress = compressions[compression]
    path = write(tmp_path / f"x{ending}{compression}", compress(data))
    assert rows(read_columns(path)) == [("a", "r", "b"), ("c", "s", "d")]


def test_blank_lines_are_passed_over_but_counted(tmp_path: Path) -> None:
    read = read_columns(write(tmp_path / "a.tsv", "\na\tr\tb\n\n\r\nc\tr\td\n\n"))
    assert rows(read) == [("a", "r", "b"), ("c", "r", "d")]
    assert read.numbers.to_list() == [2, 5]


BAD = b"a\tr\tb\na\tr\n\tr\tb\na\t\tb\na\tr\t\n\xff\tr\tb\na\tr\tb\tc\nlast\tr\tb\n"
REASONS = [
    (2, "2 columns instead of 3"),
    (3, "the head is empty"),
    (4, "the relation is empty"),
    (5, "the tail is empty"),
    (6, "not UTF-8"),
    (7, "4 columns instead of 3"),
]


def test_bad_lines_are_reported_with_their_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", BAD)
    with pytest.raises(BadInput) as error:
        read_columns(path)
    message = str(error.value)
    assert message.startswith(f"6 lines are bad in {path}")
    for line, reason in REASONS:
        assert f"{path}:{line}: {reason}" in message


def test_skip_bad_reads_on_and_counts(tmp_path: Path) -> None:
    read = read_columns(write(tmp_path / "a.tsv", BAD), ReadOptions(skip_bad=True))
    assert rows(read) == [("a", "r", "b"), ("last", "r", "b")]
    assert read.numbers.to_list() == [1, 8]
    assert read.skipped == 6
    assert [(bad.line, bad.reason) for bad in read.bad] == REASONS


def test_at_most_ten_bad_lines_are_shown_in_order(tmp_path: Path) -> None:
    lines = ["a\tr\tb"] * 50
    lines += ["x", "a\t\tb"] * 12  # lines 51 to 74, two kinds in turn
    with pytest.raises(BadInput) as error:
        read_columns(write(tmp_path / "a.tsv", "\n".join(lines)))
    shown = str(error.value).splitlines()
    assert len(shown) == 12
    assert shown[-1] == "  and 14 more"
    assert [int(line.split(":")[-2]) for line in shown[1:11]] == list(range(51, 61))


def test_only_bad_lines_are_no_facts(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no facts"):
        read_columns(write(tmp_path / "a.tsv", b"\xff\n"), ReadOptions(skip_bad=True))
    with pytest.raises(BadInput, match="holds no facts"):
        read_columns(write(tmp_path / "b.tsv", "\n\n"))
    with pytest.raises(BadInput, match="holds no facts"):
        read_columns(write(tmp_path / "c.tsv", "head\trelation\ttail\n"))


def test_well_known_header_is_recognised_and_said(tmp_path: Path) -> None:
    read = read_columns(write(tmp_path / "a.csv", "Subject,Predicate,Object\na,r,b\n"))
    assert rows(read) == [("a", "r", "b")]
    assert read.notes == ["a.csv: head = 'Subject', relation = 'Predicate', tail = 'Object'; for example (a, r, b)"]
    assert read.numbers.to_list() == [2]


def test_well_known_header_gives_the_order(tmp_path: Path) -> None:
    read = read_columns(write(tmp_path / "a.tsv", "head\ttail\trelation\na\tb\tr\n"))
    assert rows(read) == [("a", "r", "b")]


def test_header_off_on_and_unknown(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "h\tr\tt\na\tr\tb\n")
    assert len(read_columns(path, ReadOptions(header=False))) == 2
    other = write(tmp_path / "b.tsv", "x\ty\tz\na\tr\tb\n")
    assert len(read_columns(other)) == 2
    assert rows(read_columns(other, ReadOptions(header=True))) == [("a", "r", "b")]


def test_columns_by_position_and_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,from,to,kind\n1,a,b,r\n2,c,d,s\n")
    expected = [("a", "r", "b"), ("c", "s", "d")]
    assert rows(read_columns(path, ReadOptions(columns="from,kind,to"))) == expected
    assert rows(read_columns(path, ReadOptions(columns=("from", "kind", "to")))) == expected
    assert rows(read_columns(path, ReadOptions(columns=(1, 3, 2), header=True))) == expected
    assert rows(read_columns(path, ReadOptions(columns="1,3,2"))) == expected  # the titles are well known
    assert rows(read_columns(path, ReadOptions(columns="1,3,2", header=False)))[0] == ("from", "kind", "to")
    assert rows(read_columns(path)) == expected


def test_chosen_columns_that_are_a_well_known_header(tmp_path: Path) -> None:
    read = read_columns(write(tmp_path / "a.tsv", "head\trelation\ttail\tw\na\tr\tb\t1\n"), ReadOptions((0, 1, 2)))
    assert rows(read) == [("a", "r", "b")]


def test_chosen_columns_take_lines_of_several_widths(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tr\tb\na\tr\tb\tsince\t1990\na\tr\n")
    read = read_columns(path, ReadOptions(columns=(0, 1, 2), skip_bad=True))
    assert len(read) == 2
    assert read.bad[0].reason == "2 columns instead of at least 3"
    dated = read_columns(path, ReadOptions(columns=(0, 1, 2, 4), skip_bad=True), ("head", "relation", "tail", "time"))
    assert rows(dated) == [("a", "r", "b", ""), ("a", "r", "b", "1990")]


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("a\tr\tb\tx\ty\n", ReadOptions(), "have 5 columns, but 3 are needed .* --columns 0,1,2"),
        ("a,r,b\n", ReadOptions(), "have 1 column between tabs, .* another separator"),
        ("a\tr\tb\n", ReadOptions(columns="0,1,7"), "has no column 7: its 3 columns"),
        ("a\tr\tb\n", ReadOptions(columns=(0, 1, -1)), "has no column -1"),
        ("a\tr\tb\n", ReadOptions(columns="h,r,t"), "has no column 'h'; its header has 'a', 'r', 'b'"),
        ("a\tr\tb\n", ReadOptions(columns="0,1"), "3 columns are needed .* but 2 are chosen"),
        ("a\tr\tb\n", ReadOptions(columns="a,r,b", header=False), "header=False"),
        ("a\tr\tb\n", ReadOptions(separator="::"), "is not one character"),
        ("a\tr\tb\n", ReadOptions(separator='"'), "is not one character"),
    ],
)
def test_wrong_choices_are_explained(tmp_path: Path, content: str, options: ReadOptions, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        read_columns(write(tmp_path / "a.tsv", content), options)


def test_separator_and_unknown_endings(tmp_path: Path) -> None:
    path = write(tmp_path / "facts.dat", "a|r|b\n")
    assert rows(read_columns(path, ReadOptions(separator="|"))) == [("a", "r", "b")]
    with pytest.raises(BadInput, match=r"unknown ending; known are \.tsv, .*or the separator"):
        read_columns(path)
    semicolons = write(tmp_path / "a.csv", '"a;x";r;b\n')
    assert rows(read_columns(semicolons, ReadOptions(separator=";"))) == [("a;x", "r", "b")]
    assert rows(read_columns(write(tmp_path / "b.csv", "a\tr\tb"), ReadOptions(separator="tab"))) == [("a", "r", "b")]
    with pytest.raises(BadInput, match="there is no file"):
        read_columns(tmp_path / "none.dat")


def test_csv_quotes_and_bad_quotes(tmp_path: Path) -> None:
    content = '"a, b",r,"say ""x"""\nplain,r,b\n"open,r,b\nc,r,"d\ne"f,r,g\n"x"y,r,z\n"last",r,b\n'
    read = read_columns(write(tmp_path / "a.csv", content), ReadOptions(skip_bad=True))
    assert rows(read) == [
        ("a, b", "r", 'say "x"'),
        ("plain", "r", "b"),
        ('e"f', "r", "g"),
        ("last", "r", "b"),
    ]
    assert read.numbers.to_list() == [1, 2, 5, 7]
    assert [bad.line for bad in read.bad] == [3, 4, 6]


def test_a_quoted_field_may_span_lines_but_a_name_may_not(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"a\.csv:1: the head holds a line break"):
        read_columns(write(tmp_path / "a.csv", '"a\nb",r,c\n'))
    content = 'head,relation,tail,note\na,r,b,"one\n\n""two"" three"\n"c",r,d,x\n'
    read = read_columns(write(tmp_path / "b.csv", content))
    assert rows(read) == [("a", "r", "b"), ("c", "r", "d")]
    assert read.numbers.to_list() == [2, 5]


NAMES = st.text(st.characters(exclude_characters="\n\t", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: not name.endswith("\r")
)
FACTS = st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=8)


@QUICK
@given(FACTS)
def test_any_names_survive_tsv(tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str]]) -> None:
    data = "".join("\t".join(fact) + "\n" for fact in facts).encode()
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return  # a name that begins with a byte order mark reads as one
    path = write(tmp_path_factory.getbasetemp() / "any.tsv", data)
    assert rows(read_columns(path, ReadOptions(header=False))) == facts


@QUICK
@given(FACTS)
def test_any_names_survive_csv(tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str]]) -> None:
    facts = [tuple(name.replace("\r", " ") for name in fact) for fact in facts]  # type: ignore[misc]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(facts)
    data = text.getvalue().encode()
    if data.startswith(b"\xef\xbb\xbf"):
        return
    path = write(tmp_path_factory.getbasetemp() / "any.csv", data)
    assert rows(read_columns(path, ReadOptions(header=False))) == facts


def test_large_files_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separated, "PIECE", 10)
    facts = [(f"a{i}", "r", f"b{i}") for i in range(100)]
    lines = ["\t".join(fact) for fact in facts]
    lines[50] = "bad"
    read = read_columns(write(tmp_path / "a.tsv", "\n".join(lines) + "\n"), ReadOptions(skip_bad=True))
    assert rows(read) == [*facts[:50], *facts[51:]]
    assert read.bad[0].line == 51
    assert read.numbers[-1] == 100


def test_split_files(tmp_path: Path) -> None:
    for name in ("train.tsv.gz", "dev.txt", "test.csv", "entities.tsv", "notes.md", "train.md"):
        write(tmp_path / name, "x")
    found = {part: path.name for part, path in split_files(tmp_path).items()}
    assert found == {
        "train": "train.tsv.gz",
        "valid": "dev.txt",
        "test": "test.csv",
        "entities": "entities.tsv",
    }
    write(tmp_path / "train.txt", "x")
    with pytest.raises(BadInput, match=r"two files for train, train\.tsv\.gz and train\.txt"):
        split_files(tmp_path)


@pytest.mark.parametrize("ending", [".tsv", ".txt", ".tab", ".csv"])
def test_every_separated_file_may_have_a_time_column(tmp_path: Path, ending: str) -> None:
    roles = ("head", "relation", "tail", "time")
    separator = "," if ending == ".csv" else "\t"
    path = write(tmp_path / f"t{ending}", separator.join(["a", "r", "b", "2014-05-13"]) + "\n")
    assert rows(read_columns(path, roles=roles)) == [("a", "r", "b", "2014-05-13")]


def test_every_reader_is_there_and_refuses_what_is_not_its_format(tmp_path: Path) -> None:
    for ending, reader in READERS.items():
        with pytest.raises(BadInput) as error:
            read_columns(write(tmp_path / f"t{ending}", b"\xff\xfe\x00{not a fact"))
        assert f"t{ending}" in str(error.value), reader
