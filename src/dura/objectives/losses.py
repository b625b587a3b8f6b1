"""Losses: from scores to a loss and the gradient of the scores.

A loss says what it is for each kind of candidates: all entities, a sample that all questions share, or negatives per fact. A loss
that leaves one out is refused there. To add a loss, write a class with `value` (it is differentiated by autograd) and a row in
`LOSSES`, or an entry point of the group `dura.losses` in your own package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from dura import world
from dura.data.questions import Questions
from dura.objectives.known import Known
from dura.types import BadInput

SAFE_MASS = 1e20
"""Exponentials whose sum stays between 1 / this and this leave room for the products that follow, even in 32 bits."""

_METHODS = {"all": "over_all_", "sample": "over_sample", "negatives": "over_negatives"}
"""The method of a loss for each kind of candidates."""


@dataclass(frozen=True)
class Truth:
    """Which cells of a block of scores are facts: [row[j], column[j]] is fact j.

    `share` [f] is what each fact counts in the mean over the batch, `each` what a question counts in a mean over questions. If the
    candidates are `spread` over processes, each process has its own columns and the facts in them. What is summed over a row of
    scores must then go through `total`.
    """

    row: Tensor
    column: Tensor
    share: Tensor
    each: float
    entities: int = 0
    """How many columns all processes have together; 0 = those that are here."""
    spread: bool = False

    def columns(self, scores: Tensor) -> int:
        """How many candidates a row of scores has, in all processes together."""
        return self.entities or scores.shape[1]

    def total(self, values: Tensor) -> Tensor:
        """Sums over columns that are here become sums over all columns."""
        return world.total(values) if self.spread else values

    def mean(self, scores: Tensor) -> Tensor:
        """The mean of each row of scores."""
        return world.total(scores.sum(1)) / self.columns(scores) if self.spread else scores.mean(1)

    def highest(self, values: Tensor) -> Tensor:
        """Maxima over columns that are here become maxima over all columns."""
        return world.highest(values) if self.spread else values


class Loss:
    """A mean over the facts (or questions) of a batch that brings the gradient of its scores."""

    smoothing: float = 0.0
    """Label smoothing, which needs all entities."""
    spreads = False
    """True if the loss over all entities, or over a sample, sums over a row of scores through `Truth.total` alone."""
    whole_questions = False
    """True if the loss over all entities needs all answers of a question at once."""

    def prepare(self, known: Known, frequency: Tensor) -> None:
        """Learn about the training set before the first step: its facts, and how often each entity is an answer."""

    def weights(self, batch: Questions, answers: Tensor) -> Tensor | None:
        """The weight of each fact [f]; None if all weigh the same. The mean is divided by the sum of the weights."""
        return None

    def over_all_(
        self, scores: Tensor, truth: Truth, again: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """Turn a block of scores of all entities [m, n] into their gradient, in place. Returns (loss, scale).

        If `scale` [m] is not None, the gradient of row i still has to be multiplied by `scale[i]`. `again` gives the scores of
        some rows once more.
        """
        raise NotImplementedError

    def over_sample(self, own: Tensor, others: Tensor, truth: Truth) -> tuple[Tensor, Tensor, Tensor]:
        """The loss and its gradients by `own` and `others`.

        `own` [f] are the scores of the facts. `others` [m, s] are those of sampled entities, plus the logarithm of how many
        entities each stands for; -inf where the entity is an answer to the question. `others` may be overwritten.
        """
        raise NotImplementedError

    def over_negatives(self, positive: Tensor, negative: Tensor, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss and its gradients by the scores of facts [f] and of their negatives [f, k].

        A negative that is left out has the score -inf. The default differentiates `value`.
        """
        with torch.enable_grad():
            p, n = positive.detach().requires_grad_(), negative.detach().requires_grad_()
            loss = self.value(p, n, n.detach() > -torch.inf) @ share
            by_positive, by_negative = torch.autograd.grad(loss, (p, n))
        return loss.detach(), by_positive, by_negative

    def value(self, positive: Tensor, negative: Tensor, there: Tensor) -> Tensor:
        """The loss of each fact [f] from its score [f] and those of its negatives [f, k]; `there` marks those that count.

        It must have a finite gradient where a negative is -inf: leave these out with `torch.where(there, …)`.
        """
        raise NotImplementedError

    def refusal(self, kind: str) -> str:
        """Why this loss cannot be used with this kind of candidates, as the end of a sentence; empty if it can."""
        if self.smoothing and kind != "all":
            return f"loss.smoothing needs candidates.name = 'all', not {kind!r}; use --set candidates.name=all"
        if self._defined(kind):
            return ""
        others = [other for other in _METHODS if self._defined(other)]
        only = f", only for {' or '.join(map(repr, others))}; use --set candidates.name={others[0]}" if others else ""
        return f"it is not defined for candidates.name = {kind!r}{only}"

    def _defined(self, kind: str) -> bool:
        """True if the class has the method for this kind of candidates, or `value` for negatives."""
        method = _METHODS.get(kind, f"over_{kind}")
        own = getattr(type(self), method, None)
        return (own is not None and own is not getattr(Loss, method, None)) or (
            kind == "negatives" and type(self).value is not Loss.value
        )


class Softmax(Loss):
    """Cross entropy: −log softmax of each fact's score.

    `w0` weighs a fact by its answer's frequency: w(t) = w0·#t/max# + (1 − w0). `smoothing` ε gives each entity ε/|E| of the truth
    and each fact the rest; it needs the scores of all entities.
    """

    spreads = True

    def __init__(self, w0: float = 0.0, smoothing: float = 0.0) -> None:
        self.w0, self.smoothing = check_share("loss.w0", w0), check_share("loss.smoothing", smoothing)
        self._by_entity: Tensor | None = None

    def prepare(self, known: Known, frequency: Tensor) -> None:
        """w(t) of every entity."""
        self._by_entity = self.w0 * (frequency / frequency.max()) + (1 - self.w0) if self.w0 else None

    def weights(self, batch: Questions, answers: Tensor) -> Tensor | None:
        """w(t) of every fact."""
        return None if self._by_entity is None else self._by_entity[answers]

    def over_all_(
        self, scores: Tensor, truth: Truth, again: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """With softmax = exp / mass, the gradient of row i is factor · (exp − share · mass / Σ share at the answers).

        The factor Σ share / mass is the scale that is left to the caller. The exponentials are taken of the scores as they are,
        which saves two passes over the block. A row whose mass shows that they are too large or too small for that is scored
        again and its maximum subtracted.
        """
        row, share, smoothing = truth.row, truth.share, self.smoothing
        cell = row * scores.shape[1] + truth.column
        flat = scores.view(-1)
        own, ones, columns = flat[cell], scores.new_ones(scores.shape[1]), truth.columns(scores)
        mean = truth.mean(scores) if smoothing else None
        mass = scores.exp_() @ ones
        here = torch.zeros_like(mass).index_add_(0, row, share)
        mass, total = truth.total(torch.stack([mass, here])) if truth.spread else (mass, here)
        unsafe = (~((mass > 1 / SAFE_MASS) & (mass < SAFE_MASS))).nonzero().flatten()
        if len(unsafe):
            rescored = again(unsafe).to(scores.dtype)
            top = truth.highest(rescored.amax(1))
            scores[unsafe] = rescored.sub_(top[:, None]).exp_()
            mass[unsafe] = truth.total(rescored @ ones)
            shift = torch.zeros_like(mass).index_copy_(0, unsafe, top)
            own -= shift[row]
            mean = None if mean is None else mean - shift
        kept = -share if mean is None else share * (smoothing - 1)
        flat.index_add_(0, cell, kept * (mass / total)[row])
        loss = share @ mass.log()[row] - share @ own
        if mean is not None:
            loss += smoothing * (share @ own - here @ mean)
            scores.sub_((smoothing / columns) * mass[:, None])
        return loss, total / mass

    def over_sample(self, own: Tensor, others: Tensor, truth: Truth) -> tuple[Tensor, Tensor, Tensor]:
        """The sum over all entities is estimated: answers count exactly, each sampled entity stands for several."""
        row, share = truth.row, truth.share
        top = others.amax(1) if others.shape[1] else others.new_full((len(others),), -torch.inf)
        top = truth.highest(top.scatter_reduce_(0, row, own, "amax"))
        others.sub_(top[:, None]).exp_()
        mine = (own - top[row]).exp_()
        mass = others.sum(1).index_add_(0, row, mine)
        total = torch.zeros_like(top).index_add_(0, row, share)
        mass, total = truth.total(torch.stack([mass, total])) if truth.spread else (mass, total)
        loss = share @ (top + mass.log())[row] - share @ own
        factor = total / mass
        by_own = mine * factor[row] - share
        return loss, by_own, others.mul_(factor[:, None])

    def over_negatives(self, positive: Tensor, negative: Tensor, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cross entropy over the fact and its own negatives."""
        both = torch.cat([positive[:, None], negative], 1)
        loss = share @ (torch.logsumexp(both, 1) - positive)
        slopes = torch.softmax(both, 1) * share[:, None]
        return loss, slopes[:, 0] - share, slopes[:, 1:]


class BinaryCrossEntropy(Loss):
    """Each candidate is a yes or no question: mean of −y·log σ(s) − (1 − y)·log(1 − σ(s)).

    Over all entities the truth of a question has a 1 for each of its answers, and the mean is over questions and entities.
    `smoothing` ε turns y into (1 − ε)·y + 1/|E|, as ConvE's program does. Over negatives the mean is over a fact and its negatives.
    """

    spreads = True
    whole_questions = True

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = check_share("loss.smoothing", smoothing)

    def over_all_(
        self, scores: Tensor, truth: Truth, again: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """The gradient is (σ(s) − y) / (questions · |E|)."""
        each = truth.each / truth.columns(scores)
        cell = torch.unique(truth.row * scores.shape[1] + truth.column)
        flat = scores.view(-1)
        one, rest = 1 - self.smoothing, 1 / truth.columns(scores) if self.smoothing else 0.0
        loss = each * (softplus(scores).sum() - one * flat[cell].sum() - rest * scores.sum())
        scores.sigmoid_()
        flat[cell] -= one
        scores.sub_(rest).mul_(each)
        return loss, None

    def value(self, positive: Tensor, negative: Tensor, there: Tensor) -> Tensor:
        """Mean over 1 + k."""
        no = torch.where(there, softplus(torch.where(there, negative, 0.0)), 0.0).sum(1)
        return (softplus(-positive) + no) / (1 + there.sum(1))


class MarginRanking(Loss):
    """[margin + s(negative) − s(fact)]₊, mean over the negatives of a fact."""

    def __init__(self, margin: float = 1.0) -> None:
        if not margin >= 0:
            raise BadInput(f"loss.margin is {margin}, but a margin is zero or more")
        self.margin = margin

    def value(self, positive: Tensor, negative: Tensor, there: Tensor) -> Tensor:
        """The mean hinge."""
        hinges = torch.relu(self.margin + torch.where(there, negative, 0.0) - positive[:, None])
        return torch.where(there, hinges, 0.0).sum(1) / there.sum(1).clamp(min=1)


class SelfAdversarial(Loss):
    """The logistic loss of RotatE: (−log σ(γ + s) − Σ p_i·log σ(−γ − s_i)) / 2.

    The negatives are weighed by p = softmax(α·s_i), through which no gradient flows. γ is `margin`, α is `temperature`. With
    `subsampling` a fact weighs 1/√(#(h, r) + #(t, r⁻¹)), where # counts the training facts that share it, plus 3.
    """

    def __init__(self, margin: float = 9.0, temperature: float = 1.0, subsampling: bool = True) -> None:
        if not temperature >= 0:
            raise BadInput(f"loss.temperature is {temperature}, but it is zero or more")
        self.margin, self.temperature, self.subsampling = margin, temperature, subsampling
        self._known: Known | None = None

    def prepare(self, known: Known, frequency: Tensor) -> None:
        """Keep the training facts, to count those that share a question."""
        self._known = known if self.subsampling else None

    def weights(self, batch: Questions, answers: Tensor) -> Tensor | None:
        """1/√(#(h, r) + #(t, r⁻¹) + 6)."""
        if self._known is None:
            return None
        counts = self._known.counts(batch.head, batch.relation, batch.time)[batch.question]
        other = self._known.counts(*self._known.turned(batch))
        return torch.as_tensor(counts + other + 6.0).to(answers.device).rsqrt()

    def value(self, positive: Tensor, negative: Tensor, there: Tensor) -> Tensor:
        """See the class."""
        negative = torch.where(there, negative, 0.0)
        p = torch.softmax(torch.where(there, self.temperature * negative.detach(), -torch.inf), 1).nan_to_num(0.0)
        return (-logsigmoid(self.margin + positive) - (p * logsigmoid(-self.margin - negative)).sum(1)) / 2


def check_share(path: str, value: float) -> float:
    """The value if it is a share, else an error."""
    if not 0 <= value <= 1:
        raise BadInput(f"{path} is {value}, but it is a share between 0 and 1")
    return value
