"""Ensemble: two runs of one graph answer together, as StAR does with RotatE. `dura ensemble` calls this.

The weights of the mixture are fitted with a hinge loss: a fact must score higher by a margin than answers that both models like but
that are not known. They are fitted on valid facts by default, because both models know the training facts by heart. Test facts are
never used to choose or to filter these answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dura.data.graph import Graph
from dura.data.questions import Questions, reciprocal
from dura.evaluation import Result, evaluate
from dura.evaluation.ranking import block_size
from dura.models.ensemble import Ensemble, mixed
from dura.records import write_atomic
from dura.runs.trained import open_run
from dura.types import BadInput, IntArray, Split

MOST_FACTS = 10_000
"""The weights are few, so this many facts are enough to fit them."""
Bar = Callable[[int, int], None]


@dataclass(frozen=True)
class Fitting:
    """How the weights of an ensemble are fitted: the settings of StAR's authors, but for `split`."""

    split: Literal["train", "valid"] = "valid"
    best: int = 1000
    margin: float = 0.6
    negatives: int = 5
    lr: float = 1e-3
    epochs: int = 3
    batch: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Examples:
    """What the mixture sees of each question of a fact."""

    ends: Tensor
    ambiguity: Tensor
    scores: Tensor
    """[n, 2, 1 + negatives · epochs]: both models' scores of the answer, then of the negatives."""
    alone: Tensor
    """[n, 1 + negatives · epochs]: 1 where α is 1."""
    side: Tensor
    """0 if the tail was asked, 1 if the head was."""


def ensemble(
    first: Path,
    second: Path,
    out: Path,
    fitting: Fitting | None = None,
    *,
    split: Split = "test",
    progress: Bar = lambda *_: None,
) -> Result:
    """Fit the mixture of two runs, rank the facts of a split with it, and keep weights and result in a new folder."""
    fitting = fitting or Fitting()
    if out.exists():
        raise BadInput(f"{out} exists already; name a new folder with --out")
    runs = [open_run(path) for path in (first, second)]
    graph = runs[0].graph
    if graph.digest != runs[1].graph.digest:
        raise BadInput(
            f"{first} and {second} were trained on other graphs or other splits, so they cannot answer together"
        )
    model = Ensemble(runs[0].model, runs[1].model, torch.from_numpy(graph.unseen), fitting.best)
    fit(model, graph, fitting, progress)
    size = max(1, block_size(model.sizes.entities) // 4)  # the mixture needs several blocks of scores at once
    result = evaluate(model, graph, split, block=size, progress=progress)
    _keep(out, model, {"first": str(first), "second": str(second), "fitting": asdict(fitting), **result.to_dict()})
    return result


def fit(model: Ensemble, graph: Graph, fitting: Fitting, progress: Bar = lambda *_: None) -> None:
    """Train the weights of the mixture with Adam."""
    with model.answering():
        seen = examples(model, graph, fitting, progress)
    rng, rule = torch.Generator().manual_seed(fitting.seed), torch.optim.Adam([model.weights], lr=fitting.lr)
    for epoch in range(fitting.epochs):
        own = slice(1 + epoch * fitting.negatives, 1 + (epoch + 1) * fitting.negatives)
        for part in torch.randperm(len(seen.side), generator=rng).split(fitting.batch):
            scores = _scores(model, seen, part)
            loss = (fitting.margin - scores[:, :1] + scores[:, own]).clamp(min=0).mean()
            rule.zero_grad()
            loss.backward()
            rule.step()


def _scores(model: Ensemble, seen: Examples, part: Tensor) -> Tensor:
    """The mixed scores of the answers and negatives of some questions."""
    weights = model.weights[seen.side[part]]
    logit = (weights[:, :-5] * seen.ambiguity[part]).sum(1, keepdim=True) + weights[:, -1:]
    own = torch.cat([seen.ends[part], logit, weights[:, -5:-1], torch.zeros_like(logit)], 1)
    one, two = seen.scores[part].unbind(1)
    return mixed(own[:, None], one, two, seen.alone[part])


def examples(model: Ensemble, graph: Graph, fitting: Fitting, progress: Bar = lambda *_: None) -> Examples:
    """Facts of the split from both sides, each with negatives for every epoch."""
    rng, relations = np.random.default_rng(fitting.seed), len(graph.relations)
    facts = graph.asked(fitting.split)
    if not len(facts):
        raise BadInput(f"the {fitting.split} split of the graph {graph.name!r} holds no facts to fit the ensemble on")
    facts = facts[rng.permutation(len(facts))[:MOST_FACTS]]
    asked = np.concatenate([facts, reciprocal(facts, relations)])
    known = Questions.of(graph.asked("train"), graph.asked("valid"), relations=relations)
    drawing = torch.Generator().manual_seed(fitting.seed)
    size, parts = max(1, block_size(model.sizes.entities) // 4), []
    for at in range(0, len(asked), size):
        parts.append(_examples(model, asked[at : at + size], known, fitting, drawing))
        progress(min(at + size, len(asked)), len(asked))
    columns = (torch.cat([getattr(part, name) for part in parts]) for name in Examples.__dataclass_fields__)
    return Examples(*columns)


def _examples(
    model: Ensemble, asked: IntArray, known: Questions, fitting: Fitting, drawing: torch.Generator
) -> Examples:
    head, relation, answer = (torch.from_numpy(asked[:, column].astype(np.int64)) for column in range(3))
    one, two = model.first.score_all(head, relation), model.second.score_all(head, relation)
    ends = model.ends(one, two)
    liked = (one - ends[:, :1]) * ends[:, 1:2] + (two - ends[:, 2:3]) * ends[:, 3:4]
    answers = known.known(asked[:, 0], asked[:, 1])
    liked[torch.from_numpy(answers.question), torch.from_numpy(answers.answers).long()] = -torch.inf
    best = liked.topk(min(model.best, liked.shape[1]), dim=1)
    there = best.values.isfinite().sum(1, keepdim=True)
    points = torch.rand(len(asked), fitting.negatives * fitting.epochs, generator=drawing)
    ids = torch.cat([answer[:, None], best.indices.gather(1, (points * there).long())], 1)
    scores = torch.stack([one.gather(1, ids), two.gather(1, ids)], 1)
    alone = torch.maximum(model.alone[ids], model.alone[head][:, None])
    return Examples(ends, model.ambiguity(one), scores, alone, (relation >= model.sizes.relations).long())


def _keep(out: Path, model: Ensemble, about: dict[str, object]) -> None:
    """Write the weights and the result."""
    from safetensors.torch import save

    out.mkdir(parents=True)
    write_atomic(out / "weights.safetensors", save({"weights": model.weights.detach()}))
    write_atomic(out / "ensemble.json", json.dumps(about, ensure_ascii=False, indent=2).encode())
