"""Model: a fact is scored as `compare(query(head, relation[, time]), targets)`. Everything else derives from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from dura.models.comparators import Comparator, Dot
from dura.tables import Packed, Table
from dura.types import BadInput, Factors, IntArray, Sizes, Traits

LARGEST_RANK = 100_000
Ask = Literal["relations", "times"]
"""Which part of a fact is the hole, if it is not an entity."""


class Model(nn.Module, ABC):
    """What training, ranking and prediction ask of a model. Ids are 1-d integer tensors, one per item.

    Relations r + |R| are the reciprocals: (t, r + |R|, ?) asks for the head of (?, r, t).

    A concrete model defines `query`, and either `target_table`, or `targets` and `heads`. Its constructor takes `sizes`, `rank` and
    its other settings. It may choose another `comparator`. It never overrides `compare`: training uses the comparator's own
    gradient.
    """

    comparator: Comparator = Dot()
    temporal: ClassVar[bool] = False
    """True if facts have times. Every question then has one."""
    diagonal: ClassVar[bool] = False
    """True if relations act element by element, so that regularizers such as N3 are defined."""
    adjoint: ClassVar[bool] = False
    """True if the model has `reverse`, so that regularizers such as DURA are defined."""
    apart: ClassVar[bool] = False
    """True if the relation at a time is the product of one row of the relation and one row of the time, and nothing else."""
    holes: tuple[Ask, ...] = ()
    """Which parts of a fact besides entities the model can be asked for, by `between`. A setting may decide."""
    random: ClassVar[bool] = True
    """False if a step draws no random numbers in the model, so that no one has to seed them."""
    grouped_by: ClassVar[tuple[Literal["relation", "time"], ...]] = ()
    """What the targets depend on. Questions are then answered in groups that share it."""
    state_is_all: ClassVar[bool] = False
    """True if the constructor computes nothing that is not in `state`. Opening a run then builds no random tables."""
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Tables of settings that suit this model, for whoever chooses it by name and says nothing else. See `runs/choices.py`."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Names that tables had in older checkpoints, and their names now."""

    def __init__(self, sizes: Sizes, rank: int) -> None:
        super().__init__()
        if not 1 <= rank <= LARGEST_RANK:
            raise BadInput(f"model.rank is {rank}, but an embedding has 1 to {LARGEST_RANK:,} dimensions")
        self.sizes, self.rank = sizes, rank

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("compare", "score", "score_all"):
            if getattr(cls, name) is not getattr(Model, name):
                raise TypeError(
                    f"{cls.__name__} overrides {name}, which training does not call: set `comparator` to a Comparator instead"
                )

    @classmethod
    def traits(cls) -> Traits:
        """What a regularizer must know before it is used with this model."""
        return Traits(temporal=cls.temporal, diagonal=cls.diagonal, adjoint=cls.adjoint, apart=cls.apart)

    # -- what a model is ------------------------------------------------------------------------------------------

    @abstractmethod
    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The queries [b, w] of the questions (head, relation, ?), at these times if facts have times."""

    @property
    def target_table(self) -> Table | Packed | None:
        """The table whose rows are the targets. None if targets are computed, by `targets`."""
        return None

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor | Packed:
        """What queries are compared with: one row per entity in `entities`, or all of them [|E|, w].

        If targets depend on the relation or the time (`grouped_by`), these are given: one for each of the entities, or a single
        id [1] for all of them.
        """
        table = self.target_table
        if table is None:
            raise NotImplementedError(f"{type(self).__name__} defines neither target_table nor targets")
        return table if entities is None else table.read(entities)

    @property
    def target_width(self) -> int:
        """How many numbers a target has; the rank if targets are computed. Needs no values: a model without memory has it too."""
        table = self.target_table
        return self.rank if table is None else int(table.shape[1])

    def heads(self, entities: Tensor) -> Tensor:
        """The rows of these entities as heads; regularizers see them."""
        table = self.target_table
        if table is None:
            raise NotImplementedError(f"{type(self).__name__} does not define heads")
        return table.read(entities)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """The rows of these relations, one tensor per part if they are sums; regularizers see them.

        The default reads the table `relations`, which has one row for each relation and each reciprocal. Without such a table,
        regularizers see no relations.
        """
        table = getattr(self, "relations", None)
        return (table.read(relations),) if isinstance(table, Table) else ()

    def reverse(self, tail: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The query of (?, relation, tail) with the parameters of the relation itself [b, w]; see `adjoint`."""
        raise BadInput(
            f"the regularizer needs reverse queries, and the model {type(self).__name__} has none: use another one"
        )

    def between(
        self, ask: Ask, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None = None
    ) -> tuple[Tensor, Table]:
        """Ask for the relation or the time of facts: queries [b, w] and the table whose rows they meet in an inner product.

        What does not depend on the hole may be left out: only differences between its values count.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be asked for {ask}")

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next((p.device for p in self.parameters()), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers of queries and scores."""
        return next((p.dtype for p in self.parameters()), torch.float32)

    def fetch(self, heads: Sequence[Tensor], answers: Sequence[Tensor]) -> None:
        """Bring rows from other processes before a step: `heads[i]` and `answers[i]` are those that shard i reads."""

    @property
    def timeline(self) -> tuple[Table, int] | None:
        """The table of times that smoothness looks at, and how many reals one of its numbers has. None if there is none."""
        return None

    # -- what happens while it is trained -------------------------------------------------------------------------

    def observe(self, facts: IntArray, times: Sequence[str]) -> None:
        """See the training facts [n, 3 or 4] and the names of the times, once before training begins or continues.

        Most models need neither. What a model computes here and needs for its answers must be in a buffer: an opened run does not
        call this.
        """

    def read_names(self, entities: Iterable[str], relations: Iterable[str]) -> None:
        """See the names of all entities and relations in the order of their ids, at the same time as `observe`.

        Only a model that knows texts by name needs them. What it keeps of them must be in a buffer.
        """

    def lesson(self, epoch: int, times: IntArray | None) -> IntArray | None:
        """Which questions an epoch (counted from 0) asks, as positions in `times`, the time of each question. None means all.

        A model that learns in stages may ask others in each. The trainer calls this before each epoch, and again if a run continues
        in the middle of one, so the answer must follow from the epoch and the state of the model at its beginning.
        """
        return None

    def penalty(self, head: Tensor, relation: Tensor, answers: Tensor, time: Tensor | None) -> Tensor | None:
        """A penalty of the model itself, such as a soft constraint: a mean over the facts of a batch, added to the regularizer's.

        Item i of each argument belongs to fact i.
        """
        return None

    def alternate(self, facts: IntArray, first: bool, ridge: float, newton: int) -> tuple[float, float]:
        """One sweep of alternating least squares over all training facts [n, 3 or 4]. Returns (loss, penalty).

        The trainer calls this once per epoch if `optimizer.name` is "als", whose settings are `ridge` and `newton`. `first` is true
        for the first epoch. The numbers after it must follow from the facts and the state before it.
        """
        raise BadInput(
            f"the model {type(self).__name__!r} cannot be trained by alternating least squares; "
            "use --set optimizer.name=adagrad"
        )

    def constrain(self) -> None:
        """Bring the tables back to where they must be, after each step of the optimizer."""

    # -- what derives from it -------------------------------------------------------------------------------------

    def compare(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The scores [m, n] of queries [m, w] against targets [n, w]."""
        return self.comparator.scores(query, targets, out)

    def score_all(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The scores [b, |E|] of all entities as answers to these questions."""
        query = self.query(head, relation, time)
        if not self.grouped_by:
            return self.compare(query, self.targets())
        ids = {"relation": relation, "time": time}
        keys = torch.stack([ids[name] for name in self.grouped_by if ids[name] is not None])  # type: ignore[misc]
        _, group = torch.unique(keys, dim=1, return_inverse=True)
        scores = query.new_empty(len(query), self.sizes.entities)
        for number in range(int(group.max()) + 1 if len(group) else 0):
            at = (group == number).nonzero().flatten()
            one = at[:1]
            targets = self.targets(None, relation[one], None if time is None else time[one])
            scores[at] = self.compare(query[at], targets)
        return scores

    def score(self, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None = None) -> Tensor:
        """The score of each fact [b]: its place among the scores of all entities."""
        targets = self.targets(tail, relation, time)
        assert isinstance(targets, Tensor)
        return self.comparator.pairs(self.query(head, relation, time), targets)

    def factors(
        self, head: Tensor, relation: Tensor, question: Tensor, answers: Tensor, time: Tensor | None = None
    ) -> Factors:
        """The query and everything that a regularizer may look at.

        Item i of head, relation and time is question i. Fact j answers the question `question[j]` with the entity `answers[j]`.
        """
        h = self.heads(head)

        def at_facts(ids: Tensor | None) -> Tensor | None:
            return None if ids is None else ids[question]

        def tail() -> Tensor:
            rows = self.targets(answers, relation[question], at_facts(time))
            assert isinstance(rows, Tensor)
            return rows

        def relation_and_counts() -> tuple[tuple[Tensor, ...], Tensor]:
            distinct, counts = torch.unique(relation[question], return_counts=True)
            return self.relation_rows(distinct), counts.to(h.dtype)

        return Factors(
            head=h,
            query=self.query(head, relation, time),
            counts=torch.bincount(question, minlength=len(head)).to(h.dtype),
            question=question,
            complex=False,
            read_tail=cache(tail),
            read_reverse=lambda: self.reverse(answers, relation[question], at_facts(time)),
            read_relation=relation_and_counts,
        )

    # -- state and mode -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Parameters and buffers by name: what checkpoints, exports and opened runs hold."""
        return {name: tensor.detach() for name, tensor in self.state_dict().items()}

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """The tables of entities that an export may pack, by name. Empty if the model does not say."""
        return {}

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Evaluation mode without gradients. Enter this before you ask a model for scores."""
        before = self.training
        self.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(before)
