"""The bridge to PyKEEN: `penalty` in its training loop, `to_pykeen` and `from_pykeen` for trained models.

>>> from dura.bridges.pykeen import from_pykeen, penalty, to_pykeen
>>> callback = penalty("dura", weight=0.02)  # doctest: +SKIP
>>> result = pipeline(dataset="kinships", model="ComplEx", training_kwargs={"callbacks": callback})  # doctest: +SKIP
>>> trained = from_pykeen(result.model, result.training)  # doctest: +SKIP
>>> model, factory = to_pykeen(trained)  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dura.bridges.installed import part
from dura.config import Component, Experiment
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.bridges.copies import Copy
    from dura.data.graph import Graph
    from dura.runs.trained import Trained


def penalty(name: str = "dura", *, instead: bool = True, **options: Any) -> Any:
    """A callback for PyKEEN's training loop that adds a regularizer of dura, for ComplEx, RESCAL, CP and DistMult.

    `options` are those of the regularizer, such as weight=0.02. `instead` drops the regularizers of PyKEEN's model.
    """
    from dura.bridges.penalty import build

    return build(name, options, instead)


def to_pykeen(trained: Trained) -> tuple[Any, Any]:
    """PyKEEN's model with the same scores, and the triples factory of the training facts.

    Ask it by `predict_t`, `predict_h` and `predict_hrt` with the ids of the factory. Models whose reciprocals have their own rows
    get a factory with inverse triples.
    """
    from dura.bridges.copies import COPIES, doubled, fill

    name, graph = trained.experiment.model.name, trained.graph
    part("models")
    copy = COPIES.get(name)
    if copy is None:
        raise BadInput(f"the model {name!r} cannot be copied to PyKEEN; these can: {', '.join(_covered())}")
    if copy.differs:
        raise BadInput(f"the scores of {name!r} would not be the same in PyKEEN: {copy.differs}")
    model, options = trained.model, trained.experiment.model.options
    norm = options.get("norm")
    if options.get("comparator", "dot") != "dot" or (norm and norm not in getattr(copy, "norms", (norm,))):
        raise BadInput(
            f"PyKEEN's {copy.theirs} has no {options.get('comparator') or norm!r}; train {name!r} with its default"
        )
    factory = _factory(graph, copy)
    theirs = getattr(part("models"), copy.theirs)(triples_factory=factory, random_seed=0, **copy.options(model))
    entities, relations = copy.tables({key: table.detach().cpu() for key, table in model.state().items()})
    fill(theirs, entities, [doubled(rows) for rows in relations] if copy.reciprocal else relations)
    copy.layers(model, theirs)
    return theirs.eval(), factory


def from_pykeen(model: Any, training: Any, validation: Any = None, testing: Any = None) -> Trained:
    """A model of PyKEEN as a trained model of dura with the same scores; its facts are those of the triples factories.

    A model without inverse relations is asked for heads by rows that give the same scores, where such rows exist.
    """
    import torch

    from dura.bridges.copies import COPIES, halved, read
    from dura.models import MODELS, restore
    from dura.runs.build import complete
    from dura.runs.trained import Trained

    own = {copy.theirs: name for name, copy in COPIES.items()}
    theirs = type(model).__name__
    if theirs not in own or COPIES[own[theirs]].differs:
        why = f": {COPIES[own[theirs]].differs}" if theirs in own else ""
        known = ", ".join(COPIES[name].theirs for name in _covered())
        raise BadInput(f"PyKEEN's model {theirs} cannot be copied to dura{why}; these can: {known}")
    name = own[theirs]
    copy = COPIES[name]
    if why := copy.refused(model):
        raise BadInput(f"this {theirs} of PyKEEN cannot be copied to dura: {why}")
    was = model.training
    model.eval()
    entities, relations = read(model.entity_representations), read(model.relation_representations)
    if copy.reciprocal:
        relations = [halved(rows) for rows in relations] if model.use_inverse_triples else _turned(copy, relations)
    elif model.use_inverse_triples:
        raise BadInput(
            f"this {theirs} of PyKEEN has rows for inverse relations, and dura's has none: create it without inverse triples"
        )
    graph = _graph(training, validation, testing)
    experiment = complete(Experiment(model=Component(name, copy.settings(model)), regularizer=Component("none")))
    made = MODELS.build(name, experiment.model.options, graph.sizes)
    with torch.no_grad():
        state = copy.state(entities, relations, model)
        restore(
            made, {key: rows.detach().to("cpu", made.state()[key].dtype).contiguous() for key, rows in state.items()}
        )
    model.train(was)
    return Trained(made, graph, experiment.with_value("graph.source", graph.name))


def _covered() -> list[str]:
    from dura.bridges.copies import COPIES

    return [name for name, copy in COPIES.items() if not copy.differs]


def _turned(copy: Copy, relations: list[Any]) -> list[Any]:
    """The relations and reciprocals of a model that was trained without inverse relations."""
    import torch

    turned = [copy.turned(rows) for rows in relations]
    if any(rows is None for rows in turned):
        raise BadInput(
            f"this {copy.theirs} of PyKEEN has no inverse relations, by which dura asks for heads: train it on a factory with "
            "create_inverse_triples=True"
        )
    return [torch.cat([rows, other]) for rows, other in zip(relations, turned, strict=True) if other is not None]


def _factory(graph: Graph, copy: Copy) -> Any:
    """The training facts in PyKEEN's form, with dura's ids."""
    import torch

    if graph.times is not None:
        raise BadInput("the facts of this graph have times, which PyKEEN's models do not have")
    return part("triples").TriplesFactory(
        mapped_triples=torch.as_tensor(graph.train.copy()).long(),
        entity_to_id={entity: i for i, entity in enumerate(graph.entities)},
        relation_to_id={relation: i for i, relation in enumerate(graph.relations)},
        num_entities=len(graph.entities),
        num_relations=len(graph.relations),
        create_inverse_triples=copy.reciprocal,
    )


def _graph(training: Any, validation: Any, testing: Any) -> Graph:
    """The facts of triples factories as a graph, with PyKEEN's ids. A factory without labels gets numbers as names."""
    import numpy as np

    from dura.data.graph import Graph
    from dura.data.vocabulary import Vocabulary

    train, valid, test = (
        np.zeros((0, 3), np.int32) if factory is None else factory.mapped_triples.cpu().numpy().astype(np.int32)
        for factory in (training, validation, testing)
    )
    names = [
        [str(labels.get(i, i)) for i in range(count)]
        for labels, count in (
            (getattr(training, "entity_id_to_label", {}), training.num_entities),
            (getattr(training, "relation_id_to_label", {}), training.real_num_relations),
        )
    ]
    return Graph("pykeen", Vocabulary(names[0]), Vocabulary(names[1]), train, valid, test)
