"""Audits: no fact is judged by a model that has seen it; stopped ones continue; planted errors are found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dura
from dura.data.folds import KEPT, deal
from dura.data.graph import Graph
from dura.inference.judge import judge
from dura.runs import audit as module
from dura.runs.api import choose
from dura.runs.audit import Plan, cross_fitted, degrees
from dura.runs.trained import Trained
from dura.training.progress import Interrupted
from dura.types import BadInput, DuraError

SETTINGS = {"model.rank": 16, "training.epochs": 6, "training.batch": 200}


@pytest.fixture(scope="module")
def dirty() -> tuple[Graph, set[tuple[int, ...]]]:
    """UMLS with errors: random facts that nobody knows."""
    graph = dura.load("umls")
    rng, errors = np.random.default_rng(0), set[tuple[int, ...]]()
    while len(errors) < 50:
        h, r, _ = graph.train[rng.integers(len(graph.train))].tolist()
        t = int(rng.integers(len(graph.entities)))
        if t not in graph.known.known(np.array([h]), np.array([r])).answers:
            errors.add((h, r, t))
    train = np.concatenate([graph.train, np.array(sorted(errors), dtype=np.int32)])
    return replace(graph, train=train, name="umls-dirty"), errors


@pytest.fixture(scope="module")
def run(dirty: tuple[Graph, set[tuple[int, ...]]], tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return dura.fit(dirty[0], settings=SETTINGS, out=tmp_path_factory.mktemp("audit") / "run", progress=False)


def test_planted_errors_are_found(run: Trained, dirty: tuple[Graph, set[tuple[int, ...]]], tmp_path: Path) -> None:
    found = run.audit(folds=3, top=50, folder=tmp_path / "audit")
    graph, errors = dirty
    rows = [(graph.entity(f["head"]), graph.relation(f["relation"]), graph.entity(f["tail"])) for f in found]
    chance = 50 * len(errors) / len(graph.train)
    assert len(found) == 50
    assert sum(row in errors for row in rows) > 15 * chance
    assert found.to_frame()["plausibility"].is_sorted()
    assert found.about["judged"] + found.about["not_judged"] == len(graph.train)
    again = run.audit(folds=3, top=10, folder=tmp_path / "audit")  # all folds are there already
    assert again.to_frame().equals(found.to_frame()[:10])
    assert {path.name for path in (tmp_path / "audit").iterdir()} == {
        "audit.json",
        *(f"fold-{n}.safetensors" for n in (1, 2, 3)),
    }


def test_no_fact_is_judged_by_a_model_that_has_seen_it(
    dirty: tuple[Graph, set[tuple[int, ...]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[tuple[int, ...]]] = []
    judged: list[set[tuple[int, ...]]] = []
    from dura.runs import work

    real = work.train_or_resume

    def train(experiment, out, graph, **more):  # type: ignore[no-untyped-def]
        seen.append(set(map(tuple, graph.train.tolist())))
        assert not len(graph.valid) and not len(graph.test)
        return real(experiment, out, graph, **more)

    def look(model, facts, *rest, **more):  # type: ignore[no-untyped-def]
        judged.append(set(map(tuple, facts.tolist())))
        return judge(model, facts, *rest, **more)

    monkeypatch.setattr(work, "train_or_resume", train)
    monkeypatch.setattr(module, "judge", look)
    graph = dirty[0]
    fold, found = cross_fitted(choose(None, settings=SETTINGS), graph, Plan(3, 1), tmp_path / "audit")
    assert len(seen) == len(judged) == 3
    for known, asked in zip(seen, judged, strict=True):
        assert asked and not known & asked
        assert known | asked == set(map(tuple, graph.train.tolist()))
    assert np.isnan(found.share[fold == KEPT]).all()
    assert np.isfinite(found.share[fold != KEPT]).all()


def test_a_stopped_audit_continues_and_workers_find_the_same(run: Trained, tmp_path: Path) -> None:
    whole = run.audit(folds=2, top=20, epochs=2, folder=tmp_path / "whole")
    calls = iter([False] * 20)
    with pytest.raises(Interrupted):
        run.audit(folds=2, top=20, epochs=2, folder=tmp_path / "parts", stopped=lambda: next(calls, True))
    assert not (tmp_path / "parts" / "fold-2.safetensors").exists()
    seen: list[tuple[int, int]] = []
    parts = run.audit(folds=2, top=20, epochs=2, folder=tmp_path / "parts", jobs=2, progress=lambda *d: seen.append(d))
    assert seen[-1] == (2, 2)
    assert parts.to_frame().equals(whole.to_frame())


def test_accepted_facts_are_not_doubted_again(run: Trained, tmp_path: Path) -> None:
    found = run.audit(folds=2, top=6, epochs=1, folder=tmp_path / "audit")
    file = found.write(tmp_path / "doubtful.csv")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], *(line + "accept" for line in lines[1:4]), *lines[4:]]) + "\n")
    tally = run.review(file)
    assert (tally.accepted, tally.undecided) == (3, 3)
    left = run.audit(folds=2, top=3, epochs=1, folder=tmp_path / "audit")
    columns = ["head", "relation", "tail"]
    assert left.to_frame()[columns].equals(found.to_frame()[3:][columns])


def test_other_plans_and_damage_are_refused(run: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    run.audit(folds=2, top=1, epochs=1, folder=folder)
    with pytest.raises(
        BadInput, match=r"holds an audit with another epochs \(1 there, 2 here\); delete it, or name another folder"
    ):
        run.audit(folds=2, top=1, epochs=2, folder=folder)
    about = json.loads((folder / "audit.json").read_text())
    (folder / "audit.json").write_text(json.dumps(about | {"format": 9}))
    with pytest.raises(DuraError, match="has format 9, but this dura reads up to 1; update dura"):
        run.audit(folds=2, top=1, epochs=1, folder=folder)
    (folder / "audit.json").write_text(json.dumps(about)[:-9])
    with pytest.raises(DuraError, match=rf"audit.json cannot be read: .*; delete {folder} to begin again$"):
        run.audit(folds=2, top=1, epochs=1, folder=folder)
    (folder / "audit.json").write_text(json.dumps(about))
    (folder / "fold-1.safetensors").write_bytes(b"nonsense")
    with pytest.raises(DuraError, match=r"fold-1.safetensors is damaged"):
        run.audit(folds=2, top=1, epochs=1, folder=folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("important")
    with pytest.raises(BadInput, match="is not an empty folder and holds no audit"):
        run.audit(folds=2, top=1, epochs=1, folder=tmp_path / "mine")
    for wrong, message in (
        ({"top": 0}, "top is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"jobs": 0}, "jobs is 0"),
        ({"folds": 1}, "folds is 1"),
    ):
        with pytest.raises(BadInput, match=message):
            run.audit(**{"folder": tmp_path / "new", "epochs": 1, **wrong})  # type: ignore[arg-type]


def test_a_model_in_memory_is_audited_too(dirty: tuple[Graph, set[tuple[int, ...]]]) -> None:
    model = dura.fit(dirty[0], settings={**SETTINGS, "training.epochs": 1}, progress=False)
    assert len(model.audit(folds=2, top=5)) == 5
    with pytest.raises(BadInput, match="more than 1 needs a run in a folder"):
        model.audit(folds=2, jobs=2)


def test_degrees_are_those_outside_of_the_fold() -> None:
    facts = np.array([[0, 0, 1], [0, 0, 2], [1, 0, 2], [0, 0, 1]])
    assert degrees(facts, np.array([0, 0, 1, KEPT])).tolist() == [[1, 2], [1, 1], [2, 1], [3, 3]]
    fold = deal(facts, 2, 0)
    assert degrees(facts, fold).shape == (4, 2)


def test_a_refused_audit_leaves_nothing_behind(dirty: tuple[Graph, set[tuple[int, ...]]], tmp_path: Path) -> None:
    trained = dura.fit(dirty[0], rank=4, epochs=1, out=tmp_path / "run", progress=False)
    with pytest.raises(BadInput, match="folds"):
        trained.audit(folds=1)
    assert not (tmp_path / "run" / "audit").exists()
