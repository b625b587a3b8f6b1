"""Combinations of runs: scores by the formula, weights fitted on valid, folders that open again, and refusals."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import dura
from dura import BadInput, DuraError, Graph
from dura.__main__ import app
from dura.evaluation import rank
from dura.inference.ruled import Ruled
from dura.inference.rules import THOROUGH, Miner
from dura.inference.weighing import LARGEST, Seen, _best_ridge, _of_relations, observe, weigh
from dura.models.combined import ByRelation
from dura.records import RunFolder
from graphs import dated_graph, random_graph


@pytest.fixture(scope="module")
def umls() -> Graph:
    return dura.load("umls")


@pytest.fixture(scope="module")
def pair(umls_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A combination of two runs in a folder next to copies of them."""
    folder = tmp_path_factory.mktemp("combined")
    for name in ("dura", "rescal"):
        shutil.copytree(umls_runs / name, folder / name)
    dura.combine([folder / "dura", folder / "rescal"], folder / "both")
    return folder


def test_the_score_is_the_weighted_sum_of_the_members_scores(pair: Path) -> None:
    both, members = dura.open(pair / "both"), [dura.open(pair / name) for name in ("dura", "rescal")]
    model = both.model
    assert isinstance(model, ByRelation)
    head, relation, tail = torch.tensor([3, 3, 100, 7]), torch.tensor([2, 60, 91, 0]), torch.tensor([9, 9, 0, 1])
    with model.answering():
        every, some = model.score_all(head, relation), model.score(head, relation, tail)
        raw = [one.model.score_all(head, relation) for one in members]
    for at in range(4):
        r, t = int(relation[at]), int(tail[at])
        literal = sum(
            float(model.weights[r, m]) * float(raw[m][at, t]) / float(model.scales[m]) for m in range(len(members))
        )
        assert float(every[at, t]) == pytest.approx(literal, rel=1e-4, abs=1e-5)
        assert float(some[at]) == pytest.approx(literal, rel=1e-4, abs=1e-5)


def test_ranks_do_not_depend_on_the_block(pair: Path, umls: Graph) -> None:
    model = dura.open(pair / "both").model
    asked = umls.asked("valid")[:60], umls.known, len(umls.relations)
    one, other = rank(model, *asked, block=3), rank(model, *asked)
    assert np.abs(one.greater - other.greater).max() <= 1  # scores that differ in the last digit


def test_a_combination_is_better_than_its_members_on_the_facts_it_was_fitted_on(pair: Path) -> None:
    alone = [dura.open(pair / name).evaluate("valid").mrr for name in ("dura", "rescal")]
    assert dura.open(pair / "both").evaluate("valid").mrr > max(alone)


def test_a_combination_is_asked_calibrated_reported_and_evaluated_like_a_run(pair: Path, tmp_path: Path) -> None:
    both, run = dura.open(pair / "both"), str(pair / "both")
    head, relation = next(iter(both.graph.entities)), next(iter(both.graph.relations))
    answers = both.predict(head=head, relation=relation, k=3)
    assert len(answers.answers) == 3 and answers.answers[0].score >= answers.answers[1].score
    assert both.score([(head, relation, answers.answers[0].entity)])[0] == pytest.approx(
        answers.answers[0].score, rel=1e-3
    )
    assert both.calibrate().measured is not None
    again = dura.open(pair / "both")
    assert again.predict(head=head, relation=relation, k=1).answers[0].probability is not None
    done = CliRunner().invoke(app, ["evaluate", run, "--json", "--by", "side"])
    assert done.exit_code == 0 and json.loads(done.stdout)["mrr"] == pytest.approx(both.evaluate().mrr, abs=1e-6)
    assert CliRunner().invoke(app, ["report", run, "--out", str(tmp_path / "page.html")]).exit_code == 0
    assert both.describe()["model"] == "combined"
    assert "combined" in repr(both)


def test_the_command_prints_weights_and_metrics(tmp_path: Path) -> None:
    for name in ("complex", "cp"):
        dura.fit(random_graph(), model=name, rank=4, epochs=2, progress=False).save(tmp_path / name)
    runs = [str(tmp_path / name) for name in ("complex", "cp")]
    done = CliRunner().invoke(app, ["combine", *runs, "--rules", "--out", str(tmp_path / "all"), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [one["run"].split("/")[-1] for one in told["members"]] == ["complex", "cp", "rules"]
    assert all(one["weight"] > 0 for one in told["members"]) and told["fit"] == "relations"
    assert told["mrr"] == pytest.approx(dura.open(tmp_path / "all").evaluate().mrr, abs=1e-6)
    (record,) = [r for r in RunFolder.open(tmp_path / "all").records() if r["kind"] == "evaluation"]
    assert record["mrr"] == told["mrr"]
    text = CliRunner().invoke(app, ["combine", *runs, "--fit", "equal", "--out", str(tmp_path / "equal")])
    assert text.exit_code == 0 and "weight 1.00" in text.stdout and "realistic" in text.stdout


def test_what_is_returned_is_what_opens_again(tmp_path: Path) -> None:
    for name in ("complex", "cp"):
        dura.fit(random_graph(), model=name, rank=4, epochs=2, progress=False).save(tmp_path / name)
    made = dura.combine([tmp_path / "complex", tmp_path / "cp"], tmp_path / "both")
    again = dura.open(tmp_path / "both")
    assert made.checkpoint == again.checkpoint != "" and made.path == again.path
    assert made.evaluate().mrr == again.evaluate().mrr
    assert dura.combine([tmp_path / "complex", tmp_path / "cp"]).evaluate().mrr == made.evaluate().mrr


def test_members_may_move_together_but_not_away(pair: Path, tmp_path: Path) -> None:
    shutil.copytree(pair, tmp_path / "moved")
    before = dura.open(pair / "both").evaluate("valid").mrr
    assert dura.open(tmp_path / "moved" / "both").evaluate("valid").mrr == before
    shutil.rmtree(tmp_path / "moved" / "rescal")
    with pytest.raises(BadInput, match="rescal, which is no longer there"):
        dura.open(tmp_path / "moved" / "both")


def test_other_tables_and_damaged_files_are_refused(pair: Path, umls: Graph, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    shutil.copytree(pair, place)
    shutil.rmtree(place / "dura")
    dura.fit(umls, model="complex", rank=8, epochs=1, progress=False, seed=5).save(place / "dura")
    with pytest.raises(BadInput, match="has other tables than when"):
        dura.open(place / "both")
    shutil.rmtree(place)
    shutil.copytree(pair, place)
    (place / "both" / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(DuraError, match=r"weights\.safetensors is damaged"):
        dura.open(place / "both")
    about = json.loads((place / "both" / "combined.json").read_text())
    for broken, said in (
        ({**about, "format": 3}, "has format 3"),
        ({**about, "fit": "magic"}, "fit is none of"),
        ({**about, "members": "both"}, "members must be a list"),
    ):
        (place / "both" / "combined.json").write_text(json.dumps(broken))
        with pytest.raises(DuraError, match=said):
            dura.open(place / "both")
    (place / "both" / "combined.json").unlink()
    with pytest.raises(DuraError, match=r"combined\.json is missing"):
        dura.open(place / "both")


def test_what_cannot_be_combined_is_refused_with_a_sentence(pair: Path, umls_runs: Path, tmp_path: Path) -> None:
    one, out = pair / "dura", tmp_path / "out"
    for runs, how, said in (
        ([one], {}, "at least two runs"),
        ([one, one], {}, "named twice"),
        ([one, umls_runs / "nations"], {}, "trained on other graphs .their entities differ."),
        ([one, pair / "both"], {}, "is a combination already"),
        ([one, tmp_path / "none"], {}, "there is no run folder"),
        ([one, pair / "rescal"], {"fit": "magic"}, "must be one of relations, equal, adaptive"),
        ([one, pair / "rescal"], {"fit": "adaptive", "rules": True}, "exactly two runs and no rules"),
    ):
        with pytest.raises(BadInput, match=said):
            dura.combine(runs, out, **how)
        assert not out.exists()
    with pytest.raises(BadInput, match="exists already"):
        dura.combine([one, pair / "rescal"], pair / "both")


def test_what_needs_tables_is_refused_for_a_combination(pair: Path, tmp_path: Path) -> None:
    run = str(pair / "both")
    for arguments in (
        ["export", run, str(tmp_path / "small"), "--int8"],
        ["export", run, str(tmp_path / "vectors"), "--format", "numpy"],
        ["audit", run],
        ["index", run],
        ["neighbours", run, next(iter(dura.open(run).graph.entities))],
        ["train", "--resume", run],
    ):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code != 0 and isinstance(done.exception, BadInput | SystemExit), (arguments, done.output)
        assert "Traceback" not in done.output
    with pytest.raises(BadInput, match="cannot be exported or saved"):
        dura.open(run).save(tmp_path / "saved")
    with pytest.raises(BadInput, match="cannot be extended by new entities"):
        dura.open(run).fold_in([("new", "affects", "steroid")])


# -- the fit ------------------------------------------------------------------------------------------------------------


def made_up(relation: list[int], better: int) -> Seen:
    """Answers of which one member is always right by 2 and the other one guesses."""
    torch.manual_seed(better)
    ahead = torch.randn(len(relation), 6, 2)
    ahead[..., better] = -2 + 0.1 * torch.randn(len(relation), 6)
    return Seen(torch.tensor(relation), ahead)


def test_a_relation_with_many_facts_has_its_own_weights_and_one_without_has_the_common_ones() -> None:
    first, second = made_up([0] * 200, 0), made_up([1] * 200 + [2], 1)
    seen = Seen(torch.cat([first.relation, second.relation]), torch.cat([first.ahead, second.ahead]))
    common = torch.zeros(1, 2)
    logs = _of_relations(seen, 4, common, 3.0)
    assert logs[0, 0] - logs[0, 1] > 1 and logs[1, 1] - logs[1, 0] > 1
    assert (logs[2] - common).abs().max() < (logs[1] - common).abs().max() / 2  # one fact says little
    assert torch.equal(logs[3], common[0])
    assert torch.equal(_of_relations(seen, 4, common, float("inf")), common.expand(4, -1))
    assert _best_ridge(seen, 4, common, 0) < float("inf")
    assert logs.abs().max() <= LARGEST


def test_weights_that_do_not_help_are_not_kept() -> None:
    """If all relations are alike, the half that was not fitted prefers the common weights."""
    seen = made_up([i % 8 for i in range(40)], 0)
    assert _best_ridge(seen, 8, torch.tensor([[0.5, -2.0]]), 0) == float("inf")


def test_rivals_are_wrong_answers_that_train_and_valid_do_not_know(pair: Path, umls: Graph) -> None:
    models = [dura.open(pair / name).model for name in ("dura", "rescal")]
    seen, scales = observe(models, umls, most=30)
    assert seen.ahead.shape[0] == 60 and seen.ahead.shape[2] == 2 and (scales > 0).all()
    facts = umls.asked("valid")[np.random.default_rng(0).permutation(len(umls.valid))[:30]]
    known = {(h, r, t) for split in ("train", "valid") for h, r, t in umls.facts(split).tolist()}
    facts = facts[np.argsort(facts[:, 1], kind="stable")]
    h, r, t = facts[0].tolist()
    scores = [model.score_all(torch.tensor([h]), torch.tensor([r]))[0].detach() for model in models]
    rivals = [e for e in range(len(umls.entities)) if (h, r, e) not in known]
    best = {e for s in scores for e in sorted(rivals, key=lambda e: -float(s[e]))[:50]}
    expected = sorted(float((scores[0][e] - scores[0][t]) / scales[0]) for e in best)
    found = sorted(x for x in seen.ahead[0, :, 0].tolist() if np.isfinite(x))
    assert found == pytest.approx(expected, abs=1e-3)


def test_weights_follow_from_the_seed_and_never_from_test(pair: Path, umls: Graph) -> None:
    models = [dura.open(pair / name).model for name in ("dura", "rescal")]
    one, again = weigh(models, umls, seed=1, most=100), weigh(models, umls, seed=1, most=100)
    assert torch.equal(one.weights, again.weights) and one.facts == 200
    fewer = replace(umls, test=umls.test[:5])
    assert torch.equal(weigh(models, fewer, seed=1, most=100).weights, one.weights)


@pytest.mark.parametrize("further", [1.0, 0.7, None])
def test_rules_as_a_model_score_what_rules_give(umls: Graph, further: float | None) -> None:
    model, miner = Ruled(umls, further=further), Miner(umls, effort=THOROUGH)
    scores = model.score_all(torch.tensor([5, 9]), torch.tensor([1, 60]))
    for row, (head, relation) in zip(scores, ((5, 1), (9, 60)), strict=True):
        given: dict[int, list[float]] = {}
        for rule in miner.mine(relation):  # the best one first
            for answer in miner.apply([rule], head)[0].tolist():
                given.setdefault(answer, []).append(rule.confidence)
        assert set(np.flatnonzero(row.numpy() > 0).tolist()) == set(given)
        for answer, shares in given.items():
            if further is None:
                expected = -np.log(1 - min(shares[0] + 1e-3 * sum(shares[1:2]), 0.999))
            else:
                expected = sum(-np.log(1 - min(share, 0.999)) * further**k for k, share in enumerate(shares))
            assert float(row[answer]) == pytest.approx(expected, rel=1e-4)
    one = model.score(torch.tensor([5]), torch.tensor([1]), torch.tensor([3]))
    assert float(one) == float(scores[0, 3])


def test_rules_of_an_older_combination_count_as_they_did(pair: Path, tmp_path: Path) -> None:
    done = dura.combine([pair / "dura", pair / "rescal"], tmp_path / "new", rules=True)
    path = tmp_path / "new" / "combined.json"
    about = json.loads(path.read_text())
    assert about["format"] == 2 and json.loads((pair / "both" / "combined.json").read_text())["format"] == 1
    path.write_text(json.dumps({**about, "format": 1}))
    old, question = dura.open(tmp_path / "new").model, (torch.tensor([5]), torch.tensor([1]))
    miner, state = Miner(done.graph), done.model.state()
    entities, best = miner.apply(miner.mine(1), 5)  # the best rule, and a thousandth of the second one
    rules = torch.zeros(1, len(done.graph.entities))
    rules[0, entities] = torch.from_numpy(-np.log1p(-np.minimum(best, 0.999))).float()
    of_runs = done.model.score_all(*question) - Ruled(done.graph).score_all(*question) * (
        by := state["weights"][1, 2] / state["scales"][2]
    )
    assert torch.allclose(old.score_all(*question), of_runs + rules * by, atol=1e-4)
    assert not torch.allclose(old.score_all(*question), done.model.score_all(*question), atol=1e-2)


def test_dated_runs_are_combined_without_rules(tmp_path: Path) -> None:
    graph = dated_graph()
    for name in ("tcomplex", "trescal"):
        dura.fit(graph, model=name, rank=4, epochs=1, progress=False).save(tmp_path / name)
    runs = [tmp_path / "tcomplex", tmp_path / "trescal"]
    both = dura.combine(runs, tmp_path / "both")
    assert 0 < both.evaluate("valid").mrr <= 1
    head, relation, tail, *_ = graph.asked("valid")[0].tolist()
    names = graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail)
    assert len(both.when(head=names[0], relation=names[1], tail=names[2], k=2).answers) == 2
    with pytest.raises(BadInput, match="rules do not know times"):
        dura.combine(runs, tmp_path / "other", rules=True)
