"""Trained: a trained model with its graph: evaluate it, ask it, save it, open it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dura.config import Experiment
from dura.data.graph import Graph
from dura.experiments.store import load_tables, read_graph, read_settings, write_graph
from dura.records import RunFolder
from dura.types import BadInput, Split

if TYPE_CHECKING:
    from dura.evaluation import Group, Result
    from dura.inference import Answers
    from dura.models import Model


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
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Filtered ranking of both sides over a split; `by` adds figures by side, relation or relation category.

        `progress` is called with the number of questions ranked and the number in all.
        """
        from dura.evaluation import evaluate

        return evaluate(self.model, self.graph, split, by, progress=progress)

    def predict(
        self,
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        k: int = 10,
        known: bool = False,
    ) -> Answers:
        """The `k` best answers to (head, relation, ?) or (?, relation, tail); known facts only with `known=True`."""
        return self.predict_many([(head, relation, tail)], k, known=known)[0]

    def predict_many(
        self, questions: Sequence[tuple[str | None, str, str | None]], k: int = 10, *, known: bool = False
    ) -> list[Answers]:
        """The answers to many questions, each (head, relation, tail) with None in one place."""
        from dura.inference import Question, predict

        asked = [Question(head, relation, tail) for head, relation, tail in questions]
        return predict(self.model, self.graph, asked, k, known=known)

    def score(self, facts: Iterable[tuple[str, str, str]]) -> list[float]:
        """The score of each fact (head, relation, tail); higher is more plausible."""
        import torch

        ids = [
            (
                self.graph.entities.id(h, "entity"),
                self.graph.relations.id(r, "relation"),
                self.graph.entities.id(t, "entity"),
            )
            for h, r, t in facts
        ]
        columns = torch.tensor(ids, dtype=torch.long, device=self.model.tail_table.device).reshape(-1, 3).unbind(1)
        with torch.no_grad():
            scores: list[float] = self.model.score(*columns).tolist()
        return scores

    def save(self, path: str | Path) -> Path:
        """Write a run folder with settings, graph and tables; `dura.open` reads it."""
        from dura.training.checkpoint import Checkpoints

        folder = RunFolder.create(Path(path))
        folder.write_settings(self.experiment.to_toml())
        write_graph(folder, self.graph)
        tables = {name: table.detach().cpu() for name, table in self.model.named_parameters()}
        Checkpoints(folder.path / "checkpoints").save_best(0, tables, {})
        return folder.path


def open_run(path: str | Path, device: str = "cpu") -> Trained:
    """Open a run folder: its best tables by validation, the newest ones where there was none."""
    from dura.experiments.parts import build_model
    from dura.training.checkpoint import Checkpoints

    folder = RunFolder.open(Path(path))
    experiment, graph = read_settings(folder), read_graph(folder)
    model = build_model(experiment, graph.sizes, device)
    checkpoints = Checkpoints(folder.path / "checkpoints")
    best = checkpoints.best()
    if best is not None:
        load_tables(model, best[0])
        return Trained(model, graph, experiment, folder.path)
    newest = checkpoints.newest()
    if newest is None:
        raise BadInput(f"the run {path} holds no checkpoint yet; continue it with: dura train --resume {path}")
    load_tables(model, {name.removeprefix("model."): table for name, table in newest[0].items()})
    return Trained(model, graph, experiment, folder.path)
