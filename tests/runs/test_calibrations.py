"""dura calibrate end to end: the file, probabilities of answers, sets, stale files, and the tutorial's example."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dura
from dura.__main__ import app
from dura.data.graph import Graph
from dura.inference.calibration import FILE
from dura.records import Damage
from dura.runs.trained import Trained
from dura.types import BadInput, DuraError, Notice
from graphs import dated_graph, random_graph


@pytest.fixture(scope="module")
def umls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of UMLS with its calibration."""
    run = tmp_path_factory.mktemp("calibrated") / "umls"
    settings = {"regularizer.weight": 0.02}
    trained = dura.fit(dura.load("umls"), rank=30, epochs=12, batch=100, settings=settings, out=run, progress=False)
    trained.calibrate()
    return run


def call(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_calibration_makes_probabilities_better_and_sets_keep_their_promise(umls: Path, tmp_path: Path) -> None:
    figure = tmp_path / "reliability.svg"
    found = call("calibrate", str(umls), "--quiet", "--figure", str(figure))
    answers, facts = found["test"]["answers"], found["test"]["facts"]
    for one in (answers["top10"], answers["top1"], facts):
        assert one["after"]["brier"] < 0.8 * one["before"]["brier"] and one["after"]["ece"] < one["before"]["ece"]
    assert answers["top10"]["after"]["ece"] < 0.06
    assert [one["asked"] for one in found["test"]["sets"]] == [0.5, 0.8, 0.9, 0.95]
    for one in found["test"]["sets"]:
        assert abs(one["measured"] - one["asked"]) < 0.07
    assert figure.read_text().startswith("<?xml")
    again = CliRunner().invoke(app, ["calibrate", str(umls), "--figure", str(figure)])
    assert str(again.exception) == f"the file {figure} exists already; name another file for the figure"
    wrong = CliRunner().invoke(app, ["calibrate", str(umls), "--figure", "x.gif"])
    assert str(wrong.exception) == "a figure can be written as .png, .svg, .pdf, not as 'x.gif'"


def test_a_figure_that_cannot_be_written_is_refused_before_the_work(
    umls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr("dura.inference.calibrating.calibrate", never)
    trained = dura.open(umls)
    (tmp_path / "file").write_text("")
    for folder in ("none", "file"):
        with pytest.raises(BadInput) as error:
            trained.calibrate(figure=tmp_path / folder / "x.png")
        assert str(error.value) == f"there is no folder {tmp_path / folder} for the figure x.png"
    assert not (tmp_path / "none").exists()

    def forbidden(**_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dura.runs.calibrations.TemporaryFile", forbidden)
    with pytest.raises(DuraError, match="you have no permission to write there; name another file for the figure"):
        trained.calibrate(figure=tmp_path / "x.png")


def test_command_and_python_calibrate_alike(umls: Path) -> None:
    printed = call("calibrate", str(umls), "--quiet")
    stored = (umls / FILE).read_bytes()
    found = dura.open(umls).calibrate()
    assert found.to_dict() == {key: value for key, value in printed.items() if key != "run"}
    assert (umls / FILE).read_bytes() == stored
    assert str(found).splitlines()[0].startswith("fitted on 1,304 answers of valid, in ")


def test_every_answer_has_a_probability_in_the_order_of_scores(umls: Path) -> None:
    trained = dura.open(umls)
    answers = trained.predict(head="virus", relation="causes", k=135, known=True)
    assert all(a.probability == 1.0 for a in answers if a.known) and any(a.known for a in answers)
    new = [float(a.probability or 0) for a in answers if not a.known]
    assert new == sorted(new, reverse=True) and 0 < new[0] < 1
    shown = call("predict", str(umls), "--head", "virus", "--relation", "causes", "-k", "3")["answers"]
    assert [a["probability"] for a in shown] == new[:3] and not shown[0]["contradicts"]
    restricted = trained.predict(head="virus", relation="causes", among=[a.entity for a in answers if not a.known][3:5])
    assert [a.probability for a in restricted] == new[3:5]
    likely = trained.predict(head="virus", relation="causes", k=135, min_probability=new[4])
    assert [a.probability for a in likely] == [p for p in new if p >= new[4]]


def test_sets_are_the_best_answers_and_grow_with_their_coverage(umls: Path) -> None:
    trained = dura.open(umls)
    best = [a.entity for a in trained.predict(head="virus", relation="causes", k=135)]
    sizes = []
    for coverage in (0.3, 0.9, 0.99, 0.9999):
        found = trained.predict(head="virus", relation="causes", k=135, coverage=coverage)
        assert [a.entity for a in found] == best[: len(found)] and found.set_size == len(found)
        sizes.append(len(found))
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1] == len(best)
    cut = trained.predict(head="virus", relation="causes", k=2, coverage=0.9999)
    assert len(cut) == 2 and cut.set_size == len(best) and cut.to_dict()["set_size"] == len(best)
    assert repr(cut).endswith(f"   these are the best 2 of the {len(best)} answers in the set")
    printed = CliRunner().invoke(app, ["predict", str(umls), "--head=virus", "--relation=causes", "--coverage=0.01"])
    assert "the set is empty: no new answer is as probable as" in printed.stdout
    with pytest.raises(BadInput, match="coverage is 2, but it must be a number between 0 and 1"):
        trained.predict(head="virus", relation="causes", coverage=2)


def test_without_calibration_there_are_no_probabilities(umls: Path, tmp_path: Path) -> None:
    run = shutil.copytree(umls, tmp_path / "run")
    (run / FILE).unlink()
    answers = dura.open(run).predict(head="virus", relation="causes", k=1)
    assert answers[0].probability is None and "probability" not in answers.to_dict()["answers"][0]
    for wish in ({"min_probability": 0.5}, {"coverage": 0.5}):
        with pytest.raises(BadInput, match=f"no probabilities yet; run dura calibrate {re.escape(str(run))} first"):
            dura.open(run).predict(head="virus", relation="causes", **wish)  # type: ignore[arg-type]


def test_a_calibration_of_other_tables_is_ignored_with_a_sentence(umls: Path, tmp_path: Path) -> None:
    run = shutil.copytree(umls, tmp_path / "run")
    document = json.loads((run / FILE).read_text())
    (run / FILE).write_text(json.dumps(document | {"checkpoint": "0" * 64}))
    trained = dura.open(run)
    with pytest.warns(Notice) as told:
        answers = trained.predict(head="virus", relation="causes", k=1)
    assert answers[0].probability is None
    assert str(told[0].message) == (
        f"{run / FILE} was made for other tables than those of this run, so answers have no probabilities; "
        f"make it again with: dura calibrate {run}"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained.predict(head="virus", relation="causes", k=1)  # it is said once
    trained.calibrate()
    assert dura.open(run).predict(head="virus", relation="causes", k=1)[0].probability is not None
    for text, said in (("{", "cannot be read: .*"), ("[]", "is not a JSON object"), ("", "cannot be read: .*")):
        (run / FILE).write_text(text)
        with pytest.raises(Damage, match=rf"calibration\.json {said}; make it again with: dura calibrate {run}$"):
            dura.open(run).predict(head="virus", relation="causes", k=1)


def fitted(graph: Graph, **more: Any) -> Trained:
    return dura.fit(graph, rank=4, epochs=1, progress=False, **more)


def test_a_model_without_a_folder_keeps_its_calibration_in_memory() -> None:
    trained = fitted(random_graph())
    found = trained.calibrate()
    assert found.path is None and found.calibration.checkpoint == ""
    assert trained.predict(head="e003", relation="r1", k=1)[0].probability is not None


def test_times_and_intervals_have_probabilities_but_answers_to_when_have_none() -> None:
    for intervals in (False, True):
        trained = fitted(dated_graph(intervals=intervals), model="tcomplex", regularizer="none")
        trained.calibrate()
        asked = [("e003", "r1", None, "2014-01-02"), ("e003", "r1", "e004", "?")]
        entities, times = trained.ask(asked, k=2)
        assert 0 < entities[0].probability < 1
        assert not hasattr(times[0], "probability")


def test_without_test_facts_nothing_is_measured_and_without_valid_facts_nothing_is_fitted(tmp_path: Path) -> None:
    from dataclasses import replace

    graph = random_graph()
    found = fitted(replace(graph, test=graph.test[:0])).calibrate()
    assert found.measured is None and "there are no test facts, so nothing was measured" in str(found)
    assert found.to_dict()["test"] is None
    run = tmp_path / "run"
    fitted(replace(graph, valid=graph.valid[:0]), out=run)
    done = CliRunner().invoke(app, ["calibrate", str(run)])
    assert str(done.exception).startswith("this run has no valid facts, and probabilities are fitted on them")
    assert not (run / FILE).exists()


def test_an_answer_contradicts_what_is_known_about_itself(tmp_path: Path) -> None:
    """(?, gender, male) finds no one whose gender is known to be another."""
    rng = np.random.default_rng(0)
    people = [(f"p{i:02}", "gender", "male" if i % 2 else "female") for i in range(40)]
    friends = [(f"p{a:02}", "knows", f"p{b:02}") for a, b in rng.integers(0, 40, (200, 2)).tolist() if a != b]
    trained = fitted(dura.from_facts(people + friends, valid_share=0.1, test_share=0.1))
    trained.calibrate()
    answers = trained.predict(relation="gender", tail="male", k=40)
    known = {head for head, _, tail in people if tail == "female"} & {
        name
        for split in ("train", "valid", "test")
        for name, relation in (
            (trained.graph.entities.name(h), trained.graph.relations.name(r))
            for h, r, _ in trained.graph.facts(split).tolist()
        )
        if relation == "gender"
    }
    marked = {a.entity: (a.contradicts, a.probability) for a in answers if a.entity in known}
    assert marked and all(mark and (p or 0) <= 0.05 for mark, p in marked.values())
    full = {a.entity: a.probability or 0.0 for a in answers}
    for least in (0.0, 0.01, 0.06, 0.2):
        found = trained.predict(relation="gender", tail="male", k=3, min_probability=least)
        assert [a.entity for a in found] == [entity for entity, p in full.items() if p >= least][:3]
    likely = trained.discover("gender", top=5)
    assert all(fact["probability"] <= 0.05 for fact in likely if fact["head"] in known)


def test_one_group_and_one_answer_are_said_in_the_singular() -> None:
    from types import SimpleNamespace

    from dura.runs.calibrations import Calibrated

    for count, said in ((1, "1 answer of valid, in 1 group of"), (2, "2 answers of valid, in 2 groups of")):
        calibration: Any = SimpleNamespace(temperature=1.0, counts={"answers": count, "groups": count})
        assert f"fitted on {said} relations; " in str(Calibrated(calibration, None))
