from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dura.data.questions import Questions
from dura.evaluation import block_size, metrics, rank, ranking
from dura.models import MODELS, Dot, Model
from dura.tables import Packed
from dura.types import BadInput, DuraError, IntArray, Ranks, Sizes

Fact = tuple[int, int, int]


class Watched(Dot):
    """Remembers where scores were written."""

    def __init__(self, uneven: bool = False) -> None:
        self.rooms: list[Tensor] = []
        self.uneven = uneven

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        assert out is not None
        self.rooms.append(out)
        scores = super().scores(query, targets, out)
        return scores.mul_(1 + 1e-6 * torch.rand(len(targets))) if self.uneven else scores


class Tables(Model):
    """The smallest model: DistMult on given tables."""

    def __init__(self, entities: Tensor, relations: Tensor) -> None:
        super().__init__(Sizes(len(entities), len(relations) // 2), entities.shape[1])
        self.entities, self.relations = entities, relations
        self.comparator = self.watched = Watched()

    @property
    def dtype(self) -> torch.dtype:
        return self.entities.dtype

    @classmethod
    def drawn(cls, entities: int, relations: int, width: int, seed: int = 0) -> Tables:
        draw = torch.Generator().manual_seed(seed)
        return cls(torch.randn(entities, width, generator=draw), torch.randn(2 * relations, width, generator=draw))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        return self.entities[head] * self.relations[relation]

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        return self.entities if entities is None else self.entities[entities]


def array(facts: list[Fact]) -> IntArray:
    return np.array(facts, dtype=np.int32).reshape(-1, 3)


def random_facts(n: int, entities: int, relations: int, seed: int = 0) -> IntArray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(top, size=n) for top in (entities, relations, entities)], axis=1).astype(np.int32)


def literal(model: Tables, facts: list[Fact], known: list[Fact], relations: int) -> list[tuple[int, int, int]]:
    """(greater, equal, candidates) of both sides, word by word, in float64."""
    E, R = model.entities.double().numpy(), model.relations.double().numpy()
    ranks = []
    for side in (0, 1):
        for h, r, t in facts:
            asked, relation, truth = (h, r, t) if side == 0 else (t, r + relations, h)
            answers = (
                {b for a, q, b in known if (a, q) == (h, r)}
                if side == 0
                else {a for a, q, b in known if (b, q) == (t, r)}
            )
            scores = [float(np.sum(E[asked] * R[relation] * E[e])) for e in range(len(E))]
            rivals = [scores[e] for e in range(len(E)) if e != truth and e not in answers]
            greater, equal = sum(s > scores[truth] for s in rivals), sum(s == scores[truth] for s in rivals)
            ranks.append((greater, equal, 1 + len(rivals)))
    return ranks


def found(ranks: Ranks) -> list[tuple[int, int, int]]:
    return list(zip(ranks.greater.tolist(), ranks.equal.tolist(), ranks.candidates.tolist(), strict=True))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Tables, list[Fact], list[Fact], int]:
    """A model of few small integers (many ties), facts to rank, known facts (in part the same, some twice), |R|."""
    entities, relations, width = draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    fact = st.tuples(st.integers(0, entities - 1), st.integers(0, relations - 1), st.integers(0, entities - 1))
    numbers = np.random.default_rng(draw(st.integers(0, 999)))
    tables = (torch.from_numpy(numbers.integers(-1, 2, size=(n, width))).float() for n in (entities, 2 * relations))
    facts = draw(st.lists(fact, min_size=1, max_size=14))
    known = draw(st.lists(fact, max_size=20)) + draw(st.sampled_from([facts, facts[::2], facts + facts, []]))
    return Tables(*tables), facts, known, relations


@pytest.mark.parametrize("count", [ranking._count, ranking._count_on_device])
@settings(max_examples=80)
@given(world=worlds(), block=st.integers(1, 30) | st.none(), strip=st.sampled_from([1, 60, 10_000]))
def test_ranks_are_those_of_the_literal_definition(
    count: Callable[..., ranking.Counts],
    world: tuple[Tables, list[Fact], list[Fact], int],
    block: int | None,
    strip: int,
) -> None:
    model, facts, known, relations = world
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_count", count)
        patch.setattr(ranking, "STRIP_BYTES", strip)
        ranks = rank(model, array(facts), Questions.of(array(known), relations=relations), relations, block=block)
    assert found(ranks) == literal(model, facts, known, relations)
    assert list(zip(ranks.head.tolist(), ranks.relation.tolist(), ranks.tail.tolist(), strict=True)) == facts * 2
    assert ranks.side.tolist() == [0] * len(facts) + [1] * len(facts)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("block", [1, 2, 7, 64, 1000])
def test_ranks_depend_neither_on_block_nor_threads_nor_order_nor_company(block: int, threads: int) -> None:
    facts = random_facts(150, entities=211, relations=3)
    facts[:40, :2] = facts[0, :2]  # one question with forty truths
    model = Tables.drawn(211, 3, width=33)
    known = Questions.of(facts[::2], random_facts(400, 211, 3, seed=1), relations=3)
    before = rank(model, facts, known, 3)
    order = np.random.default_rng(2).permutation(150)[:90]
    used = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        after = rank(model, facts[order], known, 3, block=block)
    finally:
        torch.set_num_threads(used)
    assert found(after) == found(before.select(np.concatenate([order, order + 150])))
    assert metrics(rank(model, facts[::-1], known, 3)) == metrics(before)


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_can_be_ranked(name: str) -> None:
    torch.manual_seed(0)
    temporal = MODELS.get(name).temporal
    model = MODELS.build(name, {"rank": 6}, Sizes(entities=40, relations=4, times=3 if temporal else 0)).eval()
    facts = random_facts(60, 40, 4)
    if temporal:
        facts = np.column_stack([facts, np.arange(60, dtype=np.int32) % 3])
    known = Questions.of(facts, relations=4)
    ranks = rank(model, facts, known, 4, block=13)
    everything = torch.arange(40)
    for i, (h, r, t, *time) in enumerate(facts.tolist()):
        for place, asked, relation, truth in ((i, h, r, t), (i + 60, t, r + 4, h)):
            question = [asked, relation, *time]
            head, *others = (torch.full((40,), part) for part in question)
            scores = model.score(head, others[0], everything, *others[1:]).detach()
            answers = known.known(*(np.array([part]) for part in question)).answers
            rivals = np.setdiff1d(np.arange(40), answers)
            assert ranks.candidates[place] == len(rivals) + 1
            assert ranks.greater[place] == int((scores[rivals] > scores[truth]).sum())


def test_a_model_that_scores_all_the_same_is_ranked_in_the_middle() -> None:
    facts = random_facts(50, 30, 2)
    known = Questions.of(facts, random_facts(60, 30, 2, seed=1), relations=2)
    torch.manual_seed(0)
    model = Tables(torch.randn(1, 7).expand(30, 7).contiguous(), torch.randn(4, 7))
    ranks = rank(model, facts, known, 2)
    assert (ranks.ranks("optimistic") == 1).all()
    assert (ranks.ranks("pessimistic") == ranks.candidates).all()
    assert (ranks.ranks("realistic") == (ranks.candidates + 1) / 2).all()
    assert metrics(ranks).amri == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("width", [1, 2, 4, 9, 64])
def test_equal_rows_tie_whatever_the_product_rounds(width: int) -> None:
    torch.manual_seed(width)
    entities = torch.randn(50, width)
    entities[10:30] = entities[3]
    entities[40:] = -0.0
    entities[45:] = 0.0
    if width > 4:  # alike in the first columns, but no twins
        entities[31, :4], entities[5, :4] = entities[3, :4], entities[6, :4]
    facts = array([(1, 0, 3), (1, 0, 15), (2, 0, 29), (2, 0, 44), (0, 0, 49)])
    model = Tables(entities, torch.randn(2, width))
    model.comparator = Watched(
        uneven=True
    )  # rounds differently from column to column, as products do at the edges of tiles
    ranks = rank(model, facts, Questions.of(facts[:0], relations=1), 1)
    assert ranks.equal[:5].tolist() == [20, 20, 20, 9, 9]
    assert ranks.greater[0] == ranks.greater[1]


def test_a_question_alone_in_its_block_ties_like_many() -> None:
    # A product with one row runs another kernel, which splits the ties of equal rows in nearly every case.
    facts = random_facts(64, 135, 2)
    for width in (3, 33, 64, 200):
        model = Tables.drawn(135, 2, width)
        model.entities[::3] = model.entities[0]
        facts[:, 2] -= facts[:, 2] % 3
        ranks = rank(model, facts, Questions.of(facts[:0], relations=2), 2, block=1)
        assert (ranks.equal[:64] == 44).all()


def test_the_mrr_of_guessing_is_near_its_expectation() -> None:
    entities, facts = 100, random_facts(4000, 100, 50)
    ranks = rank(Tables.drawn(entities, 50, width=40), facts, Questions.of(facts[:0], relations=50), 50)
    expected = sum(1 / k for k in range(1, entities + 1)) / entities
    assert metrics(ranks).mrr == pytest.approx(expected, rel=0.1)
    assert metrics(ranks).amri == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["truth", "rival"])
def test_scores_that_are_not_finite_are_refused(bad: float, where: str) -> None:
    model = Tables(torch.ones(6, 2), torch.ones(2, 2))
    model.entities[4 if where == "truth" else 5, 0] = bad
    facts = array([(0, 0, 1), (2, 0, 4)])
    with pytest.raises(DuraError, match=r"head \d, relation \d.* not all finite"):
        rank(model, facts, Questions.of(facts, relations=1), 1)


def test_huge_scores_that_are_finite_are_ranked() -> None:
    # Their sum overflows, they themselves do not.
    model = Tables(torch.tensor([[1.0], [3e38], [2e38], [2.5e38]]), torch.tensor([[1.0], [0.0]]))
    facts = array([(0, 0, 2)])
    assert found(rank(model, facts, Questions.of(facts, relations=1), 1))[0] == (2, 0, 4)


class OwnMemory(Dot):
    """Ignores `out` and returns a view of its own table of scores."""

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        return self.table[:1].expand(len(query), -1)


def test_a_comparators_own_memory_is_left_alone() -> None:
    own = OwnMemory(torch.tensor([[5.0, 4.0, 3.0, 2.0]]).repeat(4, 1))
    model = Tables(torch.arange(4, dtype=torch.float32)[:, None], torch.ones(2, 1))
    model.comparator, kept = own, own.table.clone()
    facts = array([(0, 0, 1), (0, 0, 2), (3, 0, 2)])
    ranks = rank(model, facts, Questions.of(facts, relations=1), 1)
    assert ranks.greater.tolist() == [1, 1, 2, 0, 0, 2]
    assert torch.equal(own.table, kept)


class Hidden(Dot):
    """Adds a bias that is not part of the rows."""

    rows_only = False

    def __init__(self, bias: Tensor) -> None:
        self.bias = bias

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        return super().scores(query, targets, out) + self.bias


def test_equal_rows_do_not_tie_if_the_comparator_sees_more_than_rows() -> None:
    model = Tables(torch.ones(4, 2), torch.ones(2, 2))
    model.comparator = Hidden(torch.tensor([0.0, 3.0, 2.0, 1.0]))
    facts = array([(0, 0, 1), (0, 0, 2), (0, 0, 3)])
    ranks = rank(model, facts, Questions.of(facts[:0], relations=1), 1)
    assert ranks.greater[:3].tolist() == [0, 1, 2]
    assert not ranks.equal[:3].any()


def test_low_precision_scores_are_ranked() -> None:
    model = Tables.drawn(50, 2, width=8)
    model.entities, model.relations = model.entities.bfloat16(), model.relations.bfloat16()
    model.entities[7] = model.entities[9]
    facts = array([(0, 1, 7), (3, 0, 20)])
    ranks = rank(model, facts, Questions.of(facts, relations=2), 2)
    assert ranks.equal[0] >= 1
    scores = torch.mm(model.query(torch.tensor([0]), torch.tensor([1])), model.entities.mT)[0].float()
    assert ranks.greater[0] == int((scores > scores[7]).sum())


def test_gradients_are_not_kept_and_progress_is_told() -> None:
    model = Tables.drawn(20, 2, width=4)
    model.entities.requires_grad_()
    facts = random_facts(30, 20, 2)
    told: list[tuple[int, int]] = []
    rank(model, facts, Questions.of(facts, relations=2), 2, block=9, progress=lambda *at: told.append(at))
    questions = len({(h, r) for h, r, _ in facts.tolist()}) + len({(t, r) for _, r, t in facts.tolist()})
    assert [done for done, _ in told] == [*range(9, questions, 9), questions]
    assert {total for _, total in told} == {questions}
    assert not any(room.requires_grad for room in model.watched.rooms)


def test_nothing_to_rank_and_no_block() -> None:
    model, none = Tables.drawn(5, 1, width=2), Questions.of(array([]), relations=1)
    assert len(rank(model, array([]), none, 1)) == 0
    with pytest.raises(BadInput, match="block is 0"):
        rank(model, array([(0, 0, 1)]), none, 1, block=0)


@pytest.mark.parametrize("entities", [1, 14, 14_541, 40_943, 123_182, 5_000_000, 50_000_000])
def test_a_block_of_scores_is_bounded(entities: int) -> None:
    """By bytes where that leaves enough for a fast product; else 64 rows, and if these are too large, fewer, but at least 8."""
    for hands in (1, 2, 16):
        rows = block_size(entities, hands=hands)
        assert rows >= 8
        assert rows >= 64 or rows == max(8, ranking.LARGE_BYTES // (4 * entities))
        assert rows <= 64 or hands * rows * entities * 4 <= ranking.BLOCK_BYTES


def test_memory_stays_small_and_one_buffer_is_used_again() -> None:
    facts = random_facts(1000, 50_000, 2)
    model = Tables.drawn(50_000, 2, width=8)
    process = pytest.importorskip("psutil").Process()
    before, sizes = process.memory_info().rss, []
    rank(
        model,
        facts,
        Questions.of(facts, relations=2),
        2,
        progress=lambda *_: sizes.append(process.memory_info().rss - before),
    )
    assert len(model.watched.rooms) == len(sizes) > 5
    hands = torch.get_num_threads()
    assert len({room.data_ptr() for room in model.watched.rooms}) <= hands
    assert max(room.numel() * 4 for room in model.watched.rooms) <= max(ranking.BLOCK_BYTES // hands, 64 * 50_000 * 4)
    assert max(sizes) < 150 * 2**20  # all scores at once would take 400 MB
