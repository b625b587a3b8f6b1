"""One graph in the shapes that people have: each is read right, or refused, or warned about."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

from dura.data.assembly import Loaded
from dura.data.dates import respelled
from dura.data.doctor import check
from dura.data.graph import Graph
from dura.data.loading import load, load_with_notes
from dura.data.memory import from_facts
from dura.data.readers import ReadOptions
from dura.types import BadInput

RELATIONS = ["knows", "likes", "mentors", "reports_to", "works_with"]


def made() -> list[tuple[str, str, str]]:
    draw = random.Random(0)
    people = [f"n{i}" for i in range(300)]
    drawn = {(draw.choice(people), draw.choice(RELATIONS), draw.choice(people)) for _ in range(1100)}
    return draw.sample(sorted(drawn), len(drawn))


FACTS = made()
DAYS = [date(2014, 1, 1) + timedelta(days=i % 300) for i in range(len(FACTS))]


def write(path: Path, rows: Iterable[Iterable[object]], header: str = "", separator: str = ",") -> Path:
    lines = [header] if header else []
    lines += [separator.join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def named(graph: Graph) -> set[tuple[str, ...]]:
    facts = [tuple(fact) for split in ("train", "valid", "test") for fact in getattr(graph, split).tolist()]
    return {
        (graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail))
        for head, relation, tail, *_ in facts
    }


def right(loaded: Loaded | Graph) -> bool:
    graph = loaded.graph if isinstance(loaded, Loaded) else loaded
    return named(graph) == set(FACTS)


@pytest.mark.parametrize(
    ("header", "order"),
    [
        ("predicate,object,subject", "rth"),
        ("from_id,edge_type,to_id", "hrt"),
        (":START_ID,:END_ID,:TYPE", "htr"),
        (":START_ID(Person),since:int,:END_ID(Person),:TYPE", "hxtr"),
        ("_start,_end,_type", "htr"),
        ("head,relation,tail,weight", "hrtx"),
        ("id,head,relation,tail,note,who", "xhrtxx"),
        ("Source,Target,Weight,relationship", "htxr"),
        ("entity1,relation,entity2", "hrt"),
        ("node1,label,node2", "hrt"),
        ("subject_id,predicate_id,object_id,score", "hrtx"),
    ],
)
def test_columns_are_recognised_by_name(tmp_path: Path, header: str, order: str) -> None:
    rows = [[dict(zip("hrtx", (*fact, f"{i / 7:.3f}"), strict=True))[c] for c in order] for i, fact in enumerate(FACTS)]
    loaded = load_with_notes(write(tmp_path / "a.csv", rows, header))
    assert right(loaded)
    assert not loaded.warnings
    titles = header.split(",")
    if "_start" not in titles:  # the names of apoc, which Neo4j's reader knows
        assert f"relation = {titles[order.index('r')]!r}" in loaded.notes[0]
    assert f"({', '.join(FACTS[0])})" in loaded.notes[0]
    frame = pl.DataFrame({title: [row[at] for row in rows] for at, title in enumerate(titles)})
    assert right(from_facts(frame))
    assert right(from_facts(frame.to_pandas()))


def test_unused_columns_are_named(tmp_path: Path) -> None:
    rows = [(*fact, 0.5) for fact in FACTS]
    assert (
        "not used: 'weight'" in load_with_notes(write(tmp_path / "a.csv", rows, "head,relation,tail,weight")).notes[0]
    )


def test_the_type_of_graph_programs_is_not_the_relation(tmp_path: Path) -> None:
    rows = [(head, tail, "Directed", i, relation) for i, (head, relation, tail) in enumerate(FACTS)]
    assert right(load(write(tmp_path / "edges.csv", rows, "Source,Target,Type,Id,Label")))


@pytest.mark.parametrize("order", [(2, 0, 1), (0, 2, 1), (1, 0, 2)])
def test_the_relation_column_is_recognised_by_content_with_a_warning(tmp_path: Path, order: tuple[int, ...]) -> None:
    rows = [[fact[at] for at in order] for fact in FACTS]
    loaded = load_with_notes(write(tmp_path / "a.tsv", rows, separator="\t"))
    place = order.index(1)
    swapped = {(tail, relation, head) for head, relation, tail in FACTS}
    assert named(loaded.graph) == (set(FACTS) if order.index(0) < order.index(2) else swapped)
    if place == 1:
        assert not loaded.warnings
    else:
        (warning,) = loaded.warnings
        assert f"column {place} is read as the relation, because" in warning
        assert warning.endswith("--columns 0,1,2")
        assert check(tmp_path / "a.tsv").worst == "warning"


def test_a_header_that_nobody_knows_is_a_warning_that_names_the_option(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", FACTS, "aa,bb,cc")
    (warning,) = load_with_notes(path).warnings
    assert "(aa, bb, cc) is read as a fact, but looks like a header; if it is one: --header yes" in warning
    assert right(load(path, header=True))
    assert not load_with_notes(path, ReadOptions(header=True)).warnings
    findings = {finding.topic: finding for finding in check(path).findings}
    assert findings["reading"].severity == "warning"


def test_a_fact_that_is_taken_for_a_header_is_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", FACTS)
    (warning,) = load_with_notes(path, ReadOptions(header=True)).warnings
    assert "looks like a fact; if it is one: --header no" in warning


def test_too_many_relations_are_a_warning_or_an_error(tmp_path: Path) -> None:
    some = [(head, f"r{i // 8}", tail) for i, (head, _, tail) in enumerate(FACTS)]
    (warning,) = load_with_notes(write(tmp_path / "some.tsv", some, separator="\t")).warnings
    assert "the relation (column 1) has 138 distinct values in 1,100 facts" in warning
    assert "--columns" in warning
    every = write(tmp_path / "every.tsv", [(f"h{i}", f"r{i}", f"t{i}") for i in range(200)], separator="\t")
    with pytest.raises(BadInput, match=r"200 distinct values in 200 facts, so nothing could be learnt; .*--columns"):
        load(every)
    assert load_with_notes(every, ReadOptions(columns=(0, 1, 2))).warnings


def test_fields_over_lines_other_separators_and_marks(tmp_path: Path) -> None:
    noted = [(*fact, '"two\nlines, and ""quotes"""' if i % 100 == 5 else "x") for i, fact in enumerate(FACTS)]
    assert right(load(write(tmp_path / "a.csv", noted, "head,relation,tail,note")))
    assert right(load(write(tmp_path / "b.csv", FACTS, separator=";")))
    assert right(load(write(tmp_path / "c.txt", FACTS, separator="|"), separator="pipe"))
    (tmp_path / "d.csv").write_bytes(b"\xef\xbb\xbfhead,relation,tail\r\n" + "\r\n".join(map(",".join, FACTS)).encode())
    assert right(load(tmp_path / "d.csv"))
    (tmp_path / "e.csv").write_bytes("\r".join(map(",".join, FACTS)).encode())
    assert right(load(tmp_path / "e.csv"))


def test_a_carriage_return_inside_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a\rx,r,b,2000\n")
    assert list(load(tmp_path / "a.csv", time=3).entities) == ["a\rx", "b"]


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y-%m-%dT%H:%M:%S", "%Y%m%d"])
@pytest.mark.parametrize("header", ["", "head,relation,tail,date"])
def test_dates_are_in_their_real_order(tmp_path: Path, form: str, header: str) -> None:
    rows = [(*fact, day.strftime(form)) for fact, day in zip(FACTS, DAYS, strict=True)]
    given = {"time": 3} if form == "%Y%m%d" and not header else {}
    graph = load(write(tmp_path / "a.csv", rows, header), **given)  # type: ignore[arg-type]
    assert right(graph)
    assert graph.times is not None
    assert graph.times.kind == "date"
    assert list(graph.times) == sorted({day.isoformat() for day in DAYS})


def test_a_column_of_dates_that_is_not_used_is_a_warning(tmp_path: Path) -> None:
    rows = [(*fact, day.isoformat()) for fact, day in zip(FACTS, DAYS, strict=True)]
    (warning,) = load_with_notes(write(tmp_path / "a.csv", rows, "head,relation,tail,entered")).warnings
    assert "the column 'entered' holds dates but is not used; if facts hold then: --time entered" in warning


def test_valid_and_test_follow_train(tmp_path: Path) -> None:
    for name, part in (("train", FACTS[:900]), ("valid", FACTS[900:1000]), ("test", FACTS[1000:])):
        write(tmp_path / f"{name}.csv", [(t, h, r) for h, r, t in part], "object,subject,predicate")
    assert right(load(tmp_path))
    for name, part in (("train", FACTS[:900]), ("valid", FACTS[900:910]), ("test", FACTS[1000:])):
        write(tmp_path / f"{name}.csv", [(h, t, r) for h, r, t in part])
    assert named(load(tmp_path)) == set(FACTS[:910] + FACTS[1000:])


# -- what a first user tried -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["umls", "nations", "kinships"])
@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2)])
def test_columns_of_dense_graphs_are_judged_by_each_other(tmp_path: Path, name: str, order: tuple[int, ...]) -> None:
    graph = load(name)
    rows = [
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t)) for h, r, t in graph.train.tolist()
    ]
    loaded = load_with_notes(write(tmp_path / "a.tsv", [[row[at] for at in order] for row in rows], separator="\t"))
    assert loaded.warnings
    assert right_relations(loaded, graph) or "--columns" in loaded.warnings[0]
    straight = load_with_notes(write(tmp_path / "b.tsv", rows, separator="\t"))
    assert not straight.warnings
    assert set(straight.graph.relations) == {relation for _, relation, _ in rows}


def right_relations(loaded: Loaded, graph: Graph) -> bool:
    return set(loaded.graph.relations) <= set(graph.relations)


def test_an_edge_list_without_relations_is_refused(tmp_path: Path) -> None:
    for header in ("source,target,weight", "source,target,date"):
        with pytest.raises(BadInput, match=r"has a head \('source'\) and a tail \('target'\), but no column is called"):
            load(write(tmp_path / "a.csv", [(h, t, "0.5") for h, _, t in FACTS], header))
    with pytest.raises(BadInput, match="column 2 would be the tail, but it holds decimal numbers"):
        load(write(tmp_path / "b.csv", [(h, t, f"{i / 7:.3f}") for i, (h, _, t) in enumerate(FACTS)]))
    with pytest.raises(BadInput, match="column 2 would be the tail, but it holds dates"):
        load(write(tmp_path / "c.csv", [(h, t, day) for (h, _, t), day in zip(FACTS, DAYS, strict=True)]))


def test_an_index_column_is_left_out_of_the_advice(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [(i, *fact) for i, fact in enumerate(FACTS)])
    with pytest.raises(BadInput, match=r"0 = '0', 1 = .*for example --columns 1,2,3"):
        load(path)
    assert right(load(path, columns="1,2,3"))


def test_quotes_separators_and_lines_before_the_header(tmp_path: Path) -> None:
    quoted = [[f'"{part}"' for part in fact] for fact in FACTS]
    assert right(load(write(tmp_path / "a.tsv", quoted, '"head"\t"relation"\t"tail"', "\t")))
    assert right(load(write(tmp_path / "b.txt", FACTS, "head,relation,tail")))
    assert right(load(write(tmp_path / "c.tsv", FACTS, separator=";")))
    assert right(load(write(tmp_path / "d.txt", quoted, separator=","), separator=","))
    assert right(load(write(tmp_path / "e.csv", FACTS, "sep=;\nhead;relation;tail", ";")))
    path = write(tmp_path / "f.csv", FACTS, "# made by us\nhead,relation,tail")
    with pytest.raises(BadInput, match="1 column instead of 3"):
        load(path)
    assert right(load(path, skip_bad=True))
    again = write(tmp_path / "g.csv", [*FACTS[:500], ("head", "relation", "tail"), *FACTS[500:]], "head,relation,tail")
    (warning,) = load_with_notes(again).warnings
    assert "line 502 repeats the header and is read as a fact" in warning


def test_missing_values_of_other_programs(tmp_path: Path) -> None:
    rows = [(h, r, "NaN" if i % 20 == 0 else t) for i, (h, r, t) in enumerate(FACTS)]
    (warning,) = load_with_notes(write(tmp_path / "a.csv", rows, "head,relation,tail")).warnings
    assert "55 facts have the tail 'NaN', as if it were a name" in warning
    dated = [(*fact, "NaT" if i % 20 == 0 else day) for i, (fact, day) in enumerate(zip(FACTS, DAYS, strict=True))]
    graph = load(write(tmp_path / "b.csv", dated, "head,relation,tail,date"))
    assert graph.times is not None and graph.times.no_time and graph.times.kind == "date"


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", [(*fact, day) for fact, day in zip(FACTS, DAYS, strict=True)], "head,relation,tail,date"
    )
    with pytest.raises(BadInput, match="'tail' is no time but a part of the fact"):
        load(path, time="tail")
    with pytest.raises(BadInput, match="header must be True, False or None"):
        load(path, header="no")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="a query asks a database"):
        load(path, query="SELECT 1")
    with pytest.raises(BadInput, match="train is None"):
        from_facts(None)


def test_names_that_differ_only_in_their_spelling_are_listed(tmp_path: Path) -> None:
    rows = [(f"{h} " if i % 2 else h.upper(), r, t) for i, (h, r, t) in enumerate(FACTS)]
    found = {finding.topic: finding for finding in check(write(tmp_path / "a.csv", rows)).findings}
    assert found["spelling"].severity == "warning"
    assert found["spelling"].details["groups"]["entities"] > 200
    clean = {finding.topic: finding for finding in check(write(tmp_path / "b.csv", FACTS)).findings}
    assert clean["spelling"].severity == "ok"


def test_json_arrays_and_folders_with_one_file(tmp_path: Path) -> None:
    objects = [{"from": h, "type": r, "to": t} for h, r, t in FACTS]
    (tmp_path / "a.json").write_text(json.dumps(objects, indent=2))
    assert right(load(tmp_path / "a.json"))
    assert right(load(tmp_path))
    (tmp_path / "b.json").write_text(json.dumps(objects))
    with pytest.raises(BadInput, match=r"holds no train file but a\.json, b\.json; .*name one file"):
        load(tmp_path)


def test_times_can_be_asked_as_people_write_them(tmp_path: Path) -> None:
    rows = [(*fact, day.strftime("%d.%m.%Y")) for fact, day in zip(FACTS, DAYS, strict=True)]
    months = load(write(tmp_path / "a.csv", rows, "head,relation,tail,date"), time_unit="month")
    assert months.times is not None
    for asked in ("06.05.2014", "May 2014", "2014-05", "2014-05-06"):
        assert respelled(months.times, asked) == "2014-05"
