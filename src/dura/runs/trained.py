"""Trained: a trained model with its graph, which can be evaluated, asked, saved and opened again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dura.config import Experiment
from dura.data.graph import Graph
from dura.records import RunFolder
from dura.runs.exploring import Exploring
from dura.runs.store import check_checkpoints, read_graph, read_settings
from dura.text import shown
from dura.types import BadInput, DuraError, Filter, Side, Split

if TYPE_CHECKING:
    from dura.data.readers import ReadOptions
    from dura.evaluation import Group, Result
    from dura.inference import Answers, Asker, Explanation, Question, TimeAnswers, Wanted
    from dura.inference.answers import Wish
    from dura.inference.explain import Explainer
    from dura.inference.found import Found
    from dura.inference.nearest import Nearest
    from dura.inference.neighbours import Neighbours
    from dura.inference.scored import Fact, ScoredFact
    from dura.models import Model
    from dura.runs.calibrations import Calibrated
    from dura.runs.files import Tally
    from dura.runs.indexing import Indexed
    from dura.runs.mapping import Map, Method
    from dura.runs.vectors import Form
    from dura.tables.packed import NumberType

QuestionTuple = tuple[str | None, str, str | None] | tuple[str | None, str, str | None, str | None]
"""A question as (head, relation, tail) with None for the hole, or (head, relation, tail, time); the time "?" asks when."""


class Trained(Exploring):
    """What `dura.fit` and `dura.open` return.

    >>> import dura
    >>> model = dura.fit(dura.load("nations"), model="complex", rank=20, epochs=5)  # doctest: +SKIP
    >>> model.evaluate().mrr, model.predict(head="usa", relation="embassy", k=3)  # doctest: +SKIP
    """

    def __init__(self, model: Model, graph: Graph, experiment: Experiment, path: Path | None = None) -> None:
        self.model, self.graph, self.experiment, self.path = model.eval(), graph, experiment, path
        from dura.training.checkpoint import Checkpoints

        # Which tables these are: another process may replace them in the folder.
        self.checkpoint = "" if path is None else Checkpoints(path / "checkpoints").digest()

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

    def calibrate(
        self, *, figure: str | Path | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Calibrated:
        """Fit probabilities on valid facts and measure them on test facts. From then on answers have probabilities.

        They are kept in the run folder, if there is one. `figure` is a file for the reliability diagram (.png, .svg or .pdf).
        """
        from dura.runs.calibrations import calibrate

        return calibrate(self, figure=figure, progress=progress)

    def ask(
        self, questions: Sequence[Question | QuestionTuple], k: int = 10, **wish: Unpack[Wish]
    ) -> list[Answers | TimeAnswers]:
        """The answers to questions for entities and for times, in the order of the questions.

        A question is (head, relation, tail) with None for the hole, or (head, relation, tail, time); the time "?" asks when the
        fact holds. A part may be a name or a label. `wish` says which answers are wanted. Known answers are left out unless `known`
        is true. Answers may be restricted to entities `among` a list, to entities of a `type` (or of one of several), to those
        that training facts have with the relation on this side (`in_range`), to those with a probability of at least
        `min_probability`, and to the set that holds a missing answer with the probability `coverage` (the `k` best of it). With
        `approximate`, the run's index finds the answers (see `index`): faster for large graphs, but one may be missed. `predict`,
        `predict_many`, `when`, `dura predict` and the service all ask in this way.

        >>> model.ask([("Ann", "visits", None, "2014-05-06"), ("Ann", "visits", "Bob", "?")], k=3)  # doctest: +SKIP
        """
        return self.ask_wanted(questions, _wanted(k, wish))

    def ask_wanted(self, questions: Sequence[Question | QuestionTuple], wanted: Wanted) -> list[Answers | TimeAnswers]:
        """As `ask`, with the whole wish as one value."""
        from dura.inference.answers import as_question

        return self.asker(wanted).ask([as_question(question) for question in questions])

    def ask_each(
        self, questions: Sequence[Question | QuestionTuple], wanted: Wanted, *, explain: bool = False
    ) -> list[Answers | TimeAnswers | BadInput]:
        """As `ask_wanted`, but a bad question does not stop the others: its place holds what is wrong with it.

        With `explain` each entity comes with the reasons for it.
        """
        from dura.inference import Answers
        from dura.inference.answers import as_question
        from dura.inference.asking import each

        found = each(self.asker(wanted), [as_question(question) for question in questions])
        return [self.explained(one) if explain and isinstance(one, Answers) else one for one in found]

    def asker(self, wanted: Wanted) -> Asker:
        """What answers many questions with one wish."""
        from dura.inference.predict import Asker

        index = self._index if wanted.approximate else None
        return Asker(self.model, self.graph, wanted, self.calibration, index, self.path)

    def predict(
        self,
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        time: str | None = None,
        k: int = 10,
        **wish: Unpack[Wish],
    ) -> Answers:
        """The `k` best answers to (head, relation, ?) or (?, relation, tail); known answers only with `known=True`.

        If facts have times, the question is asked at `time`. None is the time of facts without a time, if there are any. `ask` says
        how answers are restricted.
        """
        return self._entities([(head, relation, tail, time)], _wanted(k, wish))[0]

    def predict_many(self, questions: Sequence[QuestionTuple], k: int = 10, **wish: Unpack[Wish]) -> list[Answers]:
        """The answers to many questions for entities: (head, relation, tail) with one None, or (head, relation, tail, time)."""
        return self._entities(questions, _wanted(k, wish))

    def _entities(self, questions: Sequence[QuestionTuple], wanted: Wanted) -> list[Answers]:
        from dura.inference import Answers

        found = [answers for answers in self.ask_wanted(questions, wanted) if isinstance(answers, Answers)]
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

    def predict_file(
        self,
        source: str | Path,
        output: str | Path,
        k: int = 10,
        *,
        explain: bool = False,
        notify: Callable[[str], None] | None = None,
        progress: Callable[[int], None] | None = None,
        **wish: Unpack[Wish],
    ) -> Tally:
        """Answer the questions of a file of any length, and write the answers as .csv, .tsv, .parquet or .jsonl.

        A bad question does not stop the others: `notify` is called with a sentence for it. `progress` is called with the number of
        lines so far. Returns how many lines were answered and how many were bad.
        """
        from dura.runs.files import answers

        wanted, path = _wanted(k, wish), Path(output)
        return answers(self, source, wanted, explain=explain, output=path, notify=notify, progress=progress).write(path)

    def score(self, facts: Iterable[Fact]) -> list[float]:
        """The score of each fact (head, relation, tail), or (head, relation, tail, time); higher is more plausible."""
        return [fact.score for fact in self.scored(facts)]

    def scored(self, facts: Iterable[Fact]) -> list[ScoredFact]:
        """Facts by names, each with its `score` and whether it is `known`."""
        from dura.inference.scored import fact_ids, scored

        return scored(self.model, self.graph, fact_ids(self.graph, facts), self.calibration)

    def scored_each(self, facts: Iterable[Fact]) -> list[ScoredFact | BadInput]:
        """As `scored`, but a bad fact does not stop the others: its place holds what is wrong with it."""
        from dura.inference.scored import scored_each

        return scored_each(self.model, self.graph, facts, self.calibration)

    def explain(
        self, head: str, relation: str, tail: str, time: str | None = None, *, side: Side = "tail", k: int = 5
    ) -> Explanation:
        """Why the model gives `tail` as an answer to (head, relation, ?), or with side="head" `head` to (?, relation, tail)."""
        return self._explainer.explain(head, relation, tail, time, side=side, k=k)

    def explained(self, answers: Answers, k: int = 3) -> Answers:
        """The same answers, each with its `explanation`: at most `k` facts, entities and rules of each kind."""
        return self._explainer.explained(answers, k)

    @cached_property  # it learns the rules of each relation only once
    def _explainer(self) -> Explainer:
        from dura.inference.explain import Explainer

        return Explainer(self.model, self.graph)

    def score_file(
        self,
        source: str | Path,
        output: str | Path,
        *,
        notify: Callable[[str], None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Tally:
        """Score the facts of a file of any length; see `predict_file`."""
        from dura.runs.files import scores

        path = Path(output)
        return scores(self, source, output=path, notify=notify, progress=progress).write(path)

    def neighbours(
        self, entity: str, k: int = 10, *, relation: str | None = None, time: str | None = None
    ) -> Neighbours:
        """The `k` entities whose rows are nearest to that of `entity`, by cosine.

        With a `relation`, the queries (entity, relation, ?) are compared instead of the rows, at `time` if facts have times.
        """
        from dura.inference.neighbours import neighbours

        return neighbours(self.model, self.graph, entity, k, relation=relation, time=time)

    def discover(self, relations: str | Sequence[str] = (), **search: Any) -> Found:
        """The most probable missing facts of the whole graph; `dura.runs.discovering.discover` has the options of `search`."""
        from dura.runs.discovering import discover

        return discover(self, relations, **search)

    def audit(self, **plan: Any) -> Found:
        """The least plausible training facts, each judged by a model that has not seen it; `dura.runs.audit.audit` has `plan`."""
        from dura.runs.audit import audit

        return audit(self, **plan)

    def save(self, path: str | Path) -> Path:
        """Write a run folder with settings, graph and tables; `dura.open` reads it."""
        return self.export(path)

    def export(
        self,
        path: str | Path,
        *,
        sparse: float | None = None,
        dtype: NumberType = "float32",
        format: Form | None = None,  # noqa: A002
        binary: bool = False,
    ) -> Path:
        """Write a run folder with small tables, or with `format` the tables and their names for other programs.

        `sparse` is the share of the entities' entries to make zero. `dtype` is "float32", "float16" or "int8". `dura.open` reads
        the folder; the model it returns evaluates and predicts with the small tables as they are. `format` is "numpy", "parquet",
        "word2vec" (`binary` or as text) or "safetensors"; the tables are then written as they are.

        >>> model.export("runs/small", sparse=0.7, dtype="int8")  # doctest: +SKIP
        >>> model.export("vectors", format="parquet")  # doctest: +SKIP
        """
        from dura import world
        from dura.runs.export import export

        world.alone("save and export")
        if format is not None:
            from dura.runs.vectors import export_vectors

            if sparse is not None or dtype != "float32":
                raise BadInput("a format for other programs holds the tables as they are: leave sparse and dtype out")
            export_vectors(self, Path(path), format, binary=binary)
            return Path(path)
        kept = export(self.model, self.graph, self.experiment, path, source=self.path, sparse=sparse, dtype=dtype)
        return kept.path

    def fold_in(
        self,
        facts: str | Path | Iterable[Any],
        out: str | Path | None = None,
        *,
        options: ReadOptions | None = None,
        progress: Callable[[int, int], None] | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Trained:
        """The model with rows for the entities of these facts that it does not know; everything else stays as it is.

        `facts` are (head, relation, tail), a data frame or a file; `options` say how a file is read. With `out` the new run is
        written into a folder. `notify` is called with a sentence for each thing worth knowing.

        >>> grown = model.fold_in([("Potsdam", "located_in", "Germany")])  # doctest: +SKIP
        """
        from dura.runs.folding import fold_in

        folder = None if out is None else Path(out)
        return fold_in(self, facts, folder, options=options, progress=progress, notify=notify)[0]

    def index(self, *, links: int = 16, recall: float = 0.95) -> Indexed:
        """Build an index of the entities in the run folder, for `approximate` answers. Returns how good and how fast it is.

        >>> model.index().recall, model.predict(head="a", relation="likes", approximate=True)  # doctest: +SKIP
        """
        from dura.runs.indexing import build_index

        vars(self).pop("_index", None)
        return build_index(self, links=links, wanted=recall)

    @cached_property
    def _index(self) -> Nearest:
        from dura.runs.indexing import open_index

        return open_index(self)

    def map(self, *, method: Method = "tsne", **plan: Any) -> Map:
        """Give every entity a place in the plane, near to similar ones. The places are kept in the run folder, if there is one.

        `method` is "tsne" (the extra `map`) or "pca". `plan` may hold `perplexity`, `seed` and `progress`, which is called with the
        number of iterations so far and in all.

        >>> found = model.map(method="pca")  # doctest: +SKIP
        >>> found.entities, found.x, found.y  # doctest: +SKIP
        """
        from dura.runs.mapping import make_map

        return make_map(self, method=method, **plan)


def _wanted(k: int, wish: Wish) -> Wanted:
    from dura.inference.answers import wanted_of

    return wanted_of(k, wish)


def open_run(path: str | Path, device: str = "cpu", *, shared: bool = False) -> Trained:
    """Open a run folder with its best tables by validation. If it was never validated, these are the newest tables.

    If it is `shared`, several processes that open it keep the tables in memory only once.
    """
    if not isinstance(path, str | PathLike):
        raise BadInput(f"open takes the path of a run folder, such as 'runs/mine', not {shown(path)}")
    from dura.runs.build import open_model
    from dura.runs.export import open_exported
    from dura.training.checkpoint import Checkpoints

    folder = RunFolder.open(Path(path))
    if folder.combined:
        from dura.runs.combining import open_combined

        return open_combined(folder, device)
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
    model = open_model(experiment, graph.sizes, state, device, shared=shared)
    return Trained(model, graph, experiment, folder.path)
