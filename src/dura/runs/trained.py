"""Trained: a trained model with its graph: evaluate it, ask it, save it, open it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dura.config import Experiment
from dura.data.graph import Graph
from dura.records import RunFolder
from dura.runs.store import check_checkpoints, load_tables, read_graph, read_settings
from dura.types import BadInput, Filter, Split

if TYPE_CHECKING:
    from dura.evaluation import Group, Result
    from dura.inference import Answers, TimeAnswers
    from dura.models import Model
    from dura.tables.packed import NumberType

Asked = tuple[str | None, str, str | None] | tuple[str | None, str, str | None, str | None]
"""A question: head, relation and tail, None where the hole is, and where facts have times the time at which it is asked."""
Fact = tuple[str, str, str] | tuple[str, str, str, str | None]
"""Head, relation and tail, and where facts have times the time."""


class Trained:
    """What `dura.fit` and `dura.open` return.

    >>> import dura
    >>> model = dura.fit(dura.load("nations"), model="complex", rank=20, epochs=5)  # doctest: +SKIP
    >>> model.evaluate().mrr, model.predict(head="usa", relation="embassy", k=3)  # doctest: +SKIP
    """

    def __init__(self, model: Model, graph: Graph, experiment: Experiment, path: Path | None = None) -> None:
        self.model, self.graph, self.experiment, self.path = model, graph, experiment, path

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
        """Filtered ranking of both sides over a split; `by` adds figures by side, relation or relation category.

        Where facts have times, `filter="static"` leaves out what is known at any time instead of at the fact's own.
        `progress` is called with the number of questions ranked and the number in all.
        """
        from dura.evaluation import evaluate

        return evaluate(self.model, self.graph, split, by, filter=filter, progress=progress)

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
        """The `k` best answers to (head, relation, ?) or (?, relation, tail); known facts only with `known=True`.

        Where facts have times, the question is asked at `time`; without one at that of facts without a time, if there are any.
        """
        return self.predict_many([(head, relation, tail, time)], k, known=known)[0]

    def predict_many(self, questions: Sequence[Asked], k: int = 10, *, known: bool = False) -> list[Answers]:
        """The answers to many questions, each (head, relation, tail) with None in one place, or with a time behind them."""
        from dura.inference import Question, predict

        return predict(self.model, self.graph, [Question(*asked) for asked in questions], k, known=known)

    def when(self, *, head: str, relation: str, tail: str, k: int = 10, known: bool = False) -> TimeAnswers:
        """The `k` best times of the fact (head, relation, tail); those at which it is known only with `known=True`.

        >>> model.when(head="Ann", relation="visits", tail="Bob", k=3)  # doctest: +SKIP
        """
        from dura.inference import Question, when

        return when(self.model, self.graph, [Question(head, relation, tail, "?")], k, known=known)[0]

    def score(self, facts: Iterable[Fact]) -> list[float]:
        """The score of each fact (head, relation, tail), with its time behind where facts have one; higher is more plausible."""
        import torch

        from dura.inference import score_facts

        ids = torch.tensor([self._ids(*fact) for fact in facts], dtype=torch.long).reshape(-1, 4)
        columns = ids[:, : 3 if self.graph.times is None else 4].unbind(1)
        scores: list[float] = score_facts(self.model, *columns).tolist()
        return scores

    def _ids(self, head: str, relation: str, tail: str, time: str | None = None) -> tuple[int, int, int, int]:
        """The ids of a fact; that of its time is 0 where the graph has none."""
        from dura.inference import time_id

        entities, relations = self.graph.entities, self.graph.relations
        pair = entities.id(head, "entity"), relations.id(relation, "relation")
        return *pair, entities.id(tail, "entity"), time_id(self.graph, time)

    def save(self, path: str | Path) -> Path:
        """Write a run folder with settings, graph and tables; `dura.open` reads it."""
        return self.export(path)

    def export(self, path: str | Path, *, sparse: float | None = None, dtype: NumberType = "float32") -> Path:
        """The same with small tables: the share `sparse` of the entities' entries zero, or numbers of a small type, or both.

        `dura.open` reads it, and what it opens evaluates and predicts with the small tables as they are. `dtype` is "float32",
        "float16" or "int8".

        >>> model.export("runs/small", sparse=0.7, dtype="int8")  # doctest: +SKIP
        """
        from dura.runs.export import export

        return export(self, path, sparse=sparse, dtype=dtype).path


def open_run(path: str | Path, device: str = "cpu") -> Trained:
    """Open a run folder: its best tables by validation, the newest ones where there was none."""
    from dura.runs.build import build_model
    from dura.runs.export import open_exported
    from dura.training.checkpoint import Checkpoints

    folder = RunFolder.open(Path(path))
    experiment, graph = read_settings(folder), read_graph(folder)
    check_checkpoints(folder, experiment, graph.sizes)
    checkpoints = Checkpoints(folder.path / "checkpoints")
    best = checkpoints.best()
    if best is not None and (packed := best[1].get("packed")):
        return Trained(open_exported(experiment, graph.sizes, best[0], packed, device), graph, experiment, folder.path)
    model = build_model(experiment, graph.sizes, device)
    if best is not None:
        load_tables(model, best[0])
        return Trained(model, graph, experiment, folder.path)
    newest = checkpoints.newest()
    if newest is None:
        raise BadInput(f"the run {path} holds no checkpoint yet; continue it with: dura train --resume {path}")
    load_tables(model, {name.removeprefix("model."): table for name, table in newest[0].items()})
    return Trained(model, graph, experiment, folder.path)
