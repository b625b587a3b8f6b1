"""Ranking of dated facts against the definition, word by word, with either filter."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from dura.data.graph import Graph
from dura.evaluation import Result, evaluate, rank
from dura.models import MODELS, ComplEx, Model
from dura.types import SPLITS, BadInput, Filter
from graphs import dated_graph, random_graph
from oracles import SEMANTIC, literal_relation, literal_score
from plain import table_of

TEMPORAL = [name for name in SEMANTIC if MODELS.get(name).temporal]
Counts = list[tuple[int, int, int]]


@cache
def graph(intervals: bool) -> Graph:
    """Few entities, so that questions have many answers, at the same time and at others."""
    return dated_graph(entities=9, relations=2, times=5, facts=130, intervals=intervals, untimed=True)


@cache
def model(name: str) -> Model:
    torch.manual_seed(4)
    built = MODELS.build(name, {"rank": 4, "init_scale": 1.0}, graph(False).sizes).double()
    with torch.no_grad():
        table_of(built)[3] = table_of(built)[6]  # two entities that tie
    return built


def literal(name: str, facts: Graph, filtering: Filter) -> Counts:
    """(greater, equal, candidates) of both sides of each test fact, one score at a time."""
    tables = {key: table.detach() for key, table in model(name).named_parameters()}
    rows, relations, counts = tables["entity"], len(facts.relations), []
    known = [fact for split in SPLITS for fact in facts.facts(split).tolist()]
    for side in (0, 1):
        for h, r, t, time, *_ in facts.test.tolist():
            asked, relation, truth = (h, r, t) if side == 0 else (t, r + relations, h)
            rho = literal_relation(name, tables, relation, time)
            scores = [float(literal_score(name, rows[asked], rho, row)) for row in rows]
            answers = set()
            for a, q, b, *when in known:
                begin, end = when[0], when[-1]
                same = (a, q) == (h, r) if side == 0 else (b, q) == (t, r)
                if same and (filtering == "static" or begin <= time <= end):
                    answers.add(b if side == 0 else a)
            rivals = [scores[e] for e in range(len(rows)) if e != truth and e not in answers]
            close = [abs(s - scores[truth]) < 1e-12 for s in rivals]
            greater = sum(s > scores[truth] and not same for s, same in zip(rivals, close, strict=True))
            counts.append((greater, sum(close), 1 + len(rivals)))
    return counts


@pytest.mark.parametrize("intervals", [False, True])
@pytest.mark.parametrize("name", TEMPORAL)
def test_dated_facts_are_ranked_by_the_literal_definition(name: str, intervals: bool) -> None:
    """Time-aware: what is known at the fact's time is left out; static: what is known at any. Intervals at their begin."""
    facts = graph(intervals)
    filters: dict[Filter, Counts] = {
        "time-aware": literal(name, facts, "time-aware"),
        "static": literal(name, facts, "static"),
    }
    assert filters["static"] != filters["time-aware"]
    assert sum(equal for _, equal, _ in filters["time-aware"]) > 0
    for known, expected in zip((facts.known, facts.known_ever), filters.values(), strict=True):
        for block in (None, 1, 7):
            ranks = rank(model(name), facts.asked("test"), known, len(facts.relations), block=block)
            found = zip(ranks.greater.tolist(), ranks.equal.tolist(), ranks.candidates.tolist(), strict=True)
            assert list(found) == expected
    for filtering, expected in filters.items():
        mean = sum(1 / (1 + greater + equal / 2) for greater, equal, _ in expected) / len(expected)
        assert evaluate(model(name), facts, filter=filtering).mrr == pytest.approx(mean, rel=1e-12)


def test_the_static_filter_leaves_out_at_least_what_the_time_aware_one_does() -> None:
    facts = graph(False)
    aware, static = (rank(model("tcomplex"), facts.test, k, 2) for k in (facts.known, facts.known_ever))
    assert (static.greater <= aware.greater).all()
    assert (static.candidates <= aware.candidates).all()
    assert (static.candidates < aware.candidates).any()


def test_the_protocol_names_the_filter_and_how_times_were_asked() -> None:
    def protocol(intervals: bool, filtering: Filter = "time-aware") -> Result:
        return evaluate(model("tcomplex"), graph(intervals), filter=filtering)

    aware, static = protocol(False), protocol(False, "static")
    assert aware.protocol["filter"] == "train+valid+test, time-aware filter (answers at the fact's time)"
    assert static.protocol["filter"] == "train+valid+test, static filter (answers at any time)"
    assert "static filter" in str(static).splitlines()[0]
    assert (aware.protocol["times"], protocol(True).protocol["times"]) == ("points", "intervals at their begin")
    assert aware.to_dict()["protocol"] == aware.protocol
    with pytest.raises(BadInput, match="the filter 'raw' is not known; it is 'time-aware' or 'static'"):
        protocol(False, "raw")  # type: ignore[arg-type]


def test_a_graph_without_times_has_one_filter() -> None:
    plain = random_graph()
    torch.manual_seed(0)
    built = ComplEx(plain.sizes, rank=3)
    assert evaluate(built, plain, filter="static").to_dict() == evaluate(built, plain).to_dict()
    assert evaluate(built, plain).protocol["filter"] == "train+valid+test, filtered"
    assert "times" not in evaluate(built, plain).protocol


def test_a_temporal_model_wants_the_times_it_was_built_for() -> None:
    dated = graph(False)
    train, valid, test = (dated.facts(split)[:, :3] for split in SPLITS)
    undated = replace(dated, times=None, train=train, valid=valid, test=test)
    with pytest.raises(BadInput, match="the model has 6 times and the graph 'dated' has 0; evaluate it on"):
        evaluate(model("tcomplex"), undated)
    other = dated_graph(entities=9, relations=2, times=4, facts=130)
    with pytest.raises(BadInput, match="the model has 6 times and the graph 'dated' has 4"):
        evaluate(model("tcomplex"), other)
