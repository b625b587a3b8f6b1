"""Answering: what a trained model says about facts: answers, scores, reasons, neighbours, missing facts and doubtful ones.

`Trained` has these methods. The commands, the service and the MCP server call them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, overload

from dura.runs.exploring import Exploring
from dura.types import BadInput, Side

if TYPE_CHECKING:
    from dura.data.readers import ColumnChoice
    from dura.inference import Answers, Asker, Explanation, Question, TimeAnswers, Wanted
    from dura.inference.answers import Wish
    from dura.inference.explain import Explainer
    from dura.inference.found import Found
    from dura.inference.nearest import Nearest
    from dura.inference.neighbours import Neighbours
    from dura.inference.scored import Fact, ScoredFact
    from dura.runs.files import Tally

QuestionTuple = tuple[str | None, str, str | None] | tuple[str | None, str, str | None, str | None]
"""A question as (head, relation, tail) with None for the hole, or (head, relation, tail, time); the time "?" asks when."""


class Answering(Exploring):
    """The part of `Trained` that answers."""

    def ask(
        self, questions: Sequence[Question | QuestionTuple], k: int = 10, *, explain: bool = False, **wish: Unpack[Wish]
    ) -> list[Answers | TimeAnswers]:
        """The answers to questions for entities and for times, in the order of the questions.

        A question is (head, relation, tail) with None for the hole, or (head, relation, tail, time); the time "?" asks when the
        fact holds. A part may be a name or a label. `wish` says which answers are wanted. Known answers are left out unless `known`
        is true. Answers may be restricted to entities `among` a list, to entities of a `type` (or of one of several), to those that
        training facts have with the relation on this side (`in_range`), to those with a probability of at least `min_probability`,
        and to the set that holds a missing answer with the probability `coverage` (the `k` best of it). With `approximate`, the
        run's index finds the answers (see `index`): faster for large graphs, but one may be missed. With `explain` each entity
        comes with the reasons for it. `predict`, `predict_many`, `when`, `dura predict` and the service all ask in this way.

        >>> model.ask([("Ann", "visits", None, "2014-05-06"), ("Ann", "visits", "Bob", "?")], k=3)  # doctest: +SKIP
        """
        found = self.ask_wanted(questions, _wanted(k, wish))
        return [self._with_reasons(one) for one in found] if explain else found

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
        from dura.inference.answers import as_question
        from dura.inference.asking import each

        found = each(self.asker(wanted), [as_question(question) for question in questions])
        return [one if isinstance(one, BadInput) or not explain else self._with_reasons(one) for one in found]

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
        explain: bool = False,
        **wish: Unpack[Wish],
    ) -> Answers:
        """The `k` best answers to (head, relation, ?) or (?, relation, tail); known answers only with `known=True`.

        If facts have times, the question is asked at `time`. None is the time of facts without a time, if there are any. With
        `explain` each answer has its `explanation`. `ask` says how answers are restricted.
        """
        return self.predict_many([(head, relation, tail, time)], k, explain=explain, **wish)[0]

    def predict_many(
        self, questions: Sequence[QuestionTuple], k: int = 10, *, explain: bool = False, **wish: Unpack[Wish]
    ) -> list[Answers]:
        """The answers to many questions for entities: (head, relation, tail) with one None, or (head, relation, tail, time)."""
        from dura.inference import Answers

        asked = self.ask_wanted(questions, _wanted(k, wish))
        found = [answers for answers in asked if isinstance(answers, Answers)]
        if len(found) < len(questions):
            raise BadInput("a question with the time ? asks for a time; `when` and `ask` answer it, `predict` does not")
        return [self.explained(answers) for answers in found] if explain else found

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

    @overload
    def score(self, facts: Iterable[Fact], *, details: Literal[False] = False) -> list[float]: ...

    @overload
    def score(self, facts: Iterable[Fact], *, details: Literal[True]) -> list[ScoredFact]: ...

    def score(self, facts: Iterable[Fact], *, details: bool = False) -> list[float] | list[ScoredFact]:
        """The score of each fact (head, relation, tail), or (head, relation, tail, time); higher is more plausible.

        With `details` all that `dura score` says about each fact, as `scored` does.

        >>> model.score([("Berlin", "located_in", "Italy")], details=True)[0].contradicts  # doctest: +SKIP
        """
        found = self.scored(facts)
        return found if details else [fact.score for fact in found]

    def scored(self, facts: Iterable[Fact]) -> list[ScoredFact]:
        """Facts by names with what `dura score` says: `score`, `known`, `rejected`, `probability` and `contradicts`."""
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

    def _with_reasons(self, found: Answers | TimeAnswers) -> Answers | TimeAnswers:
        """Entities with reasons; times have none."""
        from dura.inference import Answers

        return self.explained(found) if isinstance(found, Answers) else found

    @cached_property  # it learns the rules of each relation only once
    def _explainer(self) -> Explainer:
        from dura.inference.explain import Explainer

        return Explainer(self.model, self.graph)

    def score_file(
        self,
        source: str | Path,
        output: str | Path,
        *,
        columns: ColumnChoice | None = None,
        separator: str | None = None,
        format: str = "",  # noqa: A002
        notify: Callable[[str], None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Tally:
        """Score the facts of a file of any length; see `predict_file`.

        `columns` are those of head, relation, tail and time: positions from 0 or titles. `separator` is what separates fields, such
        as ";" or "tab". `format` is the format of the file if its name does not say, such as "csv".
        """
        from dura.runs.files import fact_options, scores

        path, options = Path(output), fact_options(columns, separator, format)
        return scores(self, source, options, output=path, notify=notify, progress=progress).write(path)

    def neighbours(
        self, entity: str, k: int = 10, *, relation: str | None = None, time: str | None = None
    ) -> Neighbours:
        """The `k` entities whose rows are nearest to that of `entity`, by cosine.

        With a `relation`, the queries (entity, relation, ?) are compared instead of the rows, at `time` if facts have times.
        """
        from dura.inference.neighbours import neighbours

        return neighbours(self.model, self.graph, entity, k, relation=relation, time=time)

    def discover(
        self,
        relations: str | Sequence[str] = (),
        *,
        top: int = 1000,
        time: str | None = None,
        in_range: bool = True,
        loops: bool = False,
        type: str | Sequence[str] = (),  # noqa: A002
        min_probability: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Found:
        """The `top` most probable missing facts of the whole graph, or of some relations, best first.

        If facts have times, the facts hold at `time`, by default the last one. `in_range` leaves out heads and tails that are
        unlike those of the relation. `loops` allows facts whose head is their tail. `type` and `min_probability` restrict the
        facts. `progress` is called with the number of questions so far and the number of all.

        >>> model.discover("located_in", top=10)  # doctest: +SKIP
        """
        from dura.runs.discovering import discover

        return discover(
            self,
            relations,
            top=top,
            time=time,
            in_range=in_range,
            loops=loops,
            type=type,
            min_probability=min_probability,
            progress=progress,
        )

    def audit(
        self,
        *,
        folds: int = 5,
        top: int = 100,
        epochs: int | None = None,
        seed: int = 0,
        pairs: bool = False,
        jobs: int = 1,
        folder: str | Path | None = None,
        progress: Callable[[int, int], None] | None = None,
        stopped: Callable[[], bool] | None = None,
    ) -> Found:
        """The `top` least plausible training facts, each judged by a model that has not seen it, most doubtful first.

        The facts are dealt into `folds` by `seed`, with `pairs` all facts between two entities into the same one. For each fold a
        model is trained for `epochs` on the others, `jobs` at a time. The work is kept in `folder`. `progress` is called with the
        number of folds that are done and of all; the work ends soon after `stopped` returns True.
        """
        from dura.runs.audit import audit

        return audit(
            self,
            folds=folds,
            top=top,
            epochs=epochs,
            seed=seed,
            pairs=pairs,
            jobs=jobs,
            folder=folder,
            progress=progress,
            stopped=stopped,
        )

    @cached_property
    def _index(self) -> Nearest:
        from dura.runs.indexing import open_index

        return open_index(self)


def _wanted(k: int, wish: Wish) -> Wanted:
    from dura.inference.answers import wanted_of

    return wanted_of(k, wish)
