"""Facts with times on their way from files and rows to graphs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dura.data import graph as graph_module
from dura.data.categories import relation_categories
from dura.data.doctor import check
from dura.data.graph import Graph
from dura.data.leaks import find_leaks
from dura.data.loading import load, load_with_notes
from dura.data.memory import from_facts
from dura.data.readers import ReadOptions
from dura.types import BadInput, Sizes


def lines(*rows: str) -> str:
    return "".join(row.replace(" ", "\t") + "\n" for row in rows)


def whole(path: Path, columns: str | None = None) -> Graph:
    return load(path, columns=columns, valid_share=0, test_share=0)


def named(graph: Graph) -> list[tuple[str, ...]]:
    assert graph.times is not None
    times = graph.times
    return [
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t), *times.names(when))
        for h, r, t, *when in graph.train.tolist()
    ]


def test_a_column_of_times(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(lines("a r b 2014-02-01", "a r b 2014-01-31", "a r b", "b r a ", "a r b 2014-02-01"))
    graph = whole(path, "0,1,2,3")
    assert graph.sizes == Sizes(2, 1, 3)
    assert named(graph) == [
        ("a", "r", "b", "2014-01-31"),
        ("a", "r", "b", "2014-02-01"),
        ("a", "r", "b", ""),
        ("b", "r", "a", ""),
    ]
    assert graph.times is not None
    assert np.diff(graph.times.positions).tolist() == [1]
    assert graph.train.dtype == np.int32
    assert "2 entities, 1 relations, 3 times, 4 train" in repr(graph)
    assert whole(path, "0,1,2").sizes == Sizes(2, 1)
    assert load(path).sizes == Sizes(2, 1, 3)  # dates that follow the tail are times
    path.write_text(lines("a r b x", "a r b y"))
    with pytest.raises(BadInput, match=r"have 4 columns, but 3 are needed .*--columns 0,1,2,3 if the last is a time"):
        load(path)


@pytest.mark.parametrize(
    ("header", "sizes"),
    [
        ("date,head,tail,relation", 4),
        ("Time,Head,Tail,Relation", 4),
        ("start,head,tail,relation,end", 5),
        ("since,s,o,p,until", 5),
    ],
)
def test_headers_name_times(tmp_path: Path, header: str, sizes: int) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n2014,a,b,r{',2016' if sizes == 5 else ''}\n")
    graph = whole(tmp_path / "a.csv")
    assert graph.train.shape == (1, sizes)
    assert named(graph)[0][:4] == ("a", "r", "b", "2014")


def test_intervals_have_open_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(
        lines("a r b 1990 1995", "a r c 1992 ", "a r d - 1993", "a r e 1994", "a r f", "a r g ####-##-## -")
    )
    graph = whole(path, "0,1,2,3,4")
    assert graph.times is not None
    assert list(graph.times) == ["1990", "1992", "1993", "1994", "1995", ""]
    assert [fact[2:] for fact in named(graph)] == [
        ("b", "1990", "1995"),
        ("c", "1992", "1995"),
        ("d", "1990", "1993"),
        ("e", "1994", "1995"),
        ("f", "", ""),
        ("g", "", ""),
    ]
    assert graph.intervals
    assert graph.asked("train").tolist() == graph.train[:, :4].tolist()


@pytest.fixture
def spans() -> Graph:
    return from_facts(
        [("a", "r", "b", 1, 4), ("a", "r", "c", 3, 3), ("a", "r", "d", None, None), ("b", "r", "c", 2, None)],
        [("a", "r", "e", 2, 3)],
        [],
    )


def test_intervals_are_known_at_all_their_times(spans: Graph) -> None:
    assert spans.times is not None
    assert list(spans.times) == ["1", "2", "3", "4", ""]
    known = spans.known
    a, b = spans.entities.id("a"), spans.entities.id("b")

    def answers(head: int, relation: int, time: str) -> str:
        assert spans.times is not None
        asked = known.known(np.array([head]), np.array([relation]), np.array([spans.times.id(time)]))
        return "".join(spans.entities.names(asked.answers))

    assert [answers(a, 0, time) for time in ("1", "2", "3", "4", "")] == ["b", "be", "bce", "b", "d"]
    assert [answers(b, 1, time) for time in ("1", "4", "")] == ["a", "a", ""]
    assert known.facts == 2 * (4 + 1 + 1 + 3 + 2)


def test_times_are_drawn_inside_their_interval(spans: Graph) -> None:
    facts = np.repeat(spans.train[:1], 4000, axis=0)
    drawn = spans.at_times(facts, np.random.default_rng(0))
    assert drawn.dtype == np.int32
    assert drawn.shape == (4000, 4)
    counts = Counter(drawn[:, 3].tolist())
    assert sorted(counts) == [0, 1, 2, 3]
    assert all(850 < count < 1150 for count in counts.values())
    again = spans.at_times(facts, np.random.default_rng(0))
    assert (again == drawn).all()
    one = spans.at_times(spans.train, np.random.default_rng(1))
    assert ((one[:, 3] >= spans.train[:, 3]) & (one[:, 3] <= spans.train[:, 4])).all()
    assert spans.at_times(one, np.random.default_rng(1)) is one


def test_too_many_times_are_refused(spans: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "MOST_TIMES", 10)
    with pytest.raises(BadInput, match="hold at 11 times altogether, more than the 10 that fit in memory; use coarser"):
        _ = spans.known


def test_digests(spans: Graph) -> None:
    rows = [("a", "r", "b"), ("b", "r", "a")]
    static, first = from_facts(rows), from_facts([(*row, "1") for row in rows])
    second, same = from_facts([(*row, "2") for row in rows]), from_facts([(*row, "1.0") for row in rows])
    assert len({static.digest, first.digest, second.digest, spans.digest}) == 4
    assert first.digest == same.digest
    # The digest of a graph without times is what it always was.
    assert load("umls").digest.startswith("ac788c5ecf8b")


def test_facts_and_times_must_fit(spans: Graph) -> None:
    with pytest.raises(BadInput, match="have 5 columns, but need 3 in all splits, or with times 4"):
        replace(spans, times=None)
    with pytest.raises(BadInput, match="have 4, 5 columns"):
        replace(spans, test=spans.test[:, :4])


@pytest.mark.parametrize(
    ("rows", "columns", "sentence"),
    [
        ("a r b 2014-02-30", "0,1,2,3", r"a\.tsv:1: the time 2014-02-30 is not a date of the calendar"),
        ("a r b 2014-13-01 2015", "0,1,2,3,4", r"a\.tsv:1: the begin 2014-13-01 is not a date of the calendar"),
        ("a r b 10 9", "0,1,2,3,4", r"a\.tsv:1: the end 9 is before the begin 10"),
        ("a  b 10", "0,1,2,3", r"a\.tsv:1: the relation is empty"),
        ("a r b ", "0,1,2,3", "has a column of times, but no fact has a time; choose only head"),
        ("a r b", "0,1,2,3", "has no column 3: its 3 columns"),
        (
            "a r b 1 2 3",
            "0,1,2,3,4,5",
            "3 columns are needed .*4 with a time, 5 with its begin and end, but 6 are chosen",
        ),
    ],
)
def test_bad_times_are_told_with_their_place(tmp_path: Path, rows: str, columns: str, sentence: str) -> None:
    (tmp_path / "a.tsv").write_text(lines(rows))
    with pytest.raises(BadInput, match=sentence):
        load(tmp_path / "a.tsv", columns=columns)


def test_bad_times_can_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(lines("a r b 2014-02-28", "a r b 2014-02-29", "b r a 2014"))
    loaded = load_with_notes(tmp_path / "a.tsv", ReadOptions("0,1,2,3", skip_bad=True))
    assert [str(bad).rsplit("/", 1)[-1] for bad in loaded.bad] == [
        "a.tsv:2: the time 2014-02-29 is not a date of the calendar"
    ]
    assert sum(len(part) for part in (loaded.graph.train, loaded.graph.valid, loaded.graph.test)) == 2


def test_one_odd_time_among_dates_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(lines("a r b 2014-02-28", "a r b 2014-02-27", "b r a soon"))
    loaded = load_with_notes(tmp_path / "a.tsv", ReadOptions("0,1,2,3"))
    assert loaded.warnings[0].startswith("times are labels in the order of text, one apart, because 'soon' is neither")


def test_splits_of_different_times(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(lines("head relation tail time", "a r b 1", "b r c 2"))
    (tmp_path / "valid.tsv").write_text(lines("a r c"))
    (tmp_path / "test.tsv").write_text(lines("head relation tail time", "a r b 2", "a r b 1"))
    loaded = load_with_notes(tmp_path)
    assert (loaded.graph.valid.tolist(), loaded.overlap) == ([[0, 0, 2, 2]], 1)
    (tmp_path / "test.tsv").write_text(lines("head relation tail begin end", "a r b 2 3"))
    with pytest.raises(BadInput, match=r"different times \(train time, valid none, test begin and end\); give all"):
        load(tmp_path)


def test_a_split_of_dated_facts_keeps_entities_and_relations(tmp_path: Path) -> None:
    rows = [f"e{i % 20} r e{(i * 7 + 1) % 20} {i % 13}" for i in range(260)]
    (tmp_path / "a.tsv").write_text(lines(*rows))
    graph = load(tmp_path / "a.tsv", columns="0,1,2,3")
    assert (len(graph.train), len(graph.valid), len(graph.test)) == (208, 26, 26)
    assert len(graph.unseen) == 0
    facts = {tuple(fact) for part in (graph.train, graph.valid, graph.test) for fact in part.tolist()}
    assert len(facts) == 260


def test_rows_and_frames_with_times() -> None:
    rows = [("a", "r", "b", date(2014, 5, 6)), ("b", "r", "a", None)]
    graph = from_facts(rows, valid_share=0, test_share=0)
    expected = [("a", "r", "b", "2014-05-06"), ("b", "r", "a", "")]
    assert named(graph) == expected
    frame = pl.DataFrame(rows, schema=["head", "relation", "tail", "time"], orient="row")
    assert named(from_facts(frame, valid_share=0, test_share=0)) == expected
    wide = frame.with_columns(w=pl.lit(1))
    assert from_facts(wide, valid_share=0, test_share=0).digest == graph.digest
    years = np.array([[0, 0, 1, 1990], [1, 0, 0, 1985]])
    assert named(from_facts(years, valid_share=0, test_share=0))[0] == ("0", "0", "1", "1990")
    with pytest.raises(BadInput, match=r"train:2: the end 1 is before the begin 2"):
        from_facts([("a", "r", "b", 1, 2), ("a", "r", "b", 2, 1)])
    with pytest.raises(BadInput, match=r"train:1: the time 2014-02-30 is not a date of the calendar"):
        from_facts([("a", "r", "b", "2014-02-30")])
    with pytest.raises(BadInput, match=r"fact 1 of train is \('a', 'r', 'b'\)"):
        from_facts([("a", "r", "b", 1), ("a", "r", "b")])


def test_categories_and_leaks_do_not_look_at_times() -> None:
    train = np.array([[i, 0, i + 20, t] for i in range(12) for t in range(3)])
    test = np.array([[32, 1, 12, 0], [32, 1, 12, 1], [20, 1, 0, 0]])
    assert relation_categories(train, 2).tolist() == ["1-1", "unseen"]
    back = np.array([[i + 20, 1, i, 5] for i in range(1, 12)])
    leaks = find_leaks(np.concatenate([train, back]), test)
    assert {(leak.giver, leak.given) for leak in leaks.found} == {(0, 1), (1, 0)}
    assert leaks.answered == 1


def test_the_doctor_tells_of_times(spans: Graph) -> None:
    graph = from_facts(
        [("a", "r", "b", "2014-01-05"), ("b", "r", "a", None)],
        [("a", "r", "a", "2014-01-07")],
        [("a", "r", "b", "2014-01-09")],
    )
    (finding,) = [finding for finding in check(graph).findings if finding.topic == "times"]
    assert finding.severity == "notice"
    assert finding.text == (
        "3 dates from 2014-01-05 to 2014-01-09; 1 fact without a time; 2 times not in train; 1 test fact also in train at some time"
    )
    assert finding.details["untimed"] == {"train": 1, "valid": 0, "test": 0}
    assert finding.details["lines"] == ["2014-01-07", "2014-01-09"]
    assert "times" in [finding.topic for finding in check(spans).findings]
