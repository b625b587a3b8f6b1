"""Fitting: what it recovers from made-up scores, what it may see, and every model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from doubles import built
from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.inference.calibrating import _groups, _quantiles, calibrate
from dura.inference.calibration import LEVELS, LOWEST
from dura.inference.logistic import logistic
from dura.inference.observing import DEEPER, TOP, Deeper, observe, pairs, questions_of_test, questions_of_valid
from dura.inference.reliability import measure
from dura.models import MODELS
from dura.types import BadInput
from graphs import dated_graph, graph_for, random_graph


@pytest.mark.parametrize("name", MODELS.names())
def test_every_model_can_be_calibrated_and_measured(name: str) -> None:
    graph = graph_for(name)
    model = built(name, graph.sizes, rank=4, seed=2).float()
    calibration = calibrate(model, graph)
    assert calibration.answer_weights[1] > 0 and all(b > 0 for b in calibration.answers.b)
    measured = measure(model, graph, calibration)
    assert 0 <= measured.top10.after.ece <= 1 and [one.asked for one in measured.sets] == [0.5, 0.8, 0.9, 0.95]
    assert measured.top1.after.count == len(questions_of_test(graph, 10**6)[0])


@pytest.mark.parametrize("graph", [random_graph(), dated_graph(), dated_graph(intervals=True)], ids=str)
def test_no_test_fact_takes_part_in_fitting(graph: Graph) -> None:
    """Other test facts, as many as before, change nothing."""
    name = "complex" if graph.times is None else "tcomplex"
    model = built(name, graph.sizes, rank=4, seed=2).float()
    others = graph.test.copy()
    others[:, 0], others[:, 2] = graph.test[::-1, 2], graph.test[::-1, 0]
    other = replace(graph, test=others)
    assert (other.test != graph.test).any()
    assert calibrate(model, graph) == calibrate(model, other)


def test_each_valid_fact_is_asked_as_if_it_alone_were_missing() -> None:
    graph = random_graph(entities=8, facts=150)
    questions, known, others, *_ = asked = questions_of_valid(graph, 10**6)
    assert len(questions) == 2 * len(graph.valid)
    every = np.broadcast_to(np.arange(8), (len(questions), 8))
    across = asked.across(questions, every, every == questions.answers[:, None])
    half, facts = len(graph.relations), {tuple(f) for f in np.concatenate([graph.train, graph.valid]).tolist()}
    valid = {tuple(f) for f in graph.valid.tolist()}
    for i in range(len(questions)):
        h, r, (answer,) = int(questions.head[i]), int(questions.relation[i]), questions.take(np.array([i])).answers

        def fact(e: int, h: int = h, r: int = r) -> tuple[int, int, int]:
            return (h, r, e) if r < half else (e, r - half, h)

        assert fact(int(answer)) in valid
        expected = {e for e in range(8) if fact(e) in facts} - {int(answer)}
        assert set(known.take(np.array([i])).answers.tolist()) == expected
        assert others[i] == sum(fact(e) in valid for e in range(8)) - 1
        for e in range(8):  # the other question starts from the answer
            heads = {(h, r, e) if r < half else (e, r - half, h) for h in range(8)} & facts
            assert across[i, e] == len(heads - {fact(int(answer))})


def test_observed_numbers_are_those_of_single_facts() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes, rank=4, seed=2).double()
    questions, known, *_ = asked = questions_of_test(graph, 10**6)
    seen = observe(model, asked, 0.7, thresholds=lambda relation, *_: np.zeros((len(relation), 1)))
    at = 3
    h, r = torch.tensor([int(questions.head[at])]), torch.tensor([int(questions.relation[at])])
    with torch.no_grad():
        every = [float(model.score(h, r, torch.tensor([e]))) for e in range(20)]
    new = [e for e in range(20) if e not in known.take(np.array([at])).answers]
    best = sorted(new, key=lambda e: -every[e])
    truths = set(questions.take(np.array([at])).answers.tolist())
    assert seen.scores[at, : len(new)] == pytest.approx([every[e] for e in best])
    assert seen.true[at, : len(new)].tolist() == [e in truths for e in best]
    assert seen.total[at] == pytest.approx(np.log(sum(np.exp(every[e] / 0.7) for e in new)))
    assert seen.plain[at] == pytest.approx(np.log(sum(np.exp(every[e]) for e in new)))
    assert seen.sizes[at].tolist() == [sum(every[e] >= 0 for e in new)]
    assert sorted(seen.truth[seen.question == at]) == pytest.approx(sorted(every[e] for e in truths))


def test_alternatives_of_facts_are_no_known_facts() -> None:
    graph = random_graph(entities=6, facts=60)
    model = built("complex", graph.sizes, rank=4, seed=2).double()
    found = pairs(model, graph, "valid")
    assert found.true.sum() == len(graph.valid) and 0 < (~found.true).sum() < len(graph.valid)
    known = np.concatenate([graph.train, graph.valid]).astype(np.int64)
    with torch.no_grad():
        scores = {round(float(s), 9) for s in model.score(*torch.from_numpy(known).unbind(1))}
    assert not {round(float(s), 9) for s in found.scores[~found.true]} & scores
    facts, here = graph.valid.tolist(), np.flatnonzero(found.true)
    assert found.known[here].tolist() == [sum((known[:, :2] == f[:2]).all(1)) - 1 for f in facts]
    assert found.others[here].tolist() == [sum((known[:, 1:] == f[1:]).all(1)) - 1 for f in facts]


def test_conformal_thresholds_cover_what_they_promise() -> None:
    """Of n + 1 exchangeable answers, the last one is covered at least as often as asked, and by no more than 1 / (n + 1)."""
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(4000, 40))
    for level in (0.5, 0.8, 0.9):
        at = LEVELS.index(level)
        inside = np.mean([row[-1] >= _quantiles(row[:-1])[at] for row in drawn])
        assert level - 0.02 < inside < level + 1 / 40 + 0.02
    assert _quantiles(np.arange(9.0))[LEVELS.index(0.95)] == LOWEST


def test_logistic_regression_finds_the_weights_that_made_the_data() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60_000, 2))
    y = rng.random(60_000) < 1 / (1 + np.exp(-(-1 + 2 * x[:, 0] + 0.5 * x[:, 1])))
    assert logistic(x, y) == pytest.approx([-1, 2, 0.5], abs=0.08)
    assert logistic(-x, y, slopes=(0,))[1] == 0.01
    # Half of the true examples look false: for each that looks true, one is hidden.
    seen = y & (rng.random(60_000) < 0.5)
    p, hidden = (
        (1 / (1 + np.exp(-(w[0] + x @ np.array(w[1:]))))).mean()
        for w in (logistic(x, y), logistic(x, seen, hidden=np.ones(60_000)))
    )
    assert hidden == pytest.approx(p, rel=0.12)


def test_a_relation_has_its_own_group_if_it_has_enough_examples() -> None:
    graph = random_graph(facts=300)
    relation = np.repeat([0, 1, 4], [40, 5, 29])
    of, names, rows = _groups(graph, relation, np.ones(74, dtype=bool), 30)
    own = graph.relations.name(0)
    assert names[of[0]] == f"{own}, tails" and rows[of[0]].tolist() == list(range(40))
    assert names[of[1]] == "N-N, tails" and len(rows[of[1]]) == 45
    assert names[of[4]] == "all relations" and len(rows[of[4]]) == 74


def test_a_graph_without_valid_facts_is_refused() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes, rank=4, seed=2).float()
    with pytest.raises(BadInput, match="no valid facts, and probabilities are fitted on them"):
        calibrate(model, replace(graph, valid=graph.valid[:0]))


def test_answers_that_contradict_what_is_known_about_themselves_do_not_lower_the_others() -> None:
    """Every e has one gender. To (?, gender, m), those without a gender are as probable as the valid facts say."""
    rng = np.random.default_rng(0)
    people, genders = np.arange(2, 202), rng.integers(0, 2, 200)
    facts = np.stack([people, np.zeros(200, dtype=np.int64), genders], axis=1).astype(np.int32)
    names = Vocabulary(f"e{i:03d}" for i in range(202)), Vocabulary(["gender"])
    graph = Graph("people", *names, facts[:120], facts[120:160], facts[160:])
    model = built("complex", graph.sizes, rank=4, seed=2).float()
    calibration = calibrate(model, graph)
    measured = measure(model, graph, calibration)
    assert calibration.second[0] < 0.05 < calibration.second[1]
    assert measured.marked.count > 0 and measured.marked.share == 0
    assert measured.top10.after.brier < measured.top10.before.brier
    relation, known, others = np.array([1, 1]), np.array([60, 60]), np.array([[0, 1], [0, 0]])
    p, marks = calibration.told(relation, known, np.zeros(2), np.array([[1.0, 1.0], [1.0, 1.0]]), others)
    assert marks.tolist() == [[False, True], [False, False]]
    assert p[0, 0] == p[1, 0] == p[1, 1] and p[0, 1] == min(p[0, 0], calibration.second[0])


def test_answers_from_deeper_places_stand_for_their_layers() -> None:
    scores = torch.arange(500.0, 0.0, -1.0).repeat(3, 1)  # entity e has place e
    true, depth = torch.tensor([200, 5, 3]), torch.tensor([400, 400, 20])
    found = Deeper.of(scores, true, depth)
    there = torch.isfinite(found.scores)
    assert there.sum(1).tolist() == [DEEPER + 1, DEEPER, 0]
    assert float(found.stands[1][there[1]].sum()) == 400 - TOP
    assert found.entity[0][found.stands[0] == 1].tolist()[-1] == 200  # the true answer stands for itself
    assert (500 - found.scores[there] == found.entity[there]).all() and int(found.entity[1][there[1]].min()) >= TOP
    everything = Deeper.of(scores[:, :30], torch.tensor([7, 7, 7]), depth)  # deeper than there are entities
    assert int(everything.entity.max()) < 30 and torch.isfinite(everything.scores)[:2].sum() == 20


def test_a_question_with_hundreds_of_missing_answers_has_honest_probabilities_far_below_its_best_ones() -> None:
    """Of the best answers to (?, member, club) nearly all are true, of those at place 600 few are: the probabilities say so."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=3000)
    members = rng.permutation(np.flatnonzero(rng.random(3000) < 1 / (1 + np.exp(-3 * (quality - 1))))) + 1
    facts = np.stack([members, 0 * members, 0 * members], axis=1).astype(np.int32)
    names = Vocabulary(f"e{i:04d}" for i in range(3001)), Vocabulary(["member"])
    third = len(facts) // 3
    graph = Graph("club", *names, facts[:third], facts[third : 2 * third], facts[2 * third :])
    model = built("distmult", graph.sizes, rank=1, seed=2).float()
    entities = max(model.parameters(), key=len)
    with torch.no_grad():
        for table in model.parameters():
            table.fill_(1.0)
        entities[1:, 0] = torch.from_numpy(quality).float()
    calibration = calibrate(model, graph)
    known = np.concatenate([graph.train, graph.valid])[:, 0] - 1
    new = np.setdiff1d(np.arange(3000), known)
    new = new[np.argsort(-quality[new])]
    scores = torch.from_numpy(quality[new]).float()[None]
    p = calibration.probabilities(np.array([1]), np.array([len(known)]), calibration.total(scores), scores.numpy())[0]
    true = np.isin(new, graph.test[:, 0] - 1)
    assert true[:30].mean() > 2 * true[200:600].mean() > 0
    for a, b in ((0, 50), (50, 200), (200, 600)):
        assert p[a:b].mean() == pytest.approx(true[a:b].mean(), abs=0.1)
