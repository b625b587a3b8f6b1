"""Trainer: epochs of steps over batches of questions, with validation, early stopping, checkpoints and resume.

The trainer knows neither graphs nor ranking: it receives `Questions` and a `validate` callable. Its whole state is the model's
state (tables and buffers), the optimizer's state and `Progress`. The order of batches follows from (seed, epoch), and everything
random in a step from (seed, step). So a run that continues from a checkpoint takes the same steps as one that never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dura import world
from dura.data.questions import Questions
from dura.models import Model, restore
from dura.objectives import Objective
from dura.objectives.deal import Deal
from dura.regularizers import Regularizer
from dura.tables.table import Table
from dura.training.alternating import Alternating
from dura.training.checkpoint import Checkpoints
from dura.training.optimizers import RowAdagrad
from dura.training.progress import Interrupted, Listener, Plan, Progress
from dura.training.restoring import check_progress, fill_optimizer
from dura.training.team import align, fetch, of_all, of_this, share_gradients
from dura.types import DuraError

__all__ = ["Interrupted", "Listener", "Plan", "Progress", "Trainer"]

COLLAPSED = 1e-3
"""A mean penalty per fact below this, without its weight, means that all embeddings are nearly zero."""


class Trainer:
    """Trains `model` in place on `questions`. `run` returns the final progress; `best_state` is the model's best state.

    `smooth` takes the number of a step. It is a penalty on the tables that adds its own gradient. `redraw` gives the questions of
    an epoch, if they differ from epoch to epoch. Then `facts` are all training facts, which losses and candidates may count and
    filter.
    `rejected` is the loss of facts that should score low.
    """

    def __init__(
        self,
        model: Model,
        objective: Objective,
        regularizer: Regularizer,
        optimizer: torch.optim.Optimizer,
        questions: Questions,
        plan: Plan,
        *,
        validate: Callable[[], dict[str, float]] | None = None,
        checkpoints: Checkpoints | None = None,
        listeners: tuple[Listener, ...] = (),
        stopped: Callable[[], bool] = lambda: False,
        smooth: Callable[[int], Tensor | float] = lambda _: 0.0,
        redraw: Callable[[int], Questions] | None = None,
        facts: Questions | None = None,
        rejected: Callable[[Model, int, int], Tensor | float] = lambda *_: 0.0,
    ) -> None:
        self.model, self.objective, self.regularizer, self.optimizer = model, objective, regularizer, optimizer
        self.questions, self.plan, self.validate = questions, plan, validate
        self._all = questions
        self.checkpoints, self.listeners, self.stopped = checkpoints, listeners, stopped
        self.smooth, self.redraw, self.rejected = smooth, redraw, rejected
        self.progress = Progress()
        self.best_state: dict[str, Tensor] = {}
        self.device = model.device
        objective.prepare(questions, model, facts)
        self._normed = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules())
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.steps_in_epoch = self._steps()
        self._saved_at = time.monotonic()
        self._collapsed, self._penalty = False, math.inf
        self._wishes, self._facts = (False, False), 0
        self._tails = regularizer.reads_tails or any(term.ask != "tails" for term in objective.terms)

    # -- the loop ---------------------------------------------------------------------------------------------------

    def run(self) -> Progress:
        """Train from `progress` to the last epoch, or until validation stops improving."""
        while not self.progress.done and self.progress.epoch < self.plan.epochs:
            self._epoch()
        infinite = sum(int(not parameter.isfinite().all()) for parameter in self.model.parameters())
        if int(world.total(torch.tensor(infinite), "all")):
            raise self._diverged(math.nan, math.nan)
        if not self.progress.done:
            self.progress = replace(self.progress, done=True)
        self.save()
        return self.progress

    def _epoch(self) -> None:
        p = self.progress
        if self.redraw is not None:
            self._all = self.redraw(p.epoch)
        lesson = self.model.lesson(p.epoch, self._all.time)
        self.questions = self._all if lesson is None else self._all.take(lesson)
        self.steps_in_epoch = self._steps()
        self.objective.begin(p.epoch, self.plan.epochs)
        for batch in self._batches(p):
            began = time.perf_counter()
            loss, penalty = self.step(batch)
            p = self.progress
            spent = time.perf_counter() - began
            self.progress = replace(
                p,
                step=p.step + 1,
                steps=p.steps + 1,
                loss=p.loss + loss,
                penalty=p.penalty + penalty,
                facts=p.facts + self._facts,
                seconds=p.seconds + spent,
                epoch_seconds=p.epoch_seconds + spent,
            )
            for listener in self.listeners:
                listener.step(self.progress, self.steps_in_epoch)
            self._between_steps()
        self._end_of_epoch()

    def _steps(self) -> int:
        """How many steps an epoch has. A sweep of alternating least squares is one step."""
        return 1 if isinstance(self.optimizer, Alternating) else math.ceil(len(self.questions) / self.plan.batch)

    def _batches(self, p: Progress) -> Iterator[Questions]:
        """What is left of an epoch: this replica's part of its batches, or all questions if the epoch is one sweep."""
        if isinstance(self.optimizer, Alternating):
            yield from (self.questions for _ in range(p.step, 1))
            return
        part = world.grid().replica, world.grid().replicas
        yield from self.questions.batches(self.plan.batch, self.plan.seed, p.epoch, start=p.step, part=part)

    def step(self, batch: Questions) -> tuple[float, float]:
        """One step of the optimizer on a batch, of which each replica has its part. Returns (loss, penalty)."""
        if isinstance(self.optimizer, Alternating):
            self._facts = batch.facts
            return self._finite(*self.optimizer.sweep(self.model, batch, self.progress.epoch))
        seed = self._draw()
        # A batch of one question has no variance: batch norm then uses its running mean and variance.
        self.model.train(not (self._normed and len(batch) == 1))
        with self._seeded(seed):
            values = self._finite(*self._gradients(batch, seed))
        if self.plan.anneal:
            self._anneal()
        self._update()
        return values

    def _finite(self, loss: float, penalty: float) -> tuple[float, float]:
        if not (math.isfinite(loss) and math.isfinite(penalty)):
            raise self._diverged(loss, penalty)
        return loss, penalty

    def _gradients(self, batch: Questions, seed: int) -> tuple[float, float]:
        """Loss and penalty of a batch, with all gradients collected, those of other processes too."""
        deal = Deal.of(batch)
        own, self._facts = deal.mine, deal.facts
        fetch(self.model, deal, self._tails)
        head, relation, question, answers = (
            torch.as_tensor(ids).to(self.device, torch.long)
            for ids in (own.head, own.relation, own.question, own.answers)
        )
        time = None if own.time is None else torch.as_tensor(own.time).to(self.device, torch.long)
        factors = self.model.factors(head, relation, question, answers, time)
        loss, carrier = self.objective(self.model, factors.query, deal, seed)
        penalty = self.regularizer(replace(factors, whole=deal.facts))
        own_penalty = self.model.penalty(
            head[question], relation[question], answers, None if time is None else time[question]
        )
        penalty = penalty if own_penalty is None else penalty + own_penalty
        refused = self.rejected(self.model, seed, deal.facts)
        loss, carrier = loss + refused, carrier + refused
        # Gradients are summed over processes, and this one counts once.
        smooth = self.smooth(self.progress.steps) if world.grid().rank == 0 else 0.0
        # A scalar that carries the gradients: if backward is given tensors, torch imports sympy, which takes most of a second.
        if (total := torch.add(carrier, penalty)).requires_grad:
            total.backward()
        return self._shared(float(loss.detach()), float(penalty.detach() + smooth))

    def _shared(self, loss: float, penalty: float) -> tuple[float, float]:
        """Sum gradients, loss and penalty over processes. They also agree on whether to stop and whether to save."""
        if world.count("all") == 1:
            return loss, penalty
        stop, save = self._wanted()
        loss, penalty, stops, saves = share_gradients(
            self.model, [loss, penalty, float(stop), float(save and world.leads())]
        )
        self._wishes = stops > 0, saves > 0
        return loss, penalty

    def _wanted(self) -> tuple[bool, bool]:
        """Whether this process wants to stop, and whether it is time for a checkpoint."""
        return self.stopped(), time.monotonic() - self._saved_at > self.plan.checkpoint_every > 0

    @contextmanager
    def _seeded(self, seed: int) -> Iterator[None]:
        """Random layers draw from the seed of the step; afterwards torch's generator is as before."""
        if not self.model.random:
            yield
            return
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed + world.grid().rank)  # each process has other questions, so it draws other numbers
            yield

    def _draw(self) -> int:
        """The seed of this step. It follows from the number of steps, so a resumed run draws the same."""
        return int(np.random.SeedSequence([self.plan.seed, self.progress.steps]).generate_state(1, np.uint64)[0] >> 1)

    def _update(self) -> None:
        """One step of the optimizer; then the gradients count as zero."""
        if not isinstance(self.optimizer, RowAdagrad):  # which asks each table for the rows that it needs
            for table in self.model.parameters():
                if isinstance(table, Table) and table.requires_grad:
                    table.gradient()
        self.optimizer.step()
        for table in self.model.parameters():
            if isinstance(table, Table):
                table.forget()
            else:
                table.grad = None
        with torch.no_grad():
            self.model.constrain()

    def _anneal(self) -> None:
        """Set the learning rate of this step. It follows from the number of steps, so a resumed run has the same."""
        left = (self.plan.epochs - self.progress.epoch) * self.steps_in_epoch - self.progress.step
        share = min(1.0, left / (min(self.plan.anneal, self.plan.epochs) * self.steps_in_epoch))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * share

    def _diverged(self, loss: float, penalty: float) -> DuraError:
        p = self.progress
        weight = "smaller" if math.isfinite(loss) else "larger"
        error = DuraError(
            f"the loss became {loss} and the penalty {penalty} at step {p.step + 1} of epoch {p.epoch + 1}; "
            f"train again with a smaller learning rate (--lr) or a {weight} regularizer.weight"
        )
        error.shared = True
        return error

    # -- between steps and epochs -----------------------------------------------------------------------------------

    def _between_steps(self) -> None:
        stop, save = self._wanted() if world.count("all") == 1 else self._wishes
        if stop or save:
            self.save()
        if stop:
            p = self.progress
            raise Interrupted(f"stopped after step {p.step} of epoch {p.epoch + 1}")

    def _end_of_epoch(self) -> None:
        align(self.model, self.optimizer)
        p, steps = self.progress, max(1, self.steps_in_epoch)
        record: dict[str, Any] = {
            "epoch": p.epoch + 1,
            "loss": p.loss / steps,
            "penalty": p.penalty / steps,
            "facts_per_second": p.facts / max(p.epoch_seconds, 1e-9),
            "seconds": p.seconds,
        }
        p = replace(p, epoch=p.epoch + 1, step=0, loss=0.0, penalty=0.0, facts=0, epoch_seconds=0.0)
        last = p.epoch == self.plan.epochs
        if self.validate is not None and (last or p.epoch % self.plan.validate_every == 0):
            metrics = self._validated(p)
            record["valid"] = metrics
            p = self._judge(p, metrics["mrr"])
            record["best"] = p.best_epoch == p.epoch
        self.progress = p
        for listener in self.listeners:
            listener.epoch(record)
        self._watch_collapse(record["penalty"])

    def _watch_collapse(self, penalty: float) -> None:
        """Warn once if the regularizer wins: the penalty is nearly zero and still falls. (It starts near zero too.)"""
        before, self._penalty = self._penalty, penalty
        if 0 < penalty < COLLAPSED * self.regularizer.weight and penalty < before < math.inf and not self._collapsed:
            self._collapsed = True
            self.notice(
                f"the regularizer has pulled the embeddings to nearly zero by epoch {self.progress.epoch}, so the model cannot "
                f"tell answers apart; try a smaller regularizer.weight than {self.regularizer.weight:g}"
            )

    def _validated(self, p: Progress) -> dict[str, float]:
        """The metrics of `validate`. If the model cannot be ranked, the sentence says after which step."""
        assert self.validate is not None
        try:
            return self.validate()
        except DuraError as error:
            said = DuraError(f"after step {p.steps}, the end of epoch {p.epoch}: {error}")
            said.shared = error.shared
            raise said from None

    def renew_best(self) -> None:
        """Make the current state the best one."""
        assert self.validate is not None
        self.progress = replace(self.progress, best=self.validate()["mrr"], best_epoch=self.progress.epoch, stale=0)
        self._keep_best(self.progress)

    def _judge(self, p: Progress, mrr: float) -> Progress:
        """Keep the best state. Stop if MRR has not improved for `patience` validations."""
        if mrr > p.best:
            p = replace(p, best=mrr, best_epoch=p.epoch, stale=0)
            self._keep_best(p)
            return p
        stale = p.stale + 1
        return replace(p, stale=stale, done=0 < self.plan.patience <= stale)

    def _keep_best(self, p: Progress) -> None:
        if self.checkpoints is None:
            self.best_state = {name: tensor.clone() for name, tensor in self.model.state().items()}
        else:
            tensors = of_all(self.model, self.model.state())
            self.checkpoints.save_best(p.steps, tensors, {"epoch": p.epoch, "valid_mrr": p.best})

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint: the model's state, the optimizer's state and progress."""
        if self.checkpoints is None:
            return
        names = [name for name, _ in self.model.named_parameters()]
        tensors = of_all(self.model, {f"model.{name}": tensor for name, tensor in self.model.state().items()})
        for i, slots in self.optimizer.state_dict()["state"].items():
            tensors |= of_all(self.model, {f"optimizer.{names[i]}.{slot}": value for slot, value in slots.items()})
        state = {"progress": asdict(self.progress), "threads": torch.get_num_threads()}
        self.checkpoints.save(self.progress.steps, tensors, state)
        self._saved_at = time.monotonic()

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from a checkpoint that `save` wrote. Each process takes its rows."""
        progress, renamed = check_progress(state, list(Progress.__dataclass_fields__)), self.model.renamed
        own = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
        restore(self.model, own)
        slots = of_this(self.model, {name: t for name, t in tensors.items() if name.startswith("optimizer.")})
        fill_optimizer(self.optimizer, [name for name, _ in self.model.named_parameters()], slots, renamed)
        self.progress = Progress(**progress)
        if state["threads"] != torch.get_num_threads():
            self.notice(
                f"the run used {state['threads']} threads so far and now uses {torch.get_num_threads()}: "
                "its numbers may differ in the last digits from those of an uninterrupted run"
            )

    def notice(self, sentence: str) -> None:
        """Tell every listener."""
        for listener in self.listeners:
            listener.notice(sentence)
