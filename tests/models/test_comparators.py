"""Laws of every comparator: scores, pairs and gradients agree with the literal formula, at any block size and when packed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dura.models import comparators
from dura.models.comparators import (
    L1,
    L2,
    Biased,
    Boxes,
    Comparator,
    Dot,
    Filters,
    Hyperplane,
    Modulus,
    Poincare,
    Polar,
    Pushed,
    SquaredL2,
    base,
    distances,
    kernels,
)
from dura.models.comparators.distances import Elementwise
from dura.tables import Gathered, Table
from dura.tables.packed import Csr, Small
from literals import hyperbolic


def literal_modulus(q: Tensor, t: Tensor) -> Tensor:
    half = len(q) // 2
    pairs = list(zip((q - t)[:half], (q - t)[half:], strict=True))
    return -torch.stack([torch.sqrt(a * a + b * b) for a, b in pairs]).sum()


def literal_fall(q: Tensor, t: Tensor) -> Tensor:
    u, w = q[: len(t)], q[len(t) :]
    return u - (t - (w @ t) * w)


def literal_push(q: Tensor, t: Tensor) -> Tensor:
    pushed = t[:-1] + t[-1] * q[W:]
    return q[:W] - (pushed if pushed.norm() <= 1 else pushed / pushed.norm())


def literal_hyperbolic(q: Tensor, t: Tensor) -> Tensor:
    u, r, v = (hyperbolic.exp(x) for x in (q[:W], q[W:], t))
    return -(hyperbolic.distance(u, hyperbolic.plus(v, r)) ** 2)


def literal_polar(q: Tensor, t: Tensor) -> Tensor:
    m, c, p, weights = q[:W], q[W : 2 * W], q[2 * W : 3 * W], q[3 * W :]
    apart, turned = (m - c * t[:W]).square().sum().sqrt(), torch.sin(0.7 * (p - t[W:])).abs().sum()
    return -weights[0] * apart - weights[1] * turned


def literal_boxes(q: Tensor, t: Tensor) -> Tensor:
    """Each dimension by its own case, straight from the definition."""
    u, one, other = q.chunk(3)
    far = []
    for x, a, b in zip(torch.tanh(u + t), one, other, strict=True):
        low, high = min(a, b), max(a, b)
        middle, wide = (low + high) / 2, high - low + 1
        y = abs(x - middle)
        far.append(y / wide if low <= x <= high else y * wide - (wide - 1) * (wide - 1 / wide) / 2)
    half = len(far) // 2
    return -torch.stack(far[:half]).square().sum().sqrt() - torch.stack(far[half:]).square().sum().sqrt()


def literal_filters(q: Tensor, t: Tensor) -> Tensor:
    """Three filters over two numbers: a, c and w of the query stand one after the other."""
    a, c, w = q[:6], q[6:9], q[9:]
    terms = [w[2 * f + i] * torch.relu(a[2 * f + i] + c[f] * t[i]) for f in range(3) for i in range(2)]
    return torch.stack(terms).sum()


W = 6
LITERAL: dict[str, tuple[Comparator, Callable[[Tensor, Tensor], Tensor], tuple[int, int]]] = {
    "dot": (Dot(), lambda q, t: sum(a * b for a, b in zip(q, t, strict=True)), (W, W)),
    "squared-l2": (SquaredL2(), lambda q, t: -((q - t) ** 2).sum(), (W, W)),
    "l2": (L2(), lambda q, t: -((q - t) ** 2).sum().sqrt(), (W, W)),
    "l1": (L1(), lambda q, t: -(q - t).abs().sum(), (W, W)),
    "modulus": (Modulus(), literal_modulus, (W, W)),
    "biased-dot": (Biased(Dot()), lambda q, t: (q * t[:-1]).sum() + t[-1], (W, W + 1)),
    "biased-l2": (Biased(SquaredL2()), lambda q, t: -((q - t[:-1]) ** 2).sum() + t[-1], (W, W + 1)),
    "biased-both": (Biased(Dot(), both=True), lambda q, t: (q[:-1] * t[:-1]).sum() + q[-1] + t[-1], (W, W)),
    "hyperplane": (Hyperplane(), lambda q, t: -(literal_fall(q, t) ** 2).sum(), (2 * W, W)),
    "hyperplane-l2": (Hyperplane(squared=False), lambda q, t: -(literal_fall(q, t) ** 2).sum().sqrt(), (2 * W, W)),
    "pushed": (Pushed(), lambda q, t: -(literal_push(q, t) ** 2).sum(), (2 * W, W + 1)),
    "pushed-l2": (Pushed(squared=False), lambda q, t: -(literal_push(q, t) ** 2).sum().sqrt(), (2 * W, W + 1)),
    "poincare": (Poincare(), literal_hyperbolic, (2 * W, W)),
    "polar": (Polar(rate=0.7), literal_polar, (3 * W + 2, 2 * W)),
    "boxes": (Boxes(), literal_boxes, (3 * W, W)),
    "biased-l1": (Biased(L1()), lambda q, t: -(q - t[:-1]).abs().sum() + t[-1], (W, W + 1)),
    "filters": (Filters(3, 2), literal_filters, (15, 2)),
}
"""Comparator, formula of one pair, and how many numbers a query and a target have."""


@pytest.fixture(params=list(LITERAL))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def drawn(name: str, m: int = 5, n: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    widths = LITERAL[name][2]
    return torch.randn(m, widths[0]).double(), torch.randn(n, widths[1]).double()


def literal_scores(name: str, query: Tensor, targets: Tensor) -> Tensor:
    formula = LITERAL[name][1]
    return torch.stack([torch.stack([formula(q, t) for t in targets]) for q in query])


def test_every_comparator_of_the_module_is_tested() -> None:
    kinds = {
        kind
        for kind in vars(comparators).values()
        if isinstance(kind, type) and issubclass(kind, Comparator) and kind is not Comparator
    }
    assert kinds == {type(comparator) for comparator, _, _ in LITERAL.values()}


def test_scores_and_pairs_are_the_literal_formula(name: str) -> None:
    comparator, (query, targets) = LITERAL[name][0], drawn(name)
    expected = literal_scores(name, query, targets)
    torch.testing.assert_close(comparator.scores(query, targets), expected, rtol=1e-11, atol=1e-11)
    room = torch.full((5, 7), torch.nan).double()
    assert comparator.scores(query, targets, out=room) is room
    torch.testing.assert_close(room, expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(comparator.pairs(query, targets[:5]), expected.diagonal(), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(comparator.pairs(query[:, None], targets), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("scaled", [False, True])
def test_pull_is_the_gradient_of_the_literal_formula(name: str, scaled: bool) -> None:
    comparator, (query, targets) = LITERAL[name][0], drawn(name)
    slopes, already = torch.randn(5, 7).double(), torch.randn_like(targets)
    scale = torch.rand(5).double() if scaled else None
    q, t = query.clone().requires_grad_(), targets.clone().requires_grad_()
    literal_scores(name, q, t).backward(slopes if scale is None else slopes * scale[:, None])
    for collector in (Table(targets.clone()), Gathered(targets.clone())):
        collector.add_all(already.clone())
        by_query = comparator.pull(slopes.clone(), query, collector, scale)
        torch.testing.assert_close(by_query, q.grad, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(collector.gradient() - already, t.grad, rtol=1e-9, atol=1e-9)
    assert Table(targets).used() is not None
    table = Table(targets.clone())
    comparator.pull(slopes.clone(), query, table, scale)
    assert table.used() is None  # every row has a gradient


def test_pull_pairs_is_the_gradient_of_pairs(name: str) -> None:
    comparator, (query, targets) = LITERAL[name][0], drawn(name, m=4, n=4)
    slopes = torch.randn(4).double()
    q, t = query.clone().requires_grad_(), targets.clone().requires_grad_()
    comparator.pairs(q, t).backward(slopes)
    by_query, by_targets = comparator.pull_pairs(slopes, query, targets)
    torch.testing.assert_close(by_query, q.grad)
    torch.testing.assert_close(by_targets, t.grad)


def test_pull_pairs_sums_over_the_rivals_of_a_query(name: str) -> None:
    comparator, (query, targets) = LITERAL[name][0], drawn(name, m=3, n=12)
    rivals, slopes = targets.view(3, 4, -1), torch.randn(3, 4).double()
    q, t = query[:, None].clone().requires_grad_(), rivals.clone().requires_grad_()
    comparator.pairs(q, t).backward(slopes)
    by_query, by_rivals = comparator.pull_pairs(slopes, query[:, None], rivals)
    torch.testing.assert_close(by_query, q.grad)
    torch.testing.assert_close(by_rivals, t.grad)


def test_a_duel_is_pairs_and_their_gradient(name: str) -> None:
    comparator, (query, targets) = LITERAL[name][0], drawn(name, m=3, n=12)
    q, rivals, slopes = query[:, None], targets.view(3, 4, -1), torch.randn(3, 4).double()
    before = q.clone(), rivals.clone()
    scores, pull = comparator.duel(q, rivals)
    torch.testing.assert_close(scores, comparator.pairs(q, rivals))
    for ours, theirs in zip(pull(slopes), comparator.pull_pairs(slopes, q, rivals), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert all(map(torch.equal, before, (q, rivals)))


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the compiled kernels, and without them."""
    if request.param == "compiled" and not kernels.installed():
        pytest.skip("numba is not installed, so there are no compiled kernels to compare with torch")
    monkeypatch.setattr(kernels, "installed", lambda: request.param == "compiled")
    return str(request.param)


@pytest.mark.parametrize("kind", [L1(), Modulus()])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_kernels_agree_with_torch(
    way: str, kind: Elementwise, threads: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    query, targets, slopes = (torch.randn(*shape, dtype=dtype) for shape in ((19, 34), (23, 34), (19, 23)))
    targets[3] = query[5]  # no distance: no gradient
    expected, table = kind.pairs(query.double()[:, None], targets.double()), Table(targets.clone())
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    rtol, atol = (2e-6, 2e-5) if dtype == torch.float32 else (1e-11, 1e-11)
    close = partial(torch.testing.assert_close, rtol=rtol, atol=atol)
    close(kind.scores(query, targets).double(), expected)
    by_query = kind.pull(slopes.clone(), query, table)
    q, t = query.double().requires_grad_(), targets.double().requires_grad_()
    kind.pairs(q[:, None], t).backward(slopes.double())
    close(by_query.double(), q.grad)
    close(table.gradient().double(), t.grad)


@pytest.mark.parametrize("kind", [L1(), Modulus()])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_compared_where_they_are(kind: Elementwise, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels.installed():
        pytest.skip("numba is not installed, so rows are always copied")
    torch.manual_seed(0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    query, table = torch.randn(5, 10).double(), Table(torch.randn(13, 10).double())
    row, ids, slopes = torch.tensor([4, 0, 0, 2]), torch.randint(13, (4, 6)), torch.randn(4, 6).double()
    found = kind.among(query, row, table, ids)
    assert found is not None
    scores, pull = found
    torch.testing.assert_close(scores, kind.pairs(query[row][:, None], table.rows[ids]))
    gradient = torch.ones_like(query)
    pull(slopes, gradient)
    q, t = query.clone().requires_grad_(), table.rows.clone().requires_grad_()
    kind.pairs(q[row][:, None], t[ids]).backward(slopes)
    torch.testing.assert_close(gradient - 1, q.grad)
    torch.testing.assert_close(table.gradient(), t.grad)
    used = table.used()
    assert used is None or set(used.tolist()) == set(ids.flatten().tolist())
    assert (
        kind.among(query, row, Table(torch.randn(1000, 10).double()), ids) is None
    )  # a whole gradient is not worth it


@settings(max_examples=25)
@given(part=st.integers(1, 200), m=st.integers(1, 6), n=st.integers(1, 11), seed=st.integers(0, 99))
def test_blocks_do_not_change_the_result(part: int, m: int, n: int, seed: int) -> None:
    for name, (comparator, _, _) in LITERAL.items():
        query, targets = drawn(name, m, n, seed=seed)
        slopes = torch.randn(m, n).double()
        whole, table = comparator.scores(query, targets), Table(targets)
        by_query = comparator.pull(slopes.clone(), query, table)
        before, base.PART, distances.TILE = (base.PART, distances.TILE), part, part
        try:
            again = Table(targets.clone())
            torch.testing.assert_close(comparator.scores(query, targets), whole)
            torch.testing.assert_close(comparator.pull(slopes.clone(), query, again), by_query)
            torch.testing.assert_close(again.gradient(), table.gradient())
        finally:
            base.PART, distances.TILE = before


@pytest.mark.parametrize("kind", ["int8", "sparse"])
def test_packed_targets_score_as_the_rows_they_hold(name: str, kind: str) -> None:
    comparator, (query, targets) = LITERAL[name][0], drawn(name, n=200)
    rows = targets.float()
    packed = Small.of(rows, "int8") if kind == "int8" else Csr.of(rows, "float32", threshold=0.5)
    expected = comparator.scores(query.float(), packed.unpacked())
    torch.testing.assert_close(comparator.scores(query.float(), packed), expected, rtol=1e-4, atol=1e-4)


def test_no_score_is_larger_than_its_bound(name: str) -> None:
    comparator, (query, targets) = LITERAL[name][0], drawn(name, m=50, n=60)
    longest = (float(torch.linalg.vector_norm(rows, dim=1).max()) for rows in (query, targets))
    assert float(comparator.scores(query, targets).abs().max()) <= comparator.bound(*longest)


def test_norms_that_may_overflow_or_are_no_numbers_are_not_called_finite(name: str) -> None:
    comparator = LITERAL[name][0]
    assert not comparator.finite(1e30, 1e30)
    assert not comparator.finite(math.nan, 1.0)


def test_what_is_not_a_number_does_not_become_one(name: str) -> None:
    """Otherwise a model full of NaN would be ranked."""
    comparator, (query, targets) = LITERAL[name][0], drawn(name)
    assert comparator.scores(torch.full_like(query, math.nan), targets).isnan().all()
    assert comparator.scores(query, torch.full_like(targets, math.nan)).isnan().all()
    assert comparator.pairs(query, torch.full_like(targets[:5], math.nan)).isnan().all()


def test_distances_to_itself_have_the_gradient_zero() -> None:
    rows = torch.randn(3, 4).double()
    for comparator in (SquaredL2(), L2(), L1(), Modulus()):
        table = Table(rows.clone())
        by_query = comparator.pull(torch.eye(3).double(), rows.clone(), table)
        assert by_query.isfinite().all()
        by_pair = comparator.pull_pairs(torch.ones(3).double(), rows, rows)
        assert all(gradient.isfinite().all() and not gradient.any() for gradient in by_pair)


def test_hyperbolic_distances_are_those_of_the_paper() -> None:
    """−(2 artanh ‖−u ⊕ (v ⊕ r)‖)², also in float32 and for vectors at the middle and at the edge of the ball."""
    query, targets = drawn("poincare", m=20, n=20)
    query, targets = query / 3, targets / 3
    plain = torch.stack([-(hyperbolic.plain(q[:W], t, q[W:]) ** 2) for q, t in zip(query, targets, strict=True)])
    torch.testing.assert_close(Poincare().pairs(query, targets), plain, rtol=1e-9, atol=1e-9)
    rounded = Poincare().pairs(query.float(), targets.float())
    torch.testing.assert_close(rounded.double(), plain, rtol=1e-4, atol=1e-5)
    for scale in (0.0, 1e-20, 1e-3, 1e3):
        table = Table(targets.float() * scale)
        scores = Poincare().scores(query.float() * scale, table.rows)
        slopes = Poincare().pull(torch.ones_like(scores), query.float() * scale, table)
        assert all(numbers.isfinite().all() for numbers in (scores, slopes, table.gradient()))
