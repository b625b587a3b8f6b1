"""Time to quality: MRR against minutes of training for dura, the paper's literal loop and PyKEEN.

    python benchmarks/quality.py run dura fb15k-237 --minutes 15 --out dura.jsonl --preset fb15k-237/complex-dura-laptop
    python benchmarks/quality.py run literal fb15k-237 --minutes 40 --out literal.jsonl
    python benchmarks/quality.py run pykeen fb15k-237 --minutes 40 --out pykeen.jsonl
    python benchmarks/quality.py command fb15k-237 --minutes 1 2 3 --out command.jsonl
    python benchmarks/quality.py plot dura.jsonl literal.jsonl pykeen.jsonl --target .35 --out quality.png --json quality.json
    python benchmarks/quality.py sampled fb15k-237 --samples 0 256 1024 4096 --minutes 10 --out sampled.jsonl

All systems train ComplEx with reciprocal relations. The clock starts with the first step. The minutes are divided into `--points`
equal parts. After each part, dura's evaluator ranks the tables; it is the same for all systems, and the clock stands still
meanwhile. Each result is written as a line at once, so a run may be killed at any moment. `plot` reads the files; a file may hold
several runs.

`command` is stricter to dura: its points are whole commands `dura train --graph GRAPH --minutes N`, from the start of Python to its
end, with reading, the search for settings and validation. Nothing is chosen by hand.

dura      a preset or settings, as for `dura train`.
literal   benchmarks/reference.py: batches of facts, the full score matrix, DURA, Adagrad with rate .1, no class weights.
pykeen    LCWA with cross entropy and inverse relations. There are two recipes, because PyKEEN has no DURA and no ComplEx
          settings for these graphs:
          "n3" (the default) is close to the literal loop: Adagrad with rate .1, start N(0, 1)·1e-3, and the third powers of the
          moduli as regularizer ("PowerSum", p 3). PyKEEN takes the mean over the heads and the relations of the batch and
          over all entities as tails.
          "published" has the best settings for cross entropy of PyKEEN's own study (Ali et al., "Bringing Light Into the Dark"):
          Adam, label smoothing, no regularizer. In that study FB15k-237 reached a test MRR of .282 (256 dimensions, about 150
          epochs) and WN18RR .485 (128 dimensions, about 200 epochs, no inverse relations). The WN18RR test was easier than
          the one here: it had only the 2,924 test facts whose entities occur in train.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
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
from dura.evaluation import metrics, rank
from dura.models import Model
from dura.runs.api import choose
from dura.runs.auto import settle
from dura.runs.build import build, questions_of, torch_settings
from dura.runs.presets import presets
from dura.training.trainer import Plan, Progress, Trainer
from dura.types import SPLITS, BadInput, DuraError
from reference import Reference, both_directions, step

WEIGHTS = {"fb15k-237": 0.05, "wn18rr": 0.1}
"""The weight λ of DURA (literal) and of the third powers (PyKEEN's "n3"). Other graphs have .01."""
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
    """Evaluates and writes a line after each part of the budget. Its clock stands still meanwhile."""

    path: Path
    system: str
    graph: Graph
    scorer: Callable[[], Model]
    seconds: float
    points: int
    spent: float = 0.0
    due: float = 0.0

    def start(self) -> None:
        """Start the clock: before the first step, and after each evaluation."""
        self.due, self.resumed = self.spent + self.seconds / self.points, time.perf_counter()

    def step(self, epoch: float, *, last: bool = False) -> None:
        """Call this after each step, with the passes over the facts so far. Writes a line if one is due; stops at the end."""
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


System = tuple[dict[str, Any], Callable[[], Model], Callable[[Curve], None]]
"""The settings, a function that returns the model for ranking, and the training, which reports each step to a curve."""


@dataclass
class Listener:
    """Reports dura's steps to the curve."""

    curve: Curve
    epochs: int

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Count epochs in fractions, since a slow epoch may span many points."""
        epoch = progress.epoch + progress.step / steps_in_epoch
        self.curve.step(epoch, last=epoch == self.epochs)

    def epoch(self, record: dict[str, Any]) -> None:
        """Nothing to do: the curve keeps its own time."""

    def notice(self, sentence: str) -> None:
        """Print the notice."""
        print(f"dura: {sentence}", file=sys.stderr, flush=True)


def own(arguments: argparse.Namespace, graph: Graph) -> System:
    """dura's trainer, without its validation."""
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
    """The paper's loop: batches of facts until the time is over."""
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
    """PyKEEN's ComplEx in its own training loop; a callback reports each step to the curve."""
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
    """A PyKEEN callback. A step ends when the next one begins: PyKEEN's "end of batch" comes before the update."""
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
    """Train dura with several sample sizes, one after the other, and write them into one file."""
    for samples in arguments.samples:
        drawn = {"name": "sample", "samples": samples, "draw": arguments.draw} if samples else {}
        settings = [*arguments.set, *(f"candidates.{key}={value}" for key, value in drawn.items())]
        label = f"{samples} samples, {arguments.draw}" if samples else "1-vs-all"
        run(argparse.Namespace(**vars(arguments) | {"system": "dura", "label": label, "set": settings}))


def whole_commands(arguments: argparse.Namespace) -> None:
    """Run `dura train --minutes` for several numbers of minutes; each is a point at the seconds that the command took."""
    graph, label = dura.load(arguments.graph), arguments.label or "dura train --minutes"
    about = {"label": label, "system": "command", "graph": graph.name, "minutes": max(arguments.minutes)}
    curve = Curve(arguments.out, "command", graph, lambda: model, 0.0, 1)
    curve.write(about | {"settings": {}, "machine": measure.machine()})
    for minutes in sorted(arguments.minutes):
        with tempfile.TemporaryDirectory() as folder:
            out, began = Path(folder) / "run", time.perf_counter()
            words = ["train", "--graph", arguments.graph, "--minutes", f"{minutes:g}", "--out", str(out)]
            subprocess.run([sys.executable, "-m", "dura", *words], check=True)
            curve.spent, trained = time.perf_counter() - began, dura.open(out)
            model = trained.model
            curve.due, curve.resumed, curve.seconds = 0.0, time.perf_counter(), math.inf
            curve.step(float(trained.experiment.training.epochs), last=True)


def read(paths: list[Path], target: float | None) -> list[dict[str, Any]]:
    """The runs in these files, each with its points and the minutes after which the target was first reached."""
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
    """Draw MRR against minutes, and write everything as JSON."""
    target, runs = arguments.target, read(arguments.files, arguments.target)
    if not runs:
        raise BadInput("these files hold no results yet")
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
    figure.legend(loc="outside lower center", ncols=2, title=title)  # there is no room for it between the curves
    measure.save(figure, arguments.out)


def legend(each: dict[str, Any], target: float | None) -> str:
    """The name of a run, and when it reached the target."""
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
        command.add_argument("--out", type=Path, required=True, help="file of JSON lines; results are appended")
        command.add_argument("--minutes", type=float, required=True, help="minutes of training")
        command.add_argument("--points", type=int, default=40, help="number of evaluations in this time")
        command.add_argument("--rank", type=int, default=200)
        command.add_argument("--threads", type=int, default=0, help="number of threads; 0: the system chooses")
        command.add_argument("--batch", type=int, help="facts per step (literal), questions per step (dura, PyKEEN)")
        command.add_argument("--weight", type=float, help="weight of the regularizer (literal, PyKEEN)")
        command.add_argument("--recipe", choices=("n3", "published"), default="n3", help="settings of PyKEEN")
        command.add_argument("--preset", help="preset of dura")
        command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of dura")
        command.add_argument("--label", help="the name in the plot")
    many.add_argument("--samples", type=int, nargs="+", default=[0, 256, 1024, 4096], help="sample sizes; 0: 1-vs-all")
    many.add_argument("--draw", choices=("uniform", "frequency"), default="uniform")
    whole = commands.add_parser("command", help="run whole commands: dura train --minutes N")
    whole.set_defaults(work=whole_commands)
    whole.add_argument("graph")
    whole.add_argument("--out", type=Path, required=True, help="file of JSON lines; results are appended")
    whole.add_argument("--minutes", type=float, nargs="+", default=[1, 2, 3], help="numbers of minutes to try")
    whole.add_argument("--label", help="the name in the plot")
    last = commands.add_parser("plot", help="draw MRR against minutes")
    last.set_defaults(work=plot)
    last.add_argument("files", type=Path, nargs="+")
    last.add_argument("--target", type=float, help="a test MRR to reach")
    last.add_argument("--out", type=Path, required=True)
    last.add_argument("--json", type=Path, required=True)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Run one of the four commands. An error is one sentence."""
    arguments = parse(words)
    try:
        arguments.work(arguments)
    except DuraError as error:
        sys.exit(f"quality: {error}")


if __name__ == "__main__":
    main()
