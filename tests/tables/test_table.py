"""A table's gradient: what is added, what a new step forgets, and which rows the optimizer must look at."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.tables.table import PRODUCT_ROWS, Collector, Gathered, Lowered, Table, flushing
from dura.training.optimizers import optimizer

ROWS, WIDTH = 12, 3
ADDED = st.sampled_from(["rows", "product", "read"])


@settings(max_examples=60)
@given(steps=st.lists(st.lists(st.tuples(ADDED, st.integers(0, 999)), max_size=4), min_size=1, max_size=4))
def test_the_gradient_is_the_sum_of_what_was_added_in_this_step(steps: list[list[tuple[str, int]]]) -> None:
    table = Table(torch.ones(ROWS, WIDTH, dtype=torch.float64))
    for step in steps:
        expected = torch.zeros(ROWS, WIDTH, dtype=torch.float64)
        reached: set[int] = set()
        for kind, seed in step:
            generator = torch.Generator().manual_seed(seed)
            index = torch.randint(ROWS, (2,), generator=generator)
            values = torch.randn(2, WIDTH, dtype=torch.float64, generator=generator)
            left = torch.randn(2, ROWS, dtype=torch.float64, generator=generator)
            if kind == "rows":
                table.add_rows(index, values)
            elif kind == "read":
                (table.read(index) * values).sum().backward()
            else:
                table.add_product(left, values)
            if kind == "product":
                expected += left.T @ values
            else:
                expected.index_add_(0, index, values)
            reached |= set(range(ROWS)) if kind == "product" else set(index.tolist())
        torch.testing.assert_close(table.gradient(), expected)
        used = table.used()
        assert (used is None and 2 * len(reached) > ROWS) or (used is not None and set(used.tolist()) == reached)
        table.forget()
    assert not table.gradient().any()


@pytest.mark.parametrize("shape", [(40, 6), (40, 64, 64)])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"lr_decay": 0.1}])
def test_adagrad_by_rows_is_adagrad(shape: tuple[int, ...], options: dict[str, float]) -> None:
    """Steps that reach few rows, all rows and none, beside torch's own optimizer on the same gradients."""
    torch.manual_seed(0)
    start = torch.randn(shape)
    table, plain = Table(start.clone()), torch.nn.Parameter(start.clone())
    ours = optimizer("adagrad", {"lr": 0.1, **options}, [table])
    theirs = torch.optim.Adagrad(
        [plain], lr=0.1, weight_decay=options.get("weight_decay", 0), lr_decay=options.get("lr_decay", 0)
    )
    for reached in ([3, 5], [5], [], list(range(40)), [39]):
        index = torch.tensor(reached, dtype=torch.long)
        table.add_rows(index, torch.randn(len(index), *shape[1:]))
        plain.grad = table.gradient().clone()
        ours.step()
        theirs.step()
        table.forget()
    torch.testing.assert_close(table.detach(), plain.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.state[table]["sum"], theirs.state[plain]["sum"], rtol=1e-5, atol=1e-6)
    assert ours.state[table]["step"] == theirs.state[plain]["step"] == 5
    assert not torch.equal(table[0].detach(), start[0])


def test_rows_without_a_gradient_are_left_alone() -> None:
    table = Table(torch.ones(10, 2))
    rule = optimizer("adagrad", {"lr": 0.5}, [table])
    table.add_rows(torch.tensor([2, 2]), torch.ones(2, 2))
    rule.step()
    table.forget()
    assert table.detach()[:, 0].tolist() == [1, 1, 0.5, 1, 1, 1, 1, 1, 1, 1]
    assert not table.gradient().any()


def test_a_gradient_that_was_read_by_rows_can_be_set_again() -> None:
    """As processes do that sum their gradients."""
    table = Table(torch.ones(10, 2))
    table.add_rows(torch.tensor([2, 2, 7]), torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    rows = torch.tensor([2, 7])
    table.set_gradient(rows, table.gradient_of(rows).mul_(2))
    assert table.gradient_of(rows).tolist() == [[8, 12], [10, 12]]


def test_products_of_another_type_are_added_in_the_tables_own() -> None:
    table = Table(torch.zeros(4, 2))
    left, right = torch.randn(3, 4), torch.randn(3, 2)
    for _ in range(2):
        table.add_product(left.bfloat16(), right.bfloat16())
    assert table.gradient().dtype == torch.float32
    torch.testing.assert_close(table.gradient(), 2 * left.T @ right, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("rows", [1, PRODUCT_ROWS, 2 * PRODUCT_ROWS + 1])
@pytest.mark.parametrize("make", [Table, Gathered])
def test_blocks_of_a_product_of_lower_precision_cover_every_row_once(
    make: Callable[[torch.Tensor], Collector], rows: int
) -> None:
    left, right = torch.randint(-3, 4, (5, rows)).float(), torch.randint(-3, 4, (5, 3)).float()  # exact in bfloat16
    collector = make(torch.full((rows, 3), torch.nan))
    for times in (1, 2):
        collector.add_product(left.bfloat16(), right.bfloat16())
        torch.testing.assert_close(collector.gradient(), times * left.T @ right, rtol=0, atol=0)


def test_rows_of_lower_precision_collect_a_gradient_of_full_precision() -> None:
    table = Table(torch.full((2, 2), 1 / 3))
    low = Lowered(table, torch.bfloat16)
    assert low.rows.dtype == torch.bfloat16
    low.add_product(torch.ones(1, 2).bfloat16(), torch.full((1, 2), 0.5).bfloat16())
    low.gradient()[0] += 1e-4
    low.mark()
    assert table.gradient().tolist() == [[pytest.approx(0.5001)] * 2, [0.5] * 2]


def test_tiny_numbers_are_flushed_here_and_in_new_threads_and_nowhere_else() -> None:
    def product() -> float:
        return float(torch.full((), 1e-20) * torch.full((), 1e-20))

    assert product() > 0
    with flushing():
        assert product() == 0
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(product).result() == 0
        with flushing():
            assert product() == 0
        assert product() == 0  # the inner one leaves it as it was
    assert product() > 0
