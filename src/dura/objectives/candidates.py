"""Candidates: which entities an answer is compared with in training.

All entities, a corrected sample that the questions of a batch share, or negatives drawn for each fact. Scores, loss and gradients
are computed in blocks, so that nothing of size |batch| × |entities| is kept. To add a kind, write a class and a row in
`CANDIDATES`, or an entry point of the group `dura.candidates` in your own package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from dura.data.questions import Questions
from dura.models import Comparator
from dura.objectives.known import Known
from dura.objectives.losses import Loss, Truth
from dura.tables import Collector, Lowered, Room, Table
from dura.types import BadInput

SCORE_BYTES = 96 << 20
"""How large the buffer of scores may grow. A block shrinks to fit, down to `SMALLEST` questions."""
LARGEST, SMALLEST = 1024, 128
"""Each block reads and writes the whole gradient of the table once. Below 128 questions that takes as long as the products."""
LINE = 16
"""How many numbers a line of the cache has."""
SHAPE = 64
"""Samples whose products are of a lower precision have a multiple of this length."""
NEGATIVE_NUMBERS = 2**20
"""How many numbers the rows of negatives may have at a time, so that they stay near the processor."""
GROUP_STEP = 0x9E3779B97F4A7C15
"""How far apart the seeds of the groups of a step are."""


class TargetRows(Protocol):
    """The targets of some questions: all of them, or the rows of some entities."""

    def every(self) -> Collector:
        """All entities."""

    def some(self, entities: Tensor, questions: Tensor | None = None) -> Collector:
        """The rows of these entities. `questions` says to which question of the batch each belongs, if its row depends on that."""

    def learned(self) -> Table | None:
        """The table whose rows the targets are, if there is one and it learns."""

    def flush(self) -> None:
        """Hand the gradients of `some` rows over now, so that their memory is free again."""


@dataclass(frozen=True)
class Batch:
    """Questions with their queries and targets, and how much each counts."""

    questions: Questions
    query: Tensor
    targets: TargetRows
    share: Tensor
    """What each fact counts in a mean over facts [f]."""
    each: float
    """What each question counts in a mean over questions."""
    seed: int
    """Everything that is drawn follows from it."""
    group: int = 0
    """The number of this group, if the questions of a step are answered in groups."""
    span: tuple[int, int] | None = None
    """The candidates that this process scores, if other processes score the others. Answers then count from `span[0]`."""
    entities: int = 0
    """How many candidates all processes have together; 0 = those that are here."""
    widest: int = 0
    """How many candidates the process with most of them has; 0 = those that are here."""


class Candidates(ABC):
    """Scores candidates, applies the loss and collects the gradients."""

    kind: ClassVar[str]
    """The name by which losses know it: "all", "sample" or "negatives"."""
    spreads: ClassVar[bool] = False
    """True if the candidates may be spread over processes: `Batch.span` is then honoured."""
    product_type: torch.dtype | None = None
    """The type of matrix products if it is not that of the tables (bfloat16 on devices that have it)."""

    def prepare(self, known: Known, frequency: Tensor) -> None:
        """Learn about the training set before the first step: its facts, and how often each entity is an answer."""

    def begin(self, epoch: int, epochs: int) -> None:
        """An epoch begins or continues (counted from 0) of this many. Candidates that change while a model is trained need it."""

    def weights(self, batch: Questions) -> Tensor | None:
        """A factor for the weight of each fact [f]; None if it is 1."""
        return None

    @abstractmethod
    def __call__(self, comparator: Comparator, loss: Loss, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss of a batch and its gradient by the queries. The gradient by the targets is added to them."""


class All(Candidates):
    """All entities. `block` is the number of questions that are scored at once; "auto" chooses it by the number of entities.

    The block changes speed and memory, never the result beyond rounding.
    """

    kind = "all"
    spreads = True

    def __init__(self, block: int | Literal["auto"] = "auto") -> None:
        self.block = 0 if block == "auto" else block  # settings of version 0.1.0 say 0
        if self.block < 0:
            raise BadInput(f"candidates.block is {block}, but it is 'auto' or a number of questions")
        self._room, self._wide = Room(), Room()

    def __call__(self, comparator: Comparator, loss: Loss, batch: Batch) -> tuple[Tensor, Tensor]:
        """One pass over blocks of questions."""
        query, low = batch.query, self.product_type or batch.query.dtype
        every = Lowered(batch.targets.every(), low)
        q, rows = query.to(low), every.rows
        answers, offsets = _ids(batch.questions.answers, query), batch.questions.offsets.tolist()
        gradient, total = torch.empty_like(query), query.new_zeros(())
        size = self.size(len(query), batch.widest or len(rows))
        for a in range(0, len(query), size):
            b = min(a + size, len(query))
            facts = slice(offsets[a], offsets[b])
            row = torch.repeat_interleave(torch.tensor(offsets[a : b + 1], device=query.device).diff())
            part = q[a:b]
            rounded = comparator.scores(part, rows, out=self._room.of((b - a, len(rows)), rows))
            scores = rounded if low == query.dtype else self._wide.of(tuple(rounded.shape), query).copy_(rounded)
            truth = Truth(row, answers[facts], batch.share[facts], batch.each, batch.entities, batch.span is not None)
            value, scale = loss.over_all_(scores, truth, lambda some, part=part: comparator.scores(part[some], rows))  # type: ignore[misc]
            total += value
            slopes = scores if low == query.dtype else rounded.copy_(scores)
            gradient[a:b] = comparator.pull(slopes, query[a:b], every, scale)
        return total, gradient

    def size(self, questions: int, entities: int) -> int:
        """How many of these questions are scored at once."""
        return min(max(1, questions), self.block or max(SMALLEST, min(LARGEST, SCORE_BYTES // (4 * entities))))


class Sample(Candidates):
    """A sample of the entities, for graphs on which scoring every entity is too expensive.

    A batch shares `samples` entities, drawn with replacement: all with the same chance ("uniform"), or by how often they are
    answers ("frequency": (# + 1)^¾). Each stands for 1/(samples · its chance) entities, the importance correction of sampled
    softmax. The answers of a question count exactly and are left out of its sample, so the sum has the right expectation.

    The last `exact` epochs score all entities. Most of what a model learns, it learns from samples at a fraction of the cost; what
    their noise hides comes at the end, best while the learning rate falls. The sample of every epoch before is `growth` times as
    large as that of the epoch before it.
    """

    kind = "sample"
    spreads = True

    def __init__(
        self,
        samples: int = 1000,
        draw: Literal["uniform", "frequency"] = "uniform",
        exact: int = 0,
        growth: float = 1.0,
    ) -> None:
        if samples < 1:
            raise BadInput(f"candidates.samples is {samples}, but at least one entity must be drawn")
        if exact < 0:
            raise BadInput(f"candidates.exact is {exact}, but it is how many epochs at the end score all entities")
        if not 1 <= growth <= 10:
            raise BadInput(f"candidates.growth is {growth:g}, but samples grow by a factor from 1 to 10 per epoch")
        self.samples, self.draw, self.exact, self.growth = samples, draw, exact, growth
        self._now, self._all, self._room = samples, All(), Room()
        self._chance = torch.empty(0, dtype=torch.float64)

    def prepare(self, known: Known, frequency: Tensor) -> None:
        """The chance of each entity to be drawn."""
        likely = frequency.cpu().double()
        likely = torch.ones_like(likely) if self.draw == "uniform" else (likely + 1) ** 0.75
        self._chance = likely / likely.sum()
        self._below = self._chance.cumsum(0)

    def begin(self, epoch: int, epochs: int) -> None:
        """Choose the size of this epoch's sample."""
        self._now = self.size(epoch, epochs, len(self._chance))

    def size(self, epoch: int, epochs: int, entities: int) -> int:
        """How many entities each step of an epoch (counted from 0) draws; 0 means that it scores all.

        >>> [Sample(100, exact=1, growth=2.0).size(epoch, 4, 1000) for epoch in range(4)]
        [100, 200, 400, 0]
        """
        now = round(self.samples * self.growth**epoch)
        outgrown = self.growth > 1 and now >= entities  # no cheaper than all entities, and less exact
        return 0 if epoch >= epochs - self.exact or outgrown else now

    def drawn(self, seed: int) -> tuple[Tensor, Tensor]:
        """The sampled entities, ascending, and the logarithm of how many entities each stands for.

        They follow from the seed alone. Processes that share the entities all draw the same ones, and each scores its own. So
        together they have the distribution of one process.
        """
        points = torch.rand(self._now, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        ids = torch.searchsorted(self._below, points).clamp_(max=len(self._chance) - 1).sort().values
        return ids, -(self._now * self._chance[ids]).log()

    def __call__(self, comparator: Comparator, loss: Loss, batch: Batch) -> tuple[Tensor, Tensor]:
        """The sample by one product, the answers one by one."""
        if not self._now:
            self._all.product_type = self.product_type
            return self._all(comparator, loss, batch)
        query, targets, low = batch.query, batch.targets, self.product_type or batch.query.dtype
        row, answers, share = _distinct(batch.questions, batch.share, len(self._chance))
        drawn, stands_for = (tensor.to(query.device) for tensor in self.drawn(batch.seed))
        if batch.span is not None:
            first, last = torch.searchsorted(drawn, torch.tensor(batch.span, device=drawn.device)).tolist()
            drawn, stands_for = drawn[first:last] - batch.span[0], stands_for[first:last]
        if comparator.by_product:  # an entity that is drawn twice is scored once and stands for twice as many
            drawn, times = torch.unique_consecutive(drawn, return_counts=True)
            stands_for = stands_for[times.cumsum(0) - times] + times.double().log()
        if low != query.dtype:
            drawn, stands_for = _padded(drawn, stands_for)
        sample = Lowered(targets.some(drawn), low)
        own, pull_own = _answered(comparator, query, row, targets, answers)
        room = self._lines(query, len(drawn)) if comparator.by_product and low == query.dtype else None
        others = comparator.scores(query.to(low), sample.rows, room).to(query.dtype)
        others.add_(stands_for.to(query.dtype))[_hits(row, answers, drawn)] = -torch.inf
        truth = Truth(row, answers, share, batch.each, batch.entities, batch.span is not None)
        value, by_own, by_others = loss.over_sample(own, others, truth)
        gradient = comparator.pull(by_others.to(low), query, sample)
        pull_own(by_own, gradient)
        return value, gradient

    def _lines(self, query: Tensor, candidates: int) -> Tensor:
        """Room for scores whose rows begin at full lines of the cache, which makes products with them faster."""
        return self._room.of((len(query), -(-candidates // LINE) * LINE), query)[:, :candidates]


class Negatives(Candidates):
    """Negatives drawn for each fact: `count` entities, all with the same chance, in place of the answer.

    Every fact is asked from both sides, so heads and tails are replaced. With `side = "bernoulli"` a side counts more in the loss
    if the other one has more answers per question, as in TransH: 2·tph/(tph + hpt) for replaced heads. `filtered` leaves out
    negatives that are known answers in the training facts.
    """

    kind = "negatives"

    def __init__(
        self, count: int = 64, side: Literal["uniform", "bernoulli"] = "uniform", filtered: bool = True
    ) -> None:
        if count < 1:
            raise BadInput(f"candidates.count is {count}, but each fact needs at least one negative")
        self.count, self.side, self.filtered = count, side, filtered
        self._known: Known | None = None
        self._by_relation: Tensor | None = None

    def prepare(self, known: Known, frequency: Tensor) -> None:
        """Keep the training facts for the filter, and weigh the two sides of each relation."""
        self._known = known
        if self.side == "bernoulli":
            mine = torch.as_tensor(known.answers_per_question())
            others = mine.roll(len(mine) // 2)
            self._by_relation = (2 * others / (mine + others)).to(frequency)

    def weights(self, batch: Questions) -> Tensor | None:
        """The weight of the side that is replaced."""
        if self._by_relation is None:
            return None
        return self._by_relation[torch.as_tensor(batch.relation[batch.question]).long()]

    def drawn(self, batch: Questions, seed: int, group: int = 0) -> tuple[Tensor, Tensor]:
        """The negatives [f, count] of a batch, and which of them are left out. Each group of a step draws others."""
        assert self._known is not None
        shape, rng = (batch.facts, self.count), torch.Generator().manual_seed((seed + GROUP_STEP * group) % 2**63)
        ids = torch.randint(self._known.sizes.entities, shape, generator=rng)
        out = ids == torch.as_tensor(batch.answers).long()[:, None]
        if self.filtered:
            out |= torch.as_tensor(self._known.holds(batch, ids.numpy()))
        return ids, out

    def __call__(self, comparator: Comparator, loss: Loss, batch: Batch) -> tuple[Tensor, Tensor]:
        """All at once where the comparator has a way that copies no rows, else a block of facts at a time."""
        query, targets, questions = batch.query, batch.targets, batch.questions
        ids, out = (tensor.to(query.device) for tensor in self.drawn(questions, batch.seed, batch.group))
        row, answers = _ids(questions.question, query), _ids(questions.answers, query)
        gradient, total = torch.zeros_like(query), query.new_zeros(())
        if (table := targets.learned()) is not None:
            every = torch.cat([answers[:, None], ids], 1)
            if (found := comparator.among(query, row, table, every)) is not None:
                scores, pull = found
                negative = scores[:, 1:].masked_fill_(out, -torch.inf)
                total, by_positive, by_negative = loss.over_negatives(scores[:, 0], negative, batch.share)
                pull(torch.cat([by_positive[:, None], by_negative], 1), gradient)
                return total, gradient
        size = max(1, NEGATIVE_NUMBERS // (self.count * max(1, query.shape[1])))
        for a in range(0, len(row), size):
            part = slice(a, a + size)
            q, own = query[row[part]], row[part]
            truths = targets.some(answers[part], own)
            negatives = targets.some(ids[part].flatten(), own.repeat_interleave(self.count))
            rivals = negatives.rows.view(len(q), self.count, -1)
            positive, pull_truths = comparator.duel(q, truths.rows)
            negative, pull_rivals = comparator.duel(q[:, None], rivals)
            negative = negative.masked_fill_(out[part], -torch.inf)
            value, by_positive, by_negative = loss.over_negatives(positive, negative, batch.share[part])
            total += value
            (by_query, by_truths), (by_q, by_rivals) = pull_truths(by_positive), pull_rivals(by_negative)
            truths.add_all(by_truths)
            negatives.add_all(by_rivals.flatten(0, 1))
            gradient.index_add_(0, row[part], by_query + by_q[:, 0])
            targets.flush()
        return total, gradient


def _padded(drawn: Tensor, stands_for: Tensor) -> tuple[Tensor, Tensor]:
    """The sample, made longer by entities that stand for none, so that samples of a training have few different lengths.

    A kernel of a lower precision is compiled for each new shape, which can take longer than the product itself.
    """
    more = -len(drawn) % SHAPE if len(drawn) else 0
    return torch.cat([drawn, drawn[-1:].expand(more)]), torch.nn.functional.pad(stands_for, (0, more), value=-torch.inf)


def _ids(ids: object, like: Tensor) -> Tensor:
    return torch.as_tensor(ids).to(like.device, torch.long)


def _answered(
    comparator: Comparator, query: Tensor, row: Tensor, targets: TargetRows, answers: Tensor
) -> tuple[Tensor, Callable[[Tensor, Tensor], None]]:
    """The score of each fact [f], and a function that adds the gradient of these to those of the queries and of the targets."""
    table = targets.learned()
    if table is not None and (found := comparator.among(query, row, table, answers[:, None])) is not None:
        scores, pull = found
        return scores[:, 0], lambda slopes, by_query: pull(slopes[:, None], by_query)
    truths, q = targets.some(answers), query[row]

    def pull_rows(slopes: Tensor, by_query: Tensor) -> None:
        by_q, by_truths = comparator.pull_pairs(slopes, q, truths.rows)
        truths.add_all(by_truths)
        by_query.index_add_(0, row, by_q)

    return comparator.pairs(q, truths.rows), pull_rows


def _distinct(questions: Questions, share: Tensor, entities: int) -> tuple[Tensor, Tensor, Tensor]:
    """Row, answer and share of each distinct fact: one that is given twice counts once, with the sum of its shares."""
    row, answers = _ids(questions.question, share), _ids(questions.answers, share)
    key = row * entities + answers
    if bool((key[1:] > key[:-1]).all()):
        return row, answers, share
    key, place = torch.unique(key, return_inverse=True)
    return key // entities, key % entities, torch.zeros(len(key)).to(share).index_add_(0, place, share)


def _hits(row: Tensor, answers: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """The cells (question, place in the ascending sample) where a question's own answer was drawn."""
    first = torch.searchsorted(drawn, answers)
    times = torch.searchsorted(drawn, answers, right=True) - first
    place = torch.arange(int(times.sum()), device=row.device) - torch.repeat_interleave(times.cumsum(0) - times, times)
    return torch.repeat_interleave(row, times), torch.repeat_interleave(first, times) + place
