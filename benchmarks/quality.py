"""Time to quality: MRR against minutes of training for dura, the paper's literal loop and PyKEEN.

    python benchmarks/quality.py run dura fb15k-237 --minutes 15 --out dura.jsonl --preset fb15k-237/complex-dura-laptop
    python benchmarks/quality.py run literal fb15k-237 --minutes 40 --out literal.jsonl
    python benchmarks/quality.py run pykeen fb15k-237 --minutes 40 --out pykeen.jsonl
    python benchmarks/quality.py plot dura.jsonl literal.jsonl pykeen.jsonl --target .35 --out quality.png --json quality.json
    python benchmarks/quality.py sampled fb15k-237 --samples 0 256 1024 4096 --minutes 10 --out sampled.jsonl

All train ComplEx with reciprocal relations. After the first step past each share of the minutes (`--points`) the tables are
ranked by dura's own evaluator, the same for all; the clock stands still meanwhile and starts with the first step. A line of
figures is written at once, so that a run may be killed at any moment. `plot` reads the files, which may hold several runs each.

dura      a preset or settings, in the words of `dura train`.
literal   benchmarks/reference.py: batches of facts, the full score matrix, DURA, Adagrad with rate .1, no class weights.
pykeen    LCWA with cross entropy and inverse relations. Two recipes, for PyKEEN has no DURA and ships no ComplEx settings for
          these graphs. "n3" (the default) comes nearest to the literal loop: Adagrad with rate .1, start N(0, 1)·1e-3, the third
          powers of the moduli as regularizer ("PowerSum", p 3; PyKEEN takes the mean over the heads and the relations of the
          batch and over all entities as tails). "published" are the best settings for cross entropy of PyKEEN's own study (Ali
          et al., "Bringing Light Into the Dark"): Adam, label smoothing, no regularizer. There FB15k-237 reached a test MRR of
          .282 (256 dimensions, about 150 epochs) and WN18RR .485 (128 dimensions, some 200 epochs, no inverse relations, over
          the 2,924 test facts whose entities occur in train: a milder test than the one here).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dura
import measure
import rival
from dura.data.graph import Graph
from dura.evaluation import Scorer, metrics, rank
from dura.runs.api import choose
from dura.runs.auto import settle
from dura.runs.build import build, questions_of, torch_settings
from dura.runs.presets import presets
from dura.training.trainer import Plan, Progress, Trainer
from dura.types import SPLITS, BadInput, DuraError
from reference import Reference, both_directions, step

WEIGHTS = {"fb15k-237": 0.05, "wn18rr": 0.1}
"""The weight λ of DURA (literal) and of the third powers (PyKEEN's "n3"); .01 for other graphs."""
N3 = {"optimizer": "Adagrad", "lr": 0.1, "batch": 500, "smoothing": 0.0, "std": 1e-3}
PUBLISHED = {
    "fb15k-237": {"lr": 0.007525067744232913, "batch": 256, "smoothing": 0.08094657004944494},
    "wn18rr": {"lr": 0.0018284636926060019, "batch": 512, "smoothing": 0.6628146051390186},
}
"""PyKEEN's two recipes."""


class Spent(Exception):
    """The minutes are used up."""


@dataclass
class Curve:
    """Writes the figures each time another share of the budget has been trained; its clock stands still meanwhile."""

    path: Path
    system: str
    graph: Graph
    scorer: Callable[[], Scorer]
    seconds: float
    points: int
    spent: float = 0.0
    due: float = 0.0

    def start(self) -> None:
        """Training goes on; the first time before its first step."""
        self.due, self.resumed = self.spent + self.seconds / self.points, time.perf_counter()

    def step(self, epoch: float, *, last: bool = False) -> None:
        """A step is done, `epoch` passes over the facts in all; write a line if it is time, stop if all is spent."""
        spent = self.spent + time.perf_counter() - self.resumed
        if spent < self.due and not last:
            return
        line = {"system": self.system, "seconds": spent, "epoch": epoch}
        for split in SPLITS[1:]:
            ranks = rank(self.scorer(), self.graph.facts(split), self.graph.known, len(self.graph.relations))
            line[f"{split}_mrr"] = metrics(ranks).mrr
        self.write(line)
        if spent >= self.seconds:
            raise Spent
        self.spent = spent
        self.start()

    def write(self, line: dict[str, Any]) -> None:
        """Append a line; closing the file hands it to the system."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


System = tuple[dict[str, Any], Callable[[], Scorer], Callable[[Curve], None]]
"""What it is set to, its model as dura ranks it, and its training, which tells a curve of each step."""


@dataclass
class Listener:
    """Tells the curve of dura's steps."""

    curve: Curve
    epochs: int

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Epochs are counted in parts, for a slow one may take many points."""
        epoch = progress.epoch + progress.step / steps_in_epoch
        self.curve.step(epoch, last=epoch == self.epochs)

    def epoch(self, record: dict[str, Any]) -> None:
        """The curve keeps its own time."""

    def notice(self, sentence: str) -> None:
        """For whoever watches."""
        print(f"dura: {sentence}", file=sys.stderr, flush=True)


def own(arguments: argparse.Namespace, graph: Graph) -> System:
    """dura's trainer, without its own validation."""
    ours = [f"{graph.name}/{name}" for name in ("complex-dura-laptop", "complex-dura")]
    preset = arguments.preset or next((name for name in ours if name in presets()), None)
    settings = {"training.threads": str(arguments.threads)}
    settings |= {key: value for key, _, value in (text.partition("=") for text in arguments.set)}
    experiment = choose(preset, graph=graph.name, rank=arguments.rank, batch=arguments.batch, settings=settings)
    if experiment.training.batch == "auto":
        experiment, said = settle(experiment, graph)
        print(said, flush=True)
    parts, t = build(experiment, graph.sizes), experiment.training

    def train(curve: Curve) -> None:
        plan = Plan(epochs=t.epochs, batch=t.questions_a_step, seed=t.seed, anneal=t.anneal)
        live = (parts.model, parts.objective, parts.regularizer, parts.optimizer, questions_of(experiment, graph))
        trainer = Trainer(*live, plan, listeners=(Listener(curve, t.epochs),))
        with torch_settings(experiment, parts.model):
            curve.start()
            trainer.run()

    return experiment.to_dict(), lambda: parts.model, train


def literal(arguments: argparse.Namespace, graph: Graph) -> System:
    """The paper's loop: per-fact batches until the time is over."""
    batch, weight = arguments.batch or 1000, arguments.weight
    model = Reference("complex", graph.sizes.entities, graph.sizes.relations, arguments.rank)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    facts = both_directions(graph.train, graph.sizes.relations)

    def train(curve: Curve) -> None:
        curve.start()
        for epoch in itertools.count():
            for i, rows in enumerate(torch.randperm(len(facts)).split(batch)):
                step(model, optimizer, facts[rows], weight)
                curve.step(epoch + min(1, (i + 1) * batch / len(facts)))

    return {"rank": arguments.rank, "batch": batch, "weight": weight, "lr": 0.1}, model.as_dura, train


def recipe(arguments: argparse.Namespace, graph: Graph) -> dict[str, Any]:
    """PyKEEN's settings; see above."""
    if arguments.recipe == "n3":
        chosen = {**N3, "weight": arguments.weight}
    elif graph.name in PUBLISHED:
        chosen = {"optimizer": "Adam", **PUBLISHED[graph.name], "weight": 0.0, "std": 1.0}
    else:
        raise BadInput(f"PyKEEN's study has no settings for {graph.name}; only for {', '.join(PUBLISHED)}")
    return chosen | {"rank": arguments.rank, "batch": arguments.batch or chosen["batch"]}


def pykeen(arguments: argparse.Namespace, graph: Graph) -> System:
    """PyKEEN's ComplEx in its own training loop; a callback tells the curve of each step."""
    if rival.version() is None:
        raise BadInput("PyKEEN is not installed: pip install pykeen")
    settings, facts = recipe(arguments, graph), rival.factory(graph.train, graph.sizes)
    start = partial(nn.init.normal_, std=settings["std"])
    powers = {"weight": settings["weight"], "p": 3.0, "normalize": False}
    model = rival.part("models").ComplEx(
        triples_factory=facts,
        embedding_dim=arguments.rank,
        entity_initializer=start,
        relation_initializer=start,
        loss="crossentropy",
        random_seed=0,
        regularizer="powersum" if powers["weight"] else rival.part("regularizers").NoRegularizer(),
        regularizer_kwargs=powers,
    )

    def train(curve: Curve) -> None:
        optimizer = {"optimizer": settings["optimizer"], "optimizer_kwargs": {"lr": settings["lr"], "fused": True}}
        loop = rival.part("training").LCWATrainingLoop(
            model=model, triples_factory=facts, automatic_memory_optimization=False, **optimizer
        )
        chosen = {"batch_size": settings["batch"], "label_smoothing": settings["smoothing"]}
        plain = {"num_workers": 0, "pin_memory": False, "use_tqdm": False, "use_tqdm_batch": False}
        callback = watch(curve, math.ceil(len(graph.questions) / settings["batch"]))
        loop.train(facts, num_epochs=10**6, callbacks=callback, **chosen, **plain)

    return {"recipe": arguments.recipe, **settings}, lambda: rival.tables(model), train


def watch(curve: Curve, steps_in_epoch: int) -> Any:
    """A callback of PyKEEN's. A step is over when the next one begins: what it calls the end of a batch is before the update."""
    steps = itertools.count()

    def pre_batch(*_: Any, **__: Any) -> None:
        done = next(steps)
        curve.step(done / steps_in_epoch) if done else curve.start()

    return type("Watch", (rival.part("training.callbacks").TrainingCallback,), {"pre_batch": pre_batch})()


SYSTEMS = {"dura": ("dura", own), "literal": ("literal loop", literal), "pykeen": ("PyKEEN", pykeen)}


def run(arguments: argparse.Namespace) -> None:
    """Train one system until its minutes are over."""
    graph = dura.load(arguments.graph)
    if arguments.weight is None:
        arguments.weight = WEIGHTS.get(graph.name, 0.01)
    torch.set_num_threads(arguments.threads or torch.get_num_threads())
    torch.manual_seed(0)
    name, build_system = SYSTEMS[arguments.system]
    settings, scorer, train = build_system(arguments, graph)
    about = {
        "label": arguments.label or (f"{name}, {arguments.recipe}" if arguments.system == "pykeen" else name),
        "system": arguments.system,
        "graph": graph.name,
        "minutes": arguments.minutes,
        "settings": settings,
        "machine": measure.machine(),
    }
    curve = Curve(arguments.out, arguments.system, graph, scorer, 60 * arguments.minutes, arguments.points)
    curve.write(about)
    with suppress(Spent):
        train(curve)


def sampled(arguments: argparse.Namespace) -> None:
    """dura with several sample sizes, one after the other, into one file."""
    for samples in arguments.samples:
        drawn = {"name": "sampled-cross-entropy", "samples": samples, "draw": arguments.draw} if samples else {}
        settings = [*arguments.set, *(f"objective.{key}={value}" for key, value in drawn.items())]
        label = f"{samples} samples, {arguments.draw}" if samples else "1-vs-all"
        run(argparse.Namespace(**vars(arguments) | {"system": "dura", "label": label, "set": settings}))


def read(paths: list[Path], target: float | None) -> list[dict[str, Any]]:
    """The runs of these files, each with its points and the minutes at which the target was first measured."""
    runs: list[dict[str, Any]] = []
    for path in paths:
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if "seconds" in line:
                runs[-1]["points"].append(line)
            else:
                runs.append({**line, "points": []})
    for each in runs:
        reached = (p["seconds"] / 60 for p in each["points"] if target is not None and p["test_mrr"] >= target)
        each["minutes_to_target"] = next(reached, None)
    return [each for each in runs if each["points"]]


def plot(arguments: argparse.Namespace) -> None:
    """MRR against minutes, and all of it as JSON."""
    target, runs = arguments.target, read(arguments.files, arguments.target)
    if not runs:
        raise BadInput("these files hold no figures yet")
    measure.write(arguments.json, {"target": target, "runs": runs})
    pyplot = measure.plotting()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(figsize=(7.5, 5.0))
    for each, marker in zip(runs, itertools.cycle(measure.MARKERS)):
        minutes, test = [p["seconds"] / 60 for p in each["points"]], [p["test_mrr"] for p in each["points"]]
        axes.plot(minutes, test, label=legend(each, target), marker=marker, markersize=4)
    if target is not None:
        axes.axhline(target, color="black", linestyle="--", linewidth=1)
        axes.set_ylim(0, None)
    axes.set(xlabel="minutes of training, evaluation not counted", ylabel="filtered MRR on test", xscale="log")
    axes.set_title(f"ComplEx on {runs[0]['graph']}: quality against time")
    axes.xaxis.set(major_locator=pyplot.LogLocator(subs=(1, 2, 5)), minor_formatter=pyplot.NullFormatter())
    axes.xaxis.set_major_formatter("{x:g}")
    title = None if target is None else f"time to MRR {target:g}"
    figure.legend(loc="outside lower center", ncols=2, title=title)  # curves leave no room for it between them
    measure.save(figure, arguments.out)


def legend(each: dict[str, Any], target: float | None) -> str:
    """The name of a run and when it reached the target."""
    if target is None:
        return str(each["label"])
    reached, trained = each["minutes_to_target"], each["points"][-1]["seconds"] / 60
    return f"{each['label']}: " + (f"{reached:.1f} min" if reached else f"not reached in {trained:.0f} min")


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run", help="train one system")
    one.add_argument("system", choices=SYSTEMS)
    many = commands.add_parser("sampled", help="train dura with 1-vs-all and with several sample sizes")
    for command, work in ((one, run), (many, sampled)):
        command.set_defaults(work=work)
        command.add_argument("graph")
        command.add_argument("--out", type=Path, required=True, help="JSON lines, appended to")
        command.add_argument("--minutes", type=float, required=True, help="of training")
        command.add_argument("--points", type=int, default=40, help="how often to evaluate in this time")
        command.add_argument("--rank", type=int, default=200)
        command.add_argument("--threads", type=int, default=0, help="0 = as the system chooses")
        command.add_argument("--batch", type=int, help="facts a step (literal), questions a step (dura, PyKEEN)")
        command.add_argument("--weight", type=float, help="of the regularizer (literal, PyKEEN)")
        command.add_argument("--recipe", choices=("n3", "published"), default="n3", help="of PyKEEN")
        command.add_argument("--preset", help="of dura")
        command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting of dura")
        command.add_argument("--label", help="the name in the plot")
    many.add_argument("--samples", type=int, nargs="+", default=[0, 256, 1024, 4096], help="0 = 1-vs-all")
    many.add_argument("--draw", choices=("uniform", "frequency"), default="uniform")
    last = commands.add_parser("plot", help="draw MRR against minutes")
    last.set_defaults(work=plot)
    last.add_argument("files", type=Path, nargs="+")
    last.add_argument("--target", type=float, help="a test MRR to reach")
    last.add_argument("--out", type=Path, required=True)
    last.add_argument("--json", type=Path, required=True)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """One of the three commands; what is wrong with it is one sentence."""
    arguments = parse(words)
    try:
        arguments.work(arguments)
    except DuraError as error:
        sys.exit(f"quality: {error}")


if __name__ == "__main__":
    main()
