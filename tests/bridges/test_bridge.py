"""dura and PyKEEN: the same scores in both directions, the same penalty, and training that gets better by it."""

from __future__ import annotations

import importlib
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import dura
from dura.bridges import installed
from dura.bridges.copies import COPIES, doubled, halved
from dura.bridges.pykeen import from_pykeen, penalty, to_pykeen
from dura.config import Component, Experiment
from dura.data.graph import Graph
from dura.models import MODELS
from dura.regularizers import REGULARIZERS
from dura.runs.build import complete
from dura.runs.trained import Trained
from dura.tables.table import Table
from dura.types import BadInput, DuraError

needs_pykeen = pytest.mark.skipif(find_spec("pykeen") is None, reason="PyKEEN is not installed; `make bridge` has it")
pytestmark = pytest.mark.filterwarnings("default")  # PyKEEN's own warnings are no errors here

os.environ.setdefault("PYKEEN_HOME", str(Path(tempfile.gettempdir()) / "pykeen-of-the-tests"))
RANK = 12
COVERED = [name for name, copy in COPIES.items() if not copy.differs]
BILINEAR = ("complex", "rescal", "cp", "distmult")
NEAR = 1e-5


def pykeen(name: str) -> Any:
    return importlib.import_module(f"pykeen.{name}")


def drawn(name: str, graph: Graph | None = None, **options: Any) -> Trained:
    """A model of dura with random numbers in all tables, layers and running means."""
    graph = graph or dura.load("nations")
    torch.manual_seed(0)
    experiment = complete(Experiment(model=Component(name, {"rank": RANK, **options}), regularizer=Component("none")))
    model = MODELS.build(name, experiment.model.options, graph.sizes)
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5) if key.endswith("running_var") else tensor.normal_(std=0.5)
    return Trained(model, graph, experiment)


def made(theirs: str, *, inverse: bool, unit: bool = True, **options: Any) -> tuple[Any, Any]:
    """A model of PyKEEN with random numbers."""
    factory = pykeen("datasets").Nations(create_inverse_triples=inverse).training
    model = getattr(pykeen("models"), theirs)(triples_factory=factory, random_seed=0, **options)
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if tensor.is_floating_point() and "regularizer" not in key:
                tensor.uniform_(0.5, 1.5) if key.endswith("running_var") else tensor.normal_(std=0.5)
        model.post_parameter_update()
        if theirs == "TransH" and unit:
            normals = model.relation_representations[0]._embeddings.weight
            normals.copy_(torch.nn.functional.normalize(normals, dim=1))
        if theirs == "ConvKB":
            model.interaction.linear.bias.zero_()
    return model.eval(), factory


@torch.no_grad()
def furthest(trained: Trained, model: Any) -> float:
    """The largest difference of any score of a tail, a head or a fact, as a share of the larger of 1 and the score."""
    sizes = trained.graph.sizes
    pairs = torch.cartesian_prod(torch.arange(sizes.entities), torch.arange(sizes.relations))
    found = [(trained.model.score_all(pairs[:, 0], pairs[:, 1]), model.predict_t(pairs))]
    found += [(trained.model.score_all(pairs[:, 0], pairs[:, 1] + sizes.relations), model.predict_h(pairs.flip(1)))]
    facts = torch.as_tensor(trained.graph.train[:50].copy()).long()
    names = list(trained.graph.entities), list(trained.graph.relations)
    asked = [(names[0][h], names[1][r], names[0][t]) for h, r, t in facts.tolist()]
    found += [(torch.tensor(trained.score(asked)), model.predict_hrt(facts).flatten())]
    return max(float(((a - b).abs() / b.abs().clamp(min=1)).max()) for a, b in found)


# -- trained models -----------------------------------------------------------------------------------------------------


@needs_pykeen
@pytest.mark.parametrize("name", COVERED)
def test_a_model_has_the_same_scores_in_pykeen(name: str) -> None:
    trained = drawn(name)
    model, factory = to_pykeen(trained)
    assert furthest(trained, model) <= NEAR
    assert factory.entity_to_id == {entity: i for i, entity in enumerate(trained.graph.entities)}
    assert factory.create_inverse_triples == COPIES[name].reciprocal
    assert torch.equal(factory.mapped_triples, torch.as_tensor(trained.graph.train.copy()).long())


@needs_pykeen
@pytest.mark.parametrize("name", COVERED)
def test_there_and_back_is_the_same_model(name: str) -> None:
    trained = drawn(name)
    back = from_pykeen(*to_pykeen(trained))
    assert back.experiment.model.name == name
    assert list(back.graph.entities) == list(trained.graph.entities)
    pairs = torch.cartesian_prod(torch.arange(14), torch.arange(110))
    with torch.no_grad():
        one, two = (t.model.score_all(pairs[:, 0], pairs[:, 1]) for t in (trained, back))
    assert torch.allclose(one, two, atol=NEAR, rtol=NEAR)


WAYS: dict[str, dict[str, Any]] = {
    "transe": {"embedding_dim": RANK, "scoring_fct_norm": 2},
    "transh": {"embedding_dim": RANK, "scoring_fct_norm": 2, "power_norm": True},
    "transd": {"embedding_dim": RANK, "relation_dim": RANK, "interaction_kwargs": {"p": 2, "power_norm": True}},
    "se": {"embedding_dim": RANK, "scoring_fct_norm": 1},
    "cp": {"embedding_dim": 6, "rank": 2},
    "mure": {"embedding_dim": RANK, "p": 2, "power_norm": True},
    "conve": {"embedding_dim": RANK, "embedding_height": 3, "embedding_width": 4, "output_channels": 5},
    "tucker": {"embedding_dim": RANK, "relation_dim": 7},
    "convkb": {"embedding_dim": RANK, "num_filters": 8},
}


@needs_pykeen
@pytest.mark.parametrize("name", COVERED)
def test_a_model_of_pykeen_has_the_same_scores_in_dura(name: str) -> None:
    copy = COPIES[name]
    model, factory = made(copy.theirs, inverse=copy.reciprocal, **WAYS.get(name, {"embedding_dim": RANK}))
    trained = from_pykeen(model, factory)
    assert furthest(trained, model) <= NEAR
    assert len(trained.graph.train) == factory.num_triples


@needs_pykeen
@pytest.mark.parametrize("name", ["complex", "rescal", "distmult"])
def test_a_model_without_inverse_relations_is_asked_for_heads_too(name: str) -> None:
    model, factory = made(COPIES[name].theirs, inverse=False, embedding_dim=RANK)
    assert furthest(from_pykeen(model, factory), model) <= NEAR


@needs_pykeen
def test_a_copied_model_is_evaluated_and_saved(tmp_path: Any) -> None:
    data = pykeen("datasets").Nations(create_inverse_triples=True)
    model = pykeen("models").ComplEx(triples_factory=data.training, embedding_dim=RANK, random_seed=0)
    trained = from_pykeen(model, data.training, data.validation, data.testing)
    theirs = pykeen("evaluation").RankBasedEvaluator(clear_on_finalize=True).evaluate(
        model, data.testing.mapped_triples, use_tqdm=False,
        additional_filter_triples=[data.training.mapped_triples, data.validation.mapped_triples],
    )  # fmt: skip
    assert trained.evaluate("test").mrr == pytest.approx(
        theirs.get_metric("both.realistic.inverse_harmonic_mean_rank"), abs=1e-5
    )
    opened = dura.open(trained.save(tmp_path / "run"))
    assert opened.evaluate("test").mrr == pytest.approx(trained.evaluate("test").mrr)


@needs_pykeen
def test_what_is_not_covered_is_one_sentence() -> None:
    with pytest.raises(BadInput, match="adds up their moduli"):
        to_pykeen(drawn("rotate"))
    with pytest.raises(BadInput, match="'hake' cannot be copied to PyKEEN; these can: complex, rescal"):
        to_pykeen(drawn("hake"))
    with pytest.raises(BadInput, match="PyKEEN's CP has no 'distance'"):
        to_pykeen(drawn("cp", comparator="distance"))
    for theirs, inverse, options, why in (
        ("RotatE", False, {}, "adds up their moduli"),
        ("UM", False, {}, "PyKEEN's model UM cannot be copied"),
        ("TransE", True, {}, "without inverse triples"),
        ("CP", False, {}, "create_inverse_triples=True"),
        ("TransE", False, {"scoring_fct_norm": 3}, "its norm is l3"),
        ("TransH", False, {"unit": False, **WAYS["transh"]}, "have not length 1"),
    ):
        model, factory = made(theirs, inverse=inverse, **options)
        with pytest.raises(BadInput, match=why):
            from_pykeen(model, factory)


def test_reciprocals_change_places() -> None:
    rows = torch.tensor([[0], [1], [2], [10], [11], [12]])
    assert doubled(rows).flatten().tolist() == [0, 10, 1, 11, 2, 12]
    assert torch.equal(halved(doubled(rows)), rows)


# -- the penalty --------------------------------------------------------------------------------------------------------


def batch_of(graph: Graph, facts: int) -> tuple[Tensor, Tensor, Tensor]:
    """(pairs, question, answers) with dura's ids: each question once, with all its answers among the first facts."""
    rows = torch.as_tensor(graph.train[:facts].copy()).long()
    pairs, question = torch.unique(rows[:, :2], dim=0, return_inverse=True)
    return pairs, question, rows[:, 2]


@needs_pykeen
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("regularizer", ["dura", "dura-i", "dura-ii", "fro"])
@pytest.mark.parametrize("name", BILINEAR)
def test_penalty_and_gradient_are_those_of_dura(name: str, regularizer: str, dtype: torch.dtype) -> None:
    from dura.bridges.penalty import factors_of

    trained = drawn(name)
    theirs, _ = to_pykeen(trained)
    ours, theirs = trained.model.to(dtype).train(), theirs.to(dtype).train()
    pairs, question, answers = batch_of(trained.graph, 300)
    form = REGULARIZERS.build(regularizer, {"weight": 0.3})
    mine = form(ours.factors(pairs[:, 0], pairs[:, 1], question, answers))
    mine.backward()
    doubled_pairs = torch.stack([pairs[:, 0], 2 * pairs[:, 1]], 1)
    other = form(factors_of(theirs, doubled_pairs, question, answers))
    other.backward()
    near = 1e-6 if dtype is torch.float32 else 1e-12
    assert float(other.detach()) == pytest.approx(float(mine.detach()), rel=near)
    gradients = {key: table.gradient() for key, table in ours.named_parameters() if isinstance(table, Table)}
    entities, relations = COPIES[name].tables(gradients)
    relations = [doubled(rows) for rows in relations]
    for tables, own in ((entities, theirs.entity_representations), (relations, theirs.relation_representations)):
        for table, representation in zip(tables, own, strict=True):
            found = representation._embeddings.weight.grad
            wanted = torch.view_as_real(table.resolve_conj()) if table.is_complex() else table
            assert torch.allclose(found, wanted.reshape(found.shape), atol=near, rtol=near)
            assert float(found.abs().max()) > 0


def fitted(name: str, loop: str, callback: Any, **options: Any) -> float:
    """The test MRR after a short training of PyKEEN. Its default start, N(0, 1), would need many more epochs."""
    options |= {"entity_initializer": "xavier_uniform", "relation_initializer": "xavier_uniform"}
    result = pykeen("pipeline").pipeline(
        dataset="kinships", dataset_kwargs={"create_inverse_triples": True}, model=name, model_kwargs=options,
        training_loop=loop, loss="crossentropy" if loop == "lcwa" else None, optimizer="adagrad", optimizer_kwargs={"lr": 0.1},
        training_kwargs={"num_epochs": 15, "batch_size": 200, "use_tqdm": False, "callbacks": callback},
        evaluation_kwargs={"use_tqdm": False}, random_seed=1, device="cpu",
    )  # fmt: skip
    return float(result.get_metric("both.realistic.inverse_harmonic_mean_rank"))


@needs_pykeen
@pytest.mark.timeout(1200)  # two trainings in PyKEEN take minutes on a busy machine
def test_training_in_pykeen_is_better_with_dura() -> None:
    plain = fitted("ComplEx", "lcwa", None, embedding_dim=64, regularizer=None)
    better = fitted("ComplEx", "lcwa", penalty("dura", weight=0.01), embedding_dim=64)
    assert better > plain + 0.02


@needs_pykeen
@pytest.mark.parametrize("name", ["ComplEx", "RESCAL", "CP", "DistMult"])
@pytest.mark.parametrize("loop", ["lcwa", "slcwa"])
def test_the_callback_takes_part_in_every_step(name: str, loop: str) -> None:
    data = pykeen("datasets").Nations(create_inverse_triples=True)
    callback = penalty("dura", weight=1e6)
    model = getattr(pykeen("models"), name)(triples_factory=data.training, embedding_dim=4, random_seed=0)
    trainer = pykeen("training").training_loop_resolver.make(
        loop, model=model, triples_factory=data.training, optimizer="sgd", optimizer_kwargs={"lr": 0.0}
    )
    trainer.train(data.training, num_epochs=1, batch_size=64, use_tqdm=False, callbacks=callback)
    assert callback.last > 1.0
    assert all(r.regularizer is None for r in (*model.entity_representations, *model.relation_representations))


@needs_pykeen
def test_other_models_and_regularizers_are_refused_before_the_first_step() -> None:
    data = pykeen("datasets").Nations(create_inverse_triples=True)
    for theirs, regularizer, why in (
        ("TransE", "dura", "ComplEx, RESCAL, CP, DistMult, not to TransE"),
        ("RESCAL", "n3", "element by element"),
        ("ComplEx", "dura1", "needs facts with times"),
    ):
        model = getattr(pykeen("models"), theirs)(triples_factory=data.training, embedding_dim=4, random_seed=0)
        trainer = pykeen("training").LCWATrainingLoop(
            model=model, triples_factory=data.training, optimizer="sgd", optimizer_kwargs={"lr": 0.0}
        )
        with pytest.raises(BadInput, match=why):
            trainer.train(data.training, num_epochs=1, use_tqdm=False, callbacks=penalty(regularizer))


def test_a_missing_pykeen_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    with pytest.raises(DuraError, match="pip install pykeen"):
        to_pykeen(drawn("complex"))
