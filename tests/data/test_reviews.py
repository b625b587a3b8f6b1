"""Files of decisions: words, lines, names, contradictions; and what they make of a graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import dura
from dura.data.graph import Graph
from dura.data.reviews import as_ids, latest, named, read_decisions, read_lines, with_reviews
from dura.types import BadInput

FACTS = [("Ann", "knows", "Bob"), ("Bob", "knows", "Eve"), ("Eve", "likes", "Ann"), ("Ann", "likes", "Bob")]


def graph() -> Graph:
    return dura.from_facts(FACTS, [("Bob", "likes", "Eve")], [("Eve", "knows", "Ann")])


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("word", ["accept", "Accepted", " YES ", "y", "1", "1.0", "true"])
@pytest.mark.parametrize("other", ["reject", "Rejected", "no", "N", "0", "0.0", "false"])
def test_words_for_decisions(tmp_path: Path, word: str, other: str) -> None:
    file = written(
        tmp_path / "a.csv", "head,relation,tail,decision", f"Ann,knows,Eve,{word}", f"Bob,knows,Ann,{other}", "a,b,c,"
    )
    read = read_decisions(file)
    assert [d.decision for d in read.decisions] == ["accept", "reject"]
    assert (read.lines, read.undecided) == ([2, 3], 1)


def test_other_formats_separators_and_columns(tmp_path: Path) -> None:
    frame = pl.DataFrame({"share": [0.5], "Decision": ["yes"], "tail": ["Eve"], "relation": ["knows"], "head": ["Ann"]})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ndjson(tmp_path / "a.jsonl")
    frame.write_csv(tmp_path / "a.tsv", separator="\t")
    frame.write_csv(tmp_path / "a.csv", separator=";")
    for ending in ("parquet", "jsonl", "tsv", "csv"):
        (decision,) = read_decisions(tmp_path / f"a.{ending}").decisions
        assert (decision.fact, decision.decision) == (("Ann", "knows", "Eve", ""), "accept")


def test_bad_lines_are_reported_with_their_numbers(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "head,relation,tail,decision", "Ann,knows,Eve,perhaps", ",knows,Eve,yes")
    with pytest.raises(
        BadInput,
        match=r"2 lines are bad:\n.*a.csv:2: the decision 'perhaps' is not known; write .*\n.*:3: the head is missing",
    ):
        read_decisions(file)
    with pytest.raises(BadInput, match=r"c.csv:2: "):  # a line that is no CSV is not skipped
        read_decisions(
            written(tmp_path / "c.csv", "head,relation,tail,decision", 'Ann,knows,Eve,""yes', "Ann,knows,Bob,no")
        )
    with pytest.raises(
        BadInput, match="has no column 'decision'; its first line must name head, relation, tail and decision"
    ):
        read_decisions(written(tmp_path / "b.csv", "head,relation,tail", "Ann,knows,Eve"))


def test_names_labels_and_contradictions(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "head,relation,tail,decision", "Anne,knows,Eve,yes")
    with pytest.raises(BadInput, match=r"a.csv:2: the entity 'Anne' is not in this graph; did you mean 'Ann'"):
        named(graph(), file, read_decisions(file))
    twice = written(
        tmp_path / "b.csv", "head,relation,tail,decision", "Ann,knows,Eve,yes", "Ann,knows,Eve,yes", "Ann,knows,Eve,no"
    )
    with pytest.raises(BadInput, match=r"b.csv:4: \(Ann, knows, Eve\) is to be rejected here and accepted in line 2"):
        named(graph(), twice, read_decisions(twice))
    timed = written(tmp_path / "c.csv", "head,relation,tail,time,decision", "Ann,knows,Eve,2014,yes")
    with pytest.raises(BadInput, match=r"c.csv:2: the facts of this graph have no times"):
        named(graph(), timed, read_decisions(timed))


def test_all_bad_lines_are_reported_together(tmp_path: Path) -> None:
    """Unknown words, unknown names and contradictions, in the order of their lines."""
    file = written(
        tmp_path / "a.csv",
        "head,relation,tail,decision",
        "Anne,knows,Eve,yes",
        "Ann,knows,Eve,perhaps",
        "Bob,knows,Ann,1.0",
        "Bob,knows,Ann,0.0",
        'Ann,"knows,Eve,yes',
    )
    with pytest.raises(BadInput) as error:
        named(graph(), file, read_lines(file))
    first, *others = str(error.value).splitlines()
    assert first == "4 lines are bad:"
    assert [line.split(": ")[0].rsplit(":")[-1] for line in others] == ["2", "3", "5", "6"]
    assert [line.split(": ")[1] for line in others] == [
        "the entity 'Anne' is not in this graph; did you mean 'Ann'?",
        "the decision 'perhaps' is not known; write accept, reject or withdraw",
        "(Bob, knows, Ann) is to be rejected here and accepted in line 4",
        "a quote is not closed, or text follows it",
    ]


def test_the_first_line_is_the_header_even_if_most_lines_are_shorter(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "head,relation,tail,decision,note", "Ann,knows,Eve,yes", "Ann,knows,Bob")
    assert ([d.tail for d in read_decisions(file).decisions], read_decisions(file).undecided) == (["Eve"], 1)
    with pytest.raises(BadInput, match=r"^[^ ]*a.csv:3: the line is cut short$"):
        read_decisions(file, complete=True)
    file.write_text('"head,relation,tail,decision\nAnn,knows,Eve,yes\n')
    with pytest.raises(BadInput, match=r"^[^ ]*a.csv:1: a quote is not closed, or text follows it$"):
        read_decisions(file)


def test_the_last_decision_counts(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "head,relation,tail,decision", "Ann,knows,Eve,yes", "Ann,knows,Eve,no")
    found = as_ids(graph(), latest(read_decisions(file).decisions))
    assert (len(found.accepted), len(found.rejected)) == (0, 1)


def test_a_graph_with_reviews(tmp_path: Path) -> None:
    """Accepted facts are added, rejected ones are taken out of every split and remembered."""
    file = written(
        tmp_path / "a.csv",
        "head,relation,tail,decision",
        "Ann,knows,Eve,accept",
        "Ann,knows,Bob,accept",
        "Bob,knows,Ann,reject",
        "Bob,knows,Eve,reject",
        "Bob,likes,Eve,reject",
        "Tom,knows,Eve,reject",
    )
    before = graph()
    after, notes = with_reviews(before, str(file))
    names = {
        (after.entities.name(h), after.relations.name(r), after.entities.name(t)) for h, r, t in after.train.tolist()
    }
    assert names == {*FACTS, ("Ann", "knows", "Eve")} - {("Bob", "knows", "Eve")}
    assert (len(after.valid), len(after.test)) == (0, 1)
    assert after.reviews is not None
    assert (len(after.reviews.accepted), len(after.reviews.rejected)) == (2, 3)
    assert notes == [
        f"{file}: 1 accepted facts are added to train, 1 are in the graph",
        f"{file}: 3 rejected facts are held down; 2 were in the graph and are taken out",
        f"{file}: 1 facts are left out, because the graph does not have their names",
    ]
    with pytest.raises(BadInput, match="there are no reviews: .*nothing.csv does not exist"):
        with_reviews(before, str(tmp_path / "nothing.csv"))


def test_new_entities_change_the_numbers_of_reviews_but_not_their_names(tmp_path: Path) -> None:
    from dura.data.adding import with_facts
    from dura.data.facts import read_columns

    file = written(tmp_path / "a.csv", "head,relation,tail,decision", "Bob,knows,Ann,reject", "Ann,knows,Eve,accept")
    before = graph()
    judged = as_ids(before, named(before, file, read_decisions(file)))
    new = written(tmp_path / "new.tsv", "Aaron\tknows\tEve", "Carl\tlikes\tAnn")
    after = with_facts(replace(before, reviews=judged), read_columns(new)).graph
    assert after.reviews is not None
    (h, r, t), (head, _, tail) = after.reviews.rejected.tolist()[0], after.reviews.accepted.tolist()[0]
    assert [after.entities.name(h), after.relations.name(r), after.entities.name(t)] == ["Bob", "knows", "Ann"]
    assert [after.entities.name(head), after.entities.name(tail)] == ["Ann", "Eve"]


def test_dated_facts_and_intervals(tmp_path: Path) -> None:
    spans = dura.from_facts(
        [("a", "r", "b", "1990", "1993"), ("a", "r", "c", "1991", "1992"), ("b", "r", "c", "1995", "1996")]
    )
    file = written(tmp_path / "a.csv", "head,relation,tail,begin,decision", "a,r,c,1991,no", "b,r,a,1996,yes")
    after, _ = with_reviews(spans, str(file))
    rows = {(after.entities.name(h), after.entities.name(t), b, e) for h, _, t, b, e in after.train.tolist()}
    times = spans.times
    assert times is not None
    assert rows == {("a", "b", times.id("1990"), times.id("1993")), ("b", "c", times.id("1995"), times.id("1996")),
                    ("b", "a", times.id("1996"), times.id("1996"))}  # fmt: skip
    missing = written(tmp_path / "b.csv", "head,relation,tail,decision", "a,r,c,no")
    with pytest.raises(BadInput, match=r"b.csv:2: every fact of this graph has a time, but this one has none"):
        named(spans, missing, read_decisions(missing))
