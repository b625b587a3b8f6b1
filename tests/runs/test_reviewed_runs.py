"""Reviews of a run: kept append-only, the same file twice changes nothing, answers follow, and training uses them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import dura
from dura.runs.reviews import review
from dura.runs.run import resume
from dura.runs.trained import Trained
from dura.types import BadInput, DuraError

SETTINGS = {"model.rank": 16, "training.epochs": 8}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return dura.fit(
        dura.load("nations"), settings=SETTINGS, out=tmp_path_factory.mktemp("runs") / "run", progress=False
    )


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Trained:
    """A copy, which a test may review."""
    assert trained.path is not None
    return dura.open(shutil.copytree(trained.path, tmp_path / "run"))


def decided(file: Path, facts: list[dict[str, str]], *decisions: str) -> Path:
    rows = [f"{f['head']},{f['relation']},{f['tail']},{d}" for f, d in zip(facts, decisions, strict=True)]
    file.write_text("\n".join(["head,relation,tail,decision", *rows]) + "\n")
    return file


def facts_of(model: Trained, top: int) -> list[dict[str, str]]:
    return [{part: fact[part] for part in ("head", "relation", "tail")} for fact in model.discover(top=top)]


def test_what_was_judged_is_not_suggested_again(run: Trained, tmp_path: Path) -> None:
    before = facts_of(run, 12)
    tally = run.review(decided(tmp_path / "a.csv", before[:4], "reject", "accept", "no", ""))
    assert (tally.accepted, tally.rejected, tally.undecided, tally.total) == (1, 2, 1, {"accept": 1, "reject": 2})
    assert run.path is not None
    for model in (run, dura.open(run.path)):
        assert facts_of(model, 9) == before[3:]
        refused, accepted = before[0], before[1]
        for known in (False, True):
            tails = model.predict(head=refused["head"], relation=refused["relation"], k=99, known=known)
            assert refused["tail"] not in [a.entity for a in tails]
        tail, relation = accepted["tail"], accepted["relation"]
        assert accepted["head"] not in [a.entity for a in model.predict(tail=tail, relation=relation, k=99)]
        shown = model.predict(tail=tail, relation=relation, k=99, known=True)
        assert {a.entity: a.known for a in shown}[accepted["head"]]
        asked = [(fact["head"], fact["relation"], fact["tail"]) for fact in (accepted, refused)]
        assert [(fact.known, fact.rejected) for fact in model.scored(asked)] == [(True, False), (False, True)]
        assert str(model.scored(asked)[1]).endswith("(rejected)")
    assert run.evaluate().mrr == dura.open(run.path).evaluate().mrr


def test_accepted_facts_are_known_answers_and_rejected_ones_are_not(run: Trained, tmp_path: Path) -> None:
    """Otherwise a rejected answer of a functional relation would make the right one a contradiction."""
    first, second = facts_of(run, 2)
    graph = run.graph

    def held(fact: dict[str, str]) -> int:
        question = [np.array([graph.entities.id(fact["head"])]), np.array([graph.relations.id(fact["relation"])])]
        return int(run.graph.holding(*question)[0])

    before = held(first), held(second)
    run.review(decided(tmp_path / "a.csv", [first, second], "accept", "reject"))
    same = (first["head"], first["relation"]) == (second["head"], second["relation"])
    assert (held(first), held(second)) == (before[0] + 1, before[1] + same)


def test_the_same_file_twice_changes_nothing_and_a_changed_mind_must_be_said(run: Trained, tmp_path: Path) -> None:
    facts, reviews = facts_of(run, 2), Path(str(run.path)) / "reviews.csv"
    file = decided(tmp_path / "a.csv", facts, "yes", "no")
    run.review(file)
    text = reviews.read_text()
    assert text.startswith("head,relation,tail,time,decision,when,trained\n")
    tally = run.review(file)
    assert (tally.accepted, tally.rejected, tally.known) == (0, 0, 2)
    assert reviews.read_text() == text
    other = decided(tmp_path / "b.csv", facts, "no", "no")
    with pytest.raises(
        BadInput, match=r"was accepted on 20\d\d-\d\d-\d\d and is to be rejected now; --change allows it"
    ):
        run.review(other)
    assert reviews.read_text() == text
    tally = run.review(other, change=True)
    assert (tally.changed, tally.total) == (1, {"accept": 0, "reject": 2})
    assert reviews.read_text().startswith(text)


def test_files_that_other_commands_write_are_accepted(run: Trained, tmp_path: Path) -> None:
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        file = run.discover(top=3).write(tmp_path / f"found.{ending}")
        assert run.review(file).undecided == 3
    with pytest.raises(BadInput, match="found.csv is there already; name a new file"):
        run.discover(top=3).write(tmp_path / "found.csv")


def test_damage_and_models_in_memory(run: Trained, tmp_path: Path) -> None:
    assert run.path is not None
    (run.path / "reviews.csv").write_text("head,relation,tail,time,decision,when,trained\nusa,embassy,mars,,reject,,\n")
    with pytest.raises(DuraError, match=r"reviews.csv is damaged: .*'mars' is not in this graph"):
        dura.open(run.path)
    (run.path / "reviews.csv").write_text("head,relation,tail,time,decision,when,trained\nusa,embassy,uk,,maybe,,\n")
    with pytest.raises(DuraError, match=r"reviews.csv is damaged: .*reviews.csv:2: the decision 'maybe'"):
        dura.open(run.path)
    whole = "head,relation,tail,time,decision,when,trained\nusa,embassy,uk,,reject,,yes\n"
    for more, fault in (("usa,emb", "the line is cut short"), ('usa,"embassy,uk,,reject,,\n', "a quote is not closed")):
        (run.path / "reviews.csv").write_text(whole + more)
        with pytest.raises(DuraError) as error:
            dura.open(run.path)
        assert str(error.value).startswith(f"reviews.csv is damaged: {run.path / 'reviews.csv'}:3: {fault}")
    with pytest.raises(BadInput, match="decisions are read from a file .*, not from standard input"):
        review(run.path, run.graph, Path("-"))
    memory = Trained(run.model, run.graph, run.experiment)
    with pytest.raises(BadInput, match="decisions are kept in a run folder"):
        memory.review(tmp_path / "a.csv")
    with pytest.raises(BadInput, match="there is no file .*nothing.csv"):
        review(run.path, run.graph, tmp_path / "nothing.csv")


def test_the_next_training_uses_decisions_and_can_be_continued(run: Trained, tmp_path: Path) -> None:
    facts = facts_of(run, 6)
    run.review(decided(tmp_path / "a.csv", facts, *["accept"] * 3, *["reject"] * 3))
    graph = dura.load("nations")
    after = dura.fit(graph, settings=SETTINGS, reviews=run.path, out=tmp_path / "next", progress=False)
    assert len(after.graph.train) == len(graph.train) + 3
    assert after.experiment.graph.reviews == str(run.path)
    found = facts_of(after, 200)
    assert not [fact for fact in facts if fact in found]
    text = (tmp_path / "next" / "reviews.csv").read_text()
    assert (text.count(",reject,"), text.count(",accept,"), text.count(",yes\n")) == (3, 3, 6)
    plain = dura.fit(graph, settings=SETTINGS, progress=False)
    assert place(after, facts[3:]) > place(plain, facts[3:]) + 0.5
    stopped = cut_short(graph, run, tmp_path / "parts")
    later = decided(tmp_path / "b.csv", facts_of(stopped, 1), "reject")
    stopped.review(later)  # what is decided after the training began does not change it
    assert resume(tmp_path / "parts").evaluate().to_dict()["mrr"] == after.evaluate().to_dict()["mrr"]


def cut_short(graph: dura.Graph, run: Trained, out: Path) -> Trained:
    """The same training, stopped in the middle."""
    from dura.runs.choices import Choices
    from dura.runs.defaults import Outline, fit_to
    from dura.runs.run import _prepared, train
    from dura.training.progress import Interrupted

    choices = Choices(settings={**SETTINGS, "graph.reviews": str(run.path)})
    given, experiment = _prepared(graph, choices, None, None)
    experiment = fit_to(experiment, Outline.of(given), choices.chosen)
    calls = iter([False] * 9)
    with pytest.raises(Interrupted):
        train(experiment, given, out, stopped=lambda: next(calls, True))
    return dura.open(out)


def place(model: Trained, facts: list[dict[str, str]]) -> float:
    """The mean rank of facts among the entities that are no known tails in the original graph."""
    from dura.evaluation import rank

    graph = dura.load("nations")
    import numpy as np

    ids = [(graph.entity(f["head"]), graph.relation(f["relation"]), graph.entity(f["tail"])) for f in facts]
    return float(rank(model.model, np.array(ids), graph.known, len(graph.relations)).ranks().mean())


def test_a_graph_of_a_reviewed_run_is_trained_without_its_reviews(run: Trained, tmp_path: Path) -> None:
    """Decisions are used if they are asked for, and not because somebody took the graph of an opened run."""
    run.review(decided(tmp_path / "a.csv", facts_of(run, 2), "accept", "reject"))
    assert run.graph.reviews is not None
    again = dura.fit(run.graph, settings=SETTINGS, progress=False)
    plain = dura.fit(dura.load("nations"), settings=SETTINGS, progress=False)
    assert again.evaluate().mrr == plain.evaluate().mrr
