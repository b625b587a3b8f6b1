"""Trained: a trained model with its graph, which can be evaluated, asked, saved and opened again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dura.config import Experiment
from dura.data.graph import Graph
from dura.records import RunFolder
from dura.runs.store import check_checkpoints, read_graph, read_settings
from dura.text import shown
from dura.types import BadInput, DuraError, Filter, Split, __version__

if TYPE_CHECKING:
    from dura.evaluation import Group, Result
    from dura.inference import Answers, Question, TimeAnswers
    from dura.models import Model
    from dura.tables.packed import NumberType

QuestionTuple = tuple[str | None, str, str | None] | tuple[str | None, str, str | None, str | None]
"""A question as (head, relation, tail) with None for the hole, or (head, relation, tail, time); the time "?" asks when."""
Fact = tuple[str, str, str] | tuple[str, str, str, str | None]
"""A fact as (head, relation, tail), or (head, relation, tail, time) if facts have times."""


class Trained:
    """What `dura.fit` and `dura.open` return.

    >>> import dura
    >>> model = dura.fit(dura.load("nations"), model="complex", rank=20, epochs=5)  # doctest: +SKIP
    >>> model.evaluate().mrr, model.predict(head="usa", relation="embassy", k=3)  # doctest: +SKIP
    """

    def __init__(self, model: Model, graph: Graph, experiment: Experiment, path: Path | None = None) -> None:
        self.model, self.graph, self.experiment, self.path = model.eval(), graph, experiment, path

    def __repr__(self) -> str:
        e = self.experiment
        return f"Trained({e.model.name} of rank {self.model.rank} with {e.regularizer.name} on {self.graph!r})"

    def evaluate(
        self,
        split: Split = "test",
        by: Group | Sequence[Group] | None = None,
        *,
        filter: Filter = "time-aware",  # noqa: A002
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Filtered ranking of both sides over a split; `by` adds metrics by side, relation or relation category.

        If facts have times, `filter="static"` leaves out what is known at any time instead of at the fact's own time.
        `progress` is called with the number of questions ranked so far and the number of all questions.
        """
        from dura.evaluation import evaluate

        return evaluate(self.model, self.graph, split, by, filter=filter, progress=progress)

    def ask(
        self, questions: Sequence[Question | QuestionTuple], k: int = 10, *, known: bool = False
    ) -> list[Answers | TimeAnswers]:
        """The answers to questions for entities and for times, in the order of the questions.

        A question is (head, relation, tail) with None for the hole, or (head, relation, tail, time); the time "?" asks when the
        fact holds. A part may be a name or a label. Known answers are left out unless `known` is true. `predict`,
        `predict_many`, `when`, `dura predict` and the service all ask in this way.

        >>> model.ask([("Ann", "visits", None, "2014-05-06"), ("Ann", "visits", "Bob", "?")], k=3)  # doctest: +SKIP
        """
        from dura.inference.answers import as_question
        from dura.inference.predict import ask

        return ask(self.model, self.graph, [as_question(question) for question in questions], k, known=known)

    def predict(
        self,
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        time: str | None = None,
        k: int = 10,
        known: bool = False,
    ) -> Answers:
        """The `k` best answers to (head, relation, ?) or (?, relation, tail); known answers only with `known=True`.

        If facts have times, the question is asked at `time`. None is the time of facts without a time, if there are any.
        """
        return self.predict_many([(head, relation, tail, time)], k, known=known)[0]

    def predict_many(self, questions: Sequence[QuestionTuple], k: int = 10, *, known: bool = False) -> list[Answers]:
        """The answers to many questions for entities: (head, relation, tail) with one None, or (head, relation, tail, time)."""
        from dura.inference import Answers

        found = [answers for answers in self.ask(questions, k, known=known) if isinstance(answers, Answers)]
        if len(found) < len(questions):
            raise BadInput("a question with the time ? asks for a time; `when` and `ask` answer it, `predict` does not")
        return found

    def when(self, *, head: str, relation: str, tail: str, k: int = 10, known: bool = False) -> TimeAnswers:
        """The `k` best times for the fact (head, relation, tail); times at which it is known only with `known=True`.

        >>> model.when(head="Ann", relation="visits", tail="Bob", k=3)  # doctest: +SKIP
        """
        from dura.inference import TimeAnswers

        (answers,) = self.ask([(head, relation, tail, "?")], k, known=known)
        assert isinstance(answers, TimeAnswers)
        return answers

    def score(self, facts: Iterable[Fact]) -> list[float]:
        """The score of each fact (head, relation, tail), or (head, relation, tail, time); higher is more plausible."""
        import torch

        from dura.inference import score_facts

        ids = torch.tensor([self._ids(*_checked(fact)) for fact in facts], dtype=torch.long).reshape(-1, 4)
        columns = ids[:, : 3 if self.graph.times is None else 4].unbind(1)
        scores: list[float] = score_facts(self.model, *columns).tolist()
        return scores

    def _ids(self, head: str, relation: str, tail: str, time: str | None = None) -> tuple[int, int, int, int]:
        """The ids of a fact; the id of its time is 0 if the graph has no times."""
        from dura.inference import time_id

        graph = self.graph
        return graph.entity(head), graph.relation(relation), graph.entity(tail), time_id(graph, time)

    def save(self, path: str | Path) -> Path:
        """Write a run folder with settings, graph and tables; `dura.open` reads it."""
        return self.export(path)

    def export(self, path: str | Path, *, sparse: float | None = None, dtype: NumberType = "float32") -> Path:
        """Write a run folder with small tables.

        `sparse` is the share of the entities' entries to make zero. `dtype` is "float32", "float16" or "int8". `dura.open` reads
        the folder; the model it returns evaluates and predicts with the small tables as they are.

        >>> model.export("runs/small", sparse=0.7, dtype="int8")  # doctest: +SKIP
        """
        from dura import world
        from dura.runs.export import export

        world.alone("save and export")
        kept = export(self.model, self.graph, self.experiment, path, source=self.path, sparse=sparse, dtype=dtype)
        return kept.path

    def describe(self) -> dict[str, Any]:
        """The model, its graph, and how its tables are stored in memory, as plain values."""
        from dura.tables.packed import Csr, Packed

        model, graph = self.model, self.graph
        packed = [table for table in model.entity_tables.values() if isinstance(table, Packed)]
        size = sum(table.bytes for table in packed) + sum(p.numel() * p.element_size() for p in model.parameters())
        return {
            "dura": __version__,
            "run": self.path.resolve().name if self.path else None,
            "model": self.experiment.model.name,
            "rank": model.rank,
            "regularizer": self.experiment.regularizer.name,
            "graph": {
                "name": graph.name,
                "entities": graph.sizes.entities,
                "relations": graph.sizes.relations,
                "times": list(graph.times.span) if graph.times else None,
                "labels": {"entities": len(graph.labels), "relations": len(graph.relation_labels)},
            },
            "tables": {
                "sparse": any(isinstance(table, Csr) for table in packed),
                "dtype": packed[0].number_type if packed else "float32",
                "bytes": size,
            },
        }


def _checked(fact: object) -> Fact:
    """A fact that a caller gave, or an error if it has another form."""
    if (
        not isinstance(fact, tuple | list)
        or len(fact) not in (3, 4)
        or not all(isinstance(part, str) for part in fact[:3])
        or not isinstance(fact[-1], str | None)
    ):
        raise BadInput(f"a fact is (head, relation, tail) or (head, relation, tail, time) as text, not {shown(fact)}")
    return cast(Fact, tuple(fact))


def open_run(path: str | Path, device: str = "cpu") -> Trained:
    """Open a run folder with its best tables by validation. If it was never validated, these are the newest tables."""
    if not isinstance(path, str | PathLike):
        raise BadInput(f"open takes the path of a run folder, such as 'runs/mine', not {shown(path)}")
    from dura.runs.build import open_model
    from dura.runs.export import open_exported
    from dura.training.checkpoint import Checkpoints

    folder = RunFolder.open(Path(path))
    experiment, graph = read_settings(folder), read_graph(folder)
    check_checkpoints(folder, experiment, graph.sizes)
    checkpoints = Checkpoints(folder.path / "checkpoints")
    best = checkpoints.best()
    if best is not None and (packed := best[1].get("packed")):
        try:
            exported = open_exported(experiment, graph.sizes, best[0], packed, device)
        except BadInput:
            raise
        except DuraError as error:
            raise DuraError(f"{folder.path / 'checkpoints' / 'best.json'}: {error}") from None
        return Trained(exported, graph, experiment, folder.path)
    newest = checkpoints.newest() if best is None else None
    if best is not None:
        state = best[0]
    elif newest is not None:
        state = {key.removeprefix("model."): tensor for key, tensor in newest[0].items() if key.startswith("model.")}
    else:
        raise BadInput(f"the run {path} holds no checkpoint yet; continue it with: dura train --resume {path}")
    model = open_model(experiment, graph.sizes, state, device)
    return Trained(model, graph, experiment, folder.path)
