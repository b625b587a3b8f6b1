"""Packed tables: what they read and score is what their dense rows would, bytes and bounds are as stated, damage is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dura.data.questions import Questions
from dura.models import MODELS, ComplEx, Model, SemanticMatching
from dura.objectives import All, Softmax, objective_of
from dura.tables import packed as module
from dura.tables.packed import NUMBER_TYPES, Csr, NumberType, Packed, Small, index_type, open_packed
from dura.types import BadInput, DuraError, Sizes
from oracles import SEMANTIC

every_kind = pytest.mark.parametrize("kind", NUMBER_TYPES)
SIZES = Sizes(entities=300, relations=3, times=4)


def some_table(rows: int = 300, width: int = 12) -> Tensor:
    """A table with a zero row, a zero column, two equal rows and rows of very different size."""
    table = torch.randn(rows, width, generator=torch.Generator().manual_seed(3))
    table *= torch.logspace(-4, 1, rows)[:, None]
    table[5], table[:, 2], table[rows - 1] = 0, 0, table[rows // 2]
    return table


def forms(table: Tensor, kind: NumberType) -> list[Packed]:
    return [Small.of(table, kind), Csr.of(table, kind), Csr.of(table, kind, threshold=0.3)]


def put(model: Model, name: str, packed: Packed) -> None:
    delattr(model, name)
    setattr(model, name, packed)


@every_kind
@pytest.mark.parametrize("questions", [1, 7, 300])
def test_scores_are_those_of_the_rows_it_reads(
    kind: NumberType, questions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART", 1000)  # several parts, the last one shorter
    query = torch.randn(questions, 12, generator=torch.Generator().manual_seed(1))
    for packed in forms(some_table(), kind):
        rows = packed.unpacked()
        room = torch.full((questions, 300), torch.nan)
        assert packed.product(query, room) is room
        torch.testing.assert_close(room.double(), query.double() @ rows.double().mT, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(packed.product(query), room, rtol=0, atol=0)
        index = torch.tensor([299, 5, 0, 5, 150])
        assert torch.equal(packed.read(index), rows[index])
        assert packed.longest() == pytest.approx(float(rows.norm(dim=1).max()), rel=1e-6)


def test_float32_keeps_every_entry_and_sparse_rows_those_above_the_threshold() -> None:
    table = some_table()
    assert torch.equal(Small.of(table, "float32").unpacked(), table)
    assert torch.equal(Csr.of(table, "float32").unpacked(), table)
    sparse = Csr.of(table, "float32", threshold=0.3)
    assert torch.equal(sparse.unpacked(), torch.where(table.abs() < 0.3, 0, table))
    assert len(sparse.data) == int((table.abs() >= 0.3).sum())
    assert sparse.indices.dtype == torch.uint8
    assert sparse.bytes == 5 * len(sparse.data) + 2 * 301


@settings(max_examples=60)
@given(
    rows=st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=3, max_size=3), min_size=1, max_size=8),
    threshold=st.sampled_from([0.0, 0.5, 100.0]),
)
def test_what_is_lost_is_bounded(rows: list[list[float]], threshold: float) -> None:
    """int8: half a scale, which is the row's largest entry / 127; float16: half a unit in the last of its 11 places."""
    table = torch.tensor(rows, dtype=torch.float32)
    kept = torch.where(table.abs() < threshold, 0, table).double()
    largest = kept.abs().amax(dim=1, keepdim=True)
    for packed in (Csr.of(table, "int8", threshold), Small.of(kept.float(), "int8")):
        assert packed.scale is not None
        assert bool(((packed.unpacked().double() - kept).abs() <= largest / 127 * 0.50001 + 1e-40).all())
        assert int(packed.data.abs().max() if len(packed.data) else 0) <= 127
    for half in (Csr.of(table, "float16", threshold), Small.of(kept.float(), "float16")):
        assert bool(((half.unpacked().double() - kept).abs() <= kept.abs() * 2**-11 + 2**-25).all())


@every_kind
def test_fingerprints_are_equal_exactly_where_rows_are(kind: NumberType) -> None:
    for packed in forms(some_table(), kind):
        _, ours = packed.fingerprints().unique(dim=0, return_inverse=True)
        _, theirs = (packed.unpacked() + 0).unique(dim=0, return_inverse=True)
        pairs = {(a, b) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)}
        assert len(pairs) == len(set(ours.tolist())) == len(set(theirs.tolist())) < 300
    signs = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [2.0, 1.0], [1.0, 2.0]])
    assert len(Small.of(signs, "float32").fingerprints().unique(dim=0)) == 3


@pytest.mark.parametrize("name", SEMANTIC)
@every_kind
def test_every_model_scores_with_packed_tables_as_with_the_rows_they_hold(name: str, kind: NumberType) -> None:
    torch.manual_seed(1)
    model, dense = (MODELS.build(name, {"rank": 6}, SIZES) for _ in range(2))
    assert isinstance(model, SemanticMatching)
    for key, table in dict(dense.named_parameters()).items():
        torch.nn.init.normal_(table)
        dict(model.named_parameters())[key].data.copy_(table.data)
    for key in ("entity", *(() if model.shared else ("tail",))):
        table = dict(dense.named_parameters())[key]
        packed = Csr.of(table, kind, threshold=0.2 if kind == "int8" else 0.0)
        put(model, key, packed)
        table.data.copy_(packed.unpacked())
        if kind == "float32":
            assert torch.equal(table, packed.unpacked())
    h, r, t = torch.tensor([0, 299, 7]), torch.tensor([0, 5, 2]), torch.tensor([1, 0, 7])
    time = torch.tensor([3, 0, 1]) if model.temporal else None
    with torch.no_grad():
        ours, theirs = (m.compare(m.query(h, r, time), m.targets()) for m in (model, dense))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model.score(h, r, t, time), theirs[torch.arange(3), t], rtol=1e-5, atol=1e-5)
        assert torch.equal(model.targets(t), dense.targets(t))  # type: ignore[arg-type]
        assert torch.equal(model.heads(t), dense.heads(t))


def test_a_packed_model_is_not_trained() -> None:
    model = ComplEx(SIZES, rank=6)
    put(model, "entity", Small.of(torch.zeros(300, 12), "int8"))
    asked = Questions.of(np.array([[0, 0, 1]]), relations=SIZES.relations)
    objective = objective_of({"tails": 1.0}, Softmax(), All())
    with pytest.raises(BadInput, match="packed, so it can be asked but not trained"):
        objective(model, torch.zeros(len(asked), 12), asked, 0)


@every_kind
def test_stored_and_opened_again_it_is_the_same(kind: NumberType) -> None:
    for packed in forms(some_table(), kind):
        again = open_packed(packed.tensors(), packed.shape)
        assert type(again) is type(packed)
        assert again.number_type == kind
        assert torch.equal(again.unpacked(), packed.unpacked())
        assert packed.bytes == sum(t.numel() * t.element_size() for t in packed.tensors().values())
        with pytest.raises(DuraError, match="packed table is damaged"):
            open_packed(packed.tensors(), (packed.shape[0] + 1, packed.shape[1]))


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("indices", torch.tensor([0, 2], dtype=torch.uint8)),
        ("indices", torch.tensor([0, -1], dtype=torch.int16)),
        ("indices", torch.tensor([0], dtype=torch.uint8)),
        ("indices", torch.tensor([0.0, 1.0])),
        ("indptr", torch.tensor([0, 2, 1, 2], dtype=torch.uint8)),
        ("indptr", torch.tensor([1, 1, 1, 2], dtype=torch.uint8)),
        ("indptr", torch.tensor([0, 1, 3], dtype=torch.uint8)),
        ("indptr", torch.tensor([0, 0, 1, 3], dtype=torch.uint8)),
        ("data", torch.tensor([1.0, 2.0], dtype=torch.float64)),
        ("scale", torch.ones(2)),
    ],
)
def test_a_file_that_would_read_outside_its_memory_is_refused(part: str, wrong: Tensor) -> None:
    good = Csr.of(torch.tensor([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]]), "float32").tensors()
    assert open_packed(good, (3, 2)).unpacked().tolist() == [[0, 1], [0, 0], [2, 0]]
    with pytest.raises(DuraError, match="packed table is damaged"):
        open_packed({**good, part: wrong}, (3, 2))
    with pytest.raises(DuraError, match="it has no 'data'"):
        open_packed({"indptr": good["indptr"]}, (3, 2))


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match="hold 70000, and float16 ends at 65,504"):
        Small.of(torch.tensor([[1.0, -7e4]]), "float16")
    with pytest.raises(DuraError, match="not finite"):
        Csr.of(torch.tensor([[1.0, float("nan")]]), "int8")


@given(st.integers(1, 2**33))
def test_an_index_has_the_smallest_type_that_holds_it(count: int) -> None:
    kind = index_type(count)
    bytes_ = {1: 2**8, 2: 2**15, 4: 2**31, 8: 2**63}
    assert count <= bytes_[kind.itemsize]
    assert all(count > most for size, most in bytes_.items() if size < kind.itemsize)


def test_an_empty_part_has_scores_of_zero() -> None:
    table = torch.zeros(200, 3)
    table[199] = 1
    sparse = Csr.of(table, "int8")
    assert sparse.product(torch.ones(2, 3))[:, -2:].tolist() == [[0, 3], [0, 3]]
    assert np.count_nonzero(sparse.product(torch.ones(2, 3)).numpy()) == 2
