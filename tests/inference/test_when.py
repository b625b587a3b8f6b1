"""Questions with times: asked at a time, or for the time; the scores are those of the facts, signs and all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from doubles import built
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.memory import from_facts
from dura.inference import Answers, Question, TimeAnswers, Wanted, ask, predict, score_facts, when
from dura.inference import score as score_module
from dura.inference.asking import read_questions
from dura.models import MODELS, Model
from dura.models.rtfe import RTFE
from dura.runs.trained import Trained
from dura.types import BadInput, DuraError
from oracles import SCORES, formula

ENTITIES, RELATIONS, TIMES = 20, 3, 12
DATES = [f"2014-{month:02d}-01" for month in range(1, TIMES + 1)]
TEMPORAL = [name for name in MODELS.names() if MODELS.get(name).temporal]
NAMES = {MODELS.get(name): name for name in TEMPORAL}


def rows(seed: int = 3, count: int = 300) -> list[tuple[str, str, str, str]]:
    """Facts of every entity, relation and date."""
    rng = np.random.default_rng(seed)
    heads, relations, tails, dates = (rng.integers(n, size=count) for n in (ENTITIES, RELATIONS, ENTITIES, TIMES))
    ring = [(f"e{i:02d}", f"r{i % RELATIONS}", f"e{i - 1:02d}", DATES[i % TIMES]) for i in range(1, ENTITIES)]
    drawn = zip(heads, relations, tails, dates, strict=True)
    return [*ring, *((f"e{h:02d}", f"r{r}", f"e{t:02d}", DATES[d]) for h, r, t, d in drawn)]


FACTS = rows()
GRAPH = from_facts(FACTS, FACTS[:20], FACTS[20:40])
UNTIMED = from_facts([*FACTS, ("e01", "r0", "e05", ""), ("e01", "r0", "e06", "")], [], [])
SPANS = from_facts([("a", "r", "b", "1990", "1993"), ("a", "r", "c", "1991", ""), ("a", "r", "b", "1996", "1996"),
                    ("b", "r", "c", "1995", "1995"), ("b", "r", "a", "1992", "1994")], [], [])  # fmt: skip


def build(name: str, graph: Graph, rank: int = 5) -> Model:
    model = built(name, graph.sizes, rank=rank, seed=4).float()
    model.observe(graph.train, list(graph.times or ()))
    if isinstance(model, RTFE):
        model.filled.fill_(model.slots)  # as after training: each time has rows of its own
    return model


@pytest.fixture(params=TEMPORAL)
def model(request: pytest.FixtureRequest) -> Model:
    return build(str(request.param), GRAPH)


def trained(model: Model, graph: Graph) -> Trained:
    return Trained(model, graph, Experiment())


def direct(model: Model, head: int, relation: int, tail: int, time: int) -> float:
    """The score of one fact, asked of the model alone."""
    with torch.no_grad():
        return float(model.score(*(torch.tensor([i]) for i in (head, relation, tail, time))))


@pytest.mark.parametrize("side", ["tail", "head"])
def test_answers_at_a_time_are_the_best_ones_unknown_at_that_time(model: Model, side: str) -> None:
    assert GRAPH.times is not None
    known = {tuple(fact) for split in (GRAPH.train, GRAPH.valid, GRAPH.test) for fact in split.tolist()}
    h, r, t, when_ = GRAPH.train[50].tolist()
    name, relation, time = GRAPH.entities.name(h if side == "tail" else t), GRAPH.relations.name(r), DATES[when_]
    asked = Question(name, relation, None, time) if side == "tail" else Question(None, relation, name, time)
    expected, hidden = [], 0
    for e in range(ENTITIES):
        fact = (h, r, e, when_) if side == "tail" else (e, r, t, when_)
        hidden += fact in known
        if fact not in known:
            ids = (h, r, e) if side == "tail" else (t, r + RELATIONS, e)
            expected.append((direct(model, *ids, when_), GRAPH.entities.name(e)))
    (answers,) = predict(model, GRAPH, [asked], Wanted(k=ENTITIES))
    assert hidden
    assert [a.entity for a in answers] == [entity for _, entity in sorted(expected, reverse=True)]
    assert [a.score for a in answers] == pytest.approx(sorted((s for s, _ in expected), reverse=True), abs=1e-4)
    (shown,) = predict(model, GRAPH, [asked], Wanted(k=ENTITIES, known=True))
    assert sum(a.known for a in shown) == hidden


def test_answers_depend_on_the_time(model: Model) -> None:
    first, second = predict(model, GRAPH, [Question("e03", "r1", None, date) for date in DATES[:2]], Wanted(k=5))
    assert [a.score for a in first] != [a.score for a in second]
    assert str(first.question) == "(e03, r1, ?, 2014-01-01)"
    assert first.to_dict()["question"] == {"head": "e03", "relation": "r1", "time": "2014-01-01"}


@pytest.mark.parametrize("fact", [("e03", "r1", "e07"), ("e07", "r1", "e03"), ("e05", "r2", "e05")])
def test_every_time_has_exactly_the_score_of_the_fact_at_that_time(model: Model, fact: tuple[str, str, str]) -> None:
    """Bit for bit what `model.score` and `Trained.score` give for these facts, and what the literal formula gives.

    A fact alone may differ in the last bit: the end of a vector is multiplied by other instructions.
    """
    h, r, t = GRAPH.entities.id(fact[0]), GRAPH.relations.id(fact[1]), GRAPH.entities.id(fact[2])
    (answers,) = when(model, GRAPH, [Question(*fact, "?")], Wanted(k=99, known=True))
    found = {a.time: a.score for a in answers}
    assert sorted(found) == DATES
    with torch.no_grad():
        ids = torch.tensor([[h, r, t, at] for at in range(TIMES)])
        scores = model.score(*ids.unbind(1)).tolist()
    assert [found[date] for date in DATES] == scores == trained(model, GRAPH).score([(*fact, date) for date in DATES])
    assert scores == pytest.approx([direct(model, h, r, t, at) for at in range(TIMES)], rel=1e-6, abs=1e-5)
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    assert [a.rank for a in answers] == list(range(1, TIMES + 1))
    literal = formula(SCORES, NAMES[type(model)])
    state = {key: tensor.double() if tensor.is_floating_point() else tensor for key, tensor in model.state().items()}
    for a in answers:
        score = literal(state, h, r, t, DATES.index(a.time))
        assert a.score == pytest.approx(float(score), rel=1e-4, abs=1e-4)


def test_a_model_of_real_numbers_by_hand() -> None:
    """h (R∘T) tᵀ of one dimension: 2·3·T·5."""
    graph = from_facts([("a", "r", "b", "1"), ("a", "r", "b", "2"), ("b", "r", "a", "3")], [], [])
    model = build("trescal", graph, rank=1)
    tables = {"entity": [[2.0], [5.0]], "relations": [[[3.0]], [[0.0]]], "times": [[[-1.0]], [[4.0]], [[0.5]]]}
    with torch.no_grad():
        for name, table in model.named_parameters():
            table.copy_(torch.tensor(tables[name]))
    (answers,) = when(model, graph, [Question("a", "r", "b", "?")], Wanted(known=True))
    assert [(a.time, a.score, a.rank, a.known) for a in answers] == [
        ("2", 120.0, 1, True),
        ("3", 15.0, 2, False),
        ("1", -30.0, 3, True),
    ]
    (left,) = when(model, graph, [Question("a", "r", "b", "?")])
    assert [(a.time, a.rank) for a in left] == [("3", 1)]


def test_known_times_are_left_out_and_shown_on_request(model: Model) -> None:
    h, r, t, _ = GRAPH.valid[0].tolist()
    question = Question(GRAPH.entities.name(h), GRAPH.relations.name(r), GRAPH.entities.name(t), "?")
    both = np.concatenate([GRAPH.train, GRAPH.valid, GRAPH.test])
    known = {DATES[at] for at in both[(both[:, :3] == [h, r, t]).all(axis=1), 3]}
    (shown,), (left,) = (when(model, GRAPH, [question], Wanted(k=99, known=flag)) for flag in (True, False))
    assert {a.time for a in shown if a.known} == known != set()
    assert [a.time for a in left] == [a.time for a in shown if not a.known]
    assert len(when(model, GRAPH, [question], Wanted(k=2))[0]) == 2


def test_all_times_of_an_interval_are_known() -> None:
    model = build("tcomplex", SPANS)
    assert SPANS.times is not None
    assert list(SPANS.times) == ["1990", "1991", "1992", "1993", "1994", "1995", "1996"]
    shown, opened = when(model, SPANS, [Question("a", "r", tail, "?") for tail in "bc"], Wanted(k=99, known=True))
    assert {a.time for a in shown if a.known} == {"1990", "1991", "1992", "1993", "1996"}
    assert {a.time for a in opened if not a.known} == {"1990"}
    (answers,) = predict(model, SPANS, [Question("a", "r", None, "1992")])
    assert [a.entity for a in answers] == ["a"]


@pytest.mark.parametrize("name", TEMPORAL)
def test_no_time_is_one_to_ask_at_but_no_answer(name: str) -> None:
    model = build(name, UNTIMED)
    assert UNTIMED.times is not None
    assert UNTIMED.times.no_time
    (answers,) = when(model, UNTIMED, [Question("e01", "r0", "e05", "?")], Wanted(k=99, known=True))
    assert sorted(a.time for a in answers) == DATES
    (untimed,) = predict(model, UNTIMED, [Question("e01", "r0")], Wanted(k=99, known=True))
    assert {a.entity for a in untimed if a.known} == {"e05", "e06"}
    best = untimed[0]
    assert trained(model, UNTIMED).score([("e01", "r0", best.entity)]) == pytest.approx([best.score], abs=1e-4)


def test_blocks_of_facts_do_not_change_their_scores(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    head, relation, tail, time = (torch.from_numpy(column).long() for column in GRAPH.train.T.copy())
    whole = score_facts(model, head, relation, tail, time)
    calls: list[int] = []
    inner = model.score

    def counted(*ids: torch.Tensor) -> torch.Tensor:
        calls.append(len(ids[0]))
        return inner(*ids)

    monkeypatch.setattr(model, "score", counted)
    monkeypatch.setattr(score_module, "MOST_BYTES", 4 * 3 * 7 * 25)
    torch.testing.assert_close(score_facts(model, head, relation, tail, time), whole)
    assert sum(calls) == len(head)
    name = NAMES[type(model)]
    assert max(calls) == (7 * 25 // 10 if name.endswith("complex") else 7)


def test_results_print_and_convert(model: Model) -> None:
    (answers,) = when(model, GRAPH, [Question("e03", "r1", "e07", "?")], Wanted(k=3))
    best = answers[0]
    assert repr(answers).splitlines()[:2] == ["(e03, r1, e07, ?)", f"   1.  {best.time}  {best.score:.3f}"]
    assert answers.to_frame().columns == ["time", "score", "rank", "known"]
    assert list(answers.to_pandas()["time"]) == [a.time for a in answers]
    document = answers.to_dict()
    assert document["question"] == {"head": "e03", "relation": "r1", "tail": "e07"}
    assert document["times"][0] == {"time": best.time, "score": best.score, "rank": 1, "known": False}


def test_wrong_times_are_refused_with_a_sentence(model: Model) -> None:
    span = "every fact of this graph has a time, from 2014-01-01 to 2014-12-01, so a question needs a time too"
    with pytest.raises(BadInput, match=span):
        predict(model, GRAPH, [Question("e03", "r1")])
    with pytest.raises(BadInput, match=span):
        trained(model, GRAPH).score([("e03", "r1", "e07")])
    with pytest.raises(BadInput, match=r"'2014-02-03' is not in this graph; the nearest are 2014-02-01 before and"):
        predict(model, GRAPH, [Question("e03", "r1", None, "2014-02-03")])
    with pytest.raises(BadInput, match="entity 'E07' is not in this graph; did you mean 'e07'"):
        when(model, GRAPH, [Question("e03", "r1", "E07", "?")])
    with pytest.raises(BadInput, match="exactly one hole"):
        Question(None, "r1", "e07", "?")
    with pytest.raises(BadInput, match=r"both to ask when \(--when, elsewhere the time \?\)"):
        Question("e03", "r1", "e07", "2014-01-01")
    with pytest.raises(BadInput, match="asks for a time"):
        predict(model, GRAPH, [Question("e03", "r1", "e07", "?")])
    with pytest.raises(BadInput, match="asks for an entity"):
        when(model, GRAPH, [Question("e03", "r1", None, "2014-01-01")])
    with pytest.raises(BadInput, match="k is 0, but it must be at least 1"):
        when(model, GRAPH, [Question("e03", "r1", "e07", "?")], Wanted(k=0))
    with torch.no_grad():
        for tensor in model.state().values():
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))
    with pytest.raises(DuraError, match="not finite"):
        when(model, GRAPH, [Question("e03", "r1", "e07", "?")])


def test_the_trained_model_answers_alike(model: Model) -> None:
    asker = trained(model, GRAPH)
    many = asker.predict_many([("e03", "r1", None, "2014-02-01"), (None, "r0", "e02", '"2014-03-01"')], k=3)
    alone = asker.predict(tail="e02", relation="r0", time="2014-03-01", k=3)
    assert [a.entity for a in many[1]] == [a.entity for a in alone]
    assert (
        asker.when(head="e03", relation="r1", tail="e07", k=4)
        == when(model, GRAPH, [Question("e03", "r1", "e07", "?")], Wanted(k=4)).pop()
    )


def test_questions_of_both_kinds_are_answered_in_order(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "questions.tsv"
    path.write_text("e03\tr1\t?\t2014-01-01\ne03\tr1\te07\t?\n?\tr0\te02\t2014-03-01\n")
    questions = read_questions(path)
    assert questions == [
        Question("e03", "r1", None, "2014-01-01"),
        Question("e03", "r1", "e07", "?"),
        Question(None, "r0", "e02", "2014-03-01"),
    ]
    answers = ask(model, GRAPH, questions, Wanted(k=2))
    assert [type(a) for a in answers] == [Answers, TimeAnswers, Answers]
    assert [a.question for a in answers] == questions


def test_files_with_times(tmp_path: Path) -> None:
    some, named, bad = tmp_path / "some.tsv", tmp_path / "named.csv", tmp_path / "bad.tsv"
    some.write_text("a\tr\t?\n\na\tr\t?\t\n?\tr\tb\t1990\n")
    assert read_questions(some) == [Question("a", "r"), Question("a", "r"), Question(None, "r", "b", "1990")]
    named.write_text('Time,Head,Relation,Tail\n?,a,r,"b, c"\n')
    assert read_questions(named) == [Question("a", "r", "b, c", "?")]
    bad.write_text("a\tr\tb\t?\na\tr\t?\t?\na\tr\tb\t1990\n")
    with pytest.raises(
        BadInput, match=r"bad.tsv:2: a question needs exactly one \?, in place of its head, its tail or its time"
    ):
        read_questions(bad)
