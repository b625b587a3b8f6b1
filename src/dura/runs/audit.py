"""Audit: the least plausible training facts of a graph. No fact is judged by a model that was trained on it (cross-fitting).

The training facts are dealt into folds (`dura.data.folds`). For each fold a model with the run's settings is trained on the other
folds; it judges the facts of the fold (`dura.inference.judge`). `dura audit` and `Trained.audit` call this. The work is kept in a
folder, with one file per finished fold, so an audit that was stopped continues where it was.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dura.config import Experiment
from dura.data.folds import KEPT, deal
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.data.reviews import Reviews
from dura.inference.found import Found
from dura.inference.judge import Judged, judge
from dura.models.combined import refuse_combined
from dura.records import Damage, Missing, RunFolder, best_epoch, read_bytes, read_json, remedy, write_atomic
from dura.runs.store import read_graph, read_settings
from dura.training.progress import Interrupted
from dura.types import BadInput, DuraError, IntArray

if TYPE_CHECKING:
    from dura.runs.exploring import Exploring

FOLDER = "audit"
"""Where the audit of a run is kept, in its folder."""
FORMAT = 1
"""The format of the folder of an audit."""
Bar = Callable[[int, int], None]
Stopped = Callable[[], bool]


@dataclass(frozen=True)
class Plan:
    """How an audit is made. `epochs` is how long the model of each fold is trained."""

    folds: int
    epochs: int
    seed: int = 0
    pairs: bool = False


def audit(
    trained: Exploring,
    *,
    folds: int = 5,
    top: int = 100,
    epochs: int | None = None,
    seed: int = 0,
    pairs: bool = False,
    jobs: int = 1,
    folder: str | Path | None = None,
    progress: Bar | None = None,
    stopped: Stopped | None = None,
) -> Found:
    """The `top` least plausible training facts, most doubtful first. Facts that people have accepted are left out."""
    refuse_combined(trained.model, "trained again to audit its facts")
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise BadInput(f"top is {top!r}, but it must be a whole number of at least 1")
    if jobs < 1 or (jobs > 1 and trained.path is None):
        raise BadInput(f"jobs is {jobs}, but it must be at least 1, and more than 1 needs a run in a folder")
    plan = plan_of(trained.path, trained.experiment, folds, epochs, seed, pairs)
    with ExitStack() as stack:
        if folder is None and trained.path is None:
            folder = Path(stack.enter_context(TemporaryDirectory())) / "audit"
        place = Path(folder or cast(Path, trained.path) / FOLDER)
        fold, judged = cross_fitted(
            trained.experiment,
            trained.graph,
            plan,
            place,
            run=trained.path,
            jobs=jobs,
            progress=progress or (lambda *_: None),
            stopped=stopped or (lambda: False),
        )
    return _found(trained.graph, plan, fold, judged, top)


def _found(graph: Graph, plan: Plan, fold: IntArray, judged: Judged, top: int) -> Found:
    """The facts with the lowest values by their names, with ranks and shares."""
    value = judged.plausibility(graph.train[:, 1], degrees(graph.train, fold))
    if graph.reviews is not None:
        value = np.where(_accepted(graph, graph.reviews), np.nan, value)
    order = np.argsort(value, kind="stable")[: min(top, int(np.isfinite(value).sum()))]
    numbers = {
        "plausibility": value[order],
        "tail_rank": judged.rank[order, 0],
        "head_rank": judged.rank[order, 1],
        "tail_share": np.exp(judged.share[order, 0]),
        "head_share": np.exp(judged.share[order, 1]),
    }
    kept = int((fold == KEPT).sum())
    about = {**asdict(plan), "judged": len(fold) - kept, "not_judged": kept}
    return Found.of(graph, graph.train[order], numbers, about)


def degrees(facts: IntArray, fold: IntArray) -> IntArray:
    """How many facts outside of its fold each fact's head and tail have [n, 2]."""
    ends = facts[:, [0, 2]].astype(np.int64)
    entities = int(ends.max(initial=0)) + 1
    every = np.bincount(ends.ravel(), minlength=entities)
    found = every[ends]
    for number in range(int(fold.max(initial=-1)) + 1):
        own = fold == number
        found[own] -= np.bincount(ends[own].ravel(), minlength=entities)[ends[own]]
    return np.asarray(found)


def _accepted(graph: Graph, reviews: Reviews) -> NDArray[np.bool_]:
    """True for training facts that people have accepted."""
    accepted = Questions.of(reviews.accepted, relations=reviews.relations)
    asked = graph.train[:, :4].astype(np.int64)
    found = accepted.known(asked[:, 0], asked[:, 1], asked[:, 3] if asked.shape[1] > 3 else None)
    which = found.question[found.answers == asked[found.question, 2]]
    return np.bincount(which, minlength=len(asked)) > 0


def plan_of(run: Path | None, experiment: Experiment, folds: int, epochs: int | None, seed: int, pairs: bool) -> Plan:
    """The plan for a run. Unless it is given, the number of epochs is that of the run's best validation, or of its settings."""
    if epochs is not None and epochs < 1:
        raise BadInput(f"epochs is {epochs}, but the model of a fold is trained for at least 1")
    best = best_epoch(RunFolder.open(run).records()) if run is not None else None
    return Plan(folds, epochs or (best["epoch"] if best else experiment.training.epochs), seed, pairs)


def cross_fitted(
    experiment: Experiment,
    graph: Graph,
    plan: Plan,
    folder: Path,
    *,
    run: Path | None = None,
    jobs: int = 1,
    progress: Bar = lambda *_: None,
    stopped: Stopped = lambda: False,
) -> tuple[IntArray, Judged]:
    """The fold of each training fact, and how it is judged by the model of its fold; NaN if it is in no fold.

    With several `jobs` as many folds are trained at a time, each in a process of its own, which needs the folder of the `run`.
    """
    fold = deal(graph.train, plan.folds, plan.seed, pairs=plan.pairs)  # first, because it may refuse the plan
    prepare(folder, experiment, graph, plan)
    left = [number for number in range(plan.folds) if _read(folder, number, int((fold == number).sum())) is None]
    progress(plan.folds - len(left), plan.folds)
    if jobs > 1 and run is not None:
        _in_workers(run, folder, plan, left, jobs, progress, stopped)
    else:
        for number in left:
            _fold(experiment, graph, plan, fold, number, folder, stopped)
            progress(number + 1, plan.folds)
    share, rank = (np.full((len(fold), 2), np.nan) for _ in range(2))
    for number in range(plan.folds):
        found = _read(folder, number, int((fold == number).sum()))
        assert found is not None
        share[fold == number], rank[fold == number] = found.share, found.rank
    return fold, Judged(share, rank)


def prepare(folder: Path, experiment: Experiment, graph: Graph, plan: Plan) -> None:
    """Make the folder of an audit, or check that it is one of this plan, these settings and this graph."""
    wanted = {"format": FORMAT, **asdict(plan), "graph": graph.digest, "settings": experiment.to_dict()}
    wanted = json.loads(json.dumps(wanted))
    try:
        with remedy(f"delete {folder} to begin again"):
            found = read_json(folder, "audit.json")
    except Missing:
        if folder.exists() and any(folder.iterdir()):
            raise BadInput(
                f"{folder} is not an empty folder and holds no audit; name another one with --folder"
            ) from None
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "audit.json", (json.dumps(wanted, indent=1) + "\n").encode())
        return
    if isinstance(found.get("format"), int) and found["format"] > FORMAT:
        raise DuraError(f"{folder} has format {found['format']}, but this dura reads up to {FORMAT}; update dura")
    for key in wanted:
        if found.get(key) != wanted[key]:
            here = f" ({found.get(key)!r} there, {wanted[key]!r} here)" if isinstance(wanted[key], int | bool) else ""
            raise BadInput(
                f"{folder} holds an audit with another {key}{here}; delete it, or name another folder with --folder"
            )


def _fold(
    experiment: Experiment, graph: Graph, plan: Plan, fold: IntArray, number: int, folder: Path, stopped: Stopped
) -> None:
    """Train the model of a fold, or continue with it, and write what it makes of the fold's facts."""
    from dura.runs.work import train_or_resume

    own, none = graph.train[fold == number], graph.train[:0]
    rest = replace(graph, train=graph.train[fold != number], valid=none, test=none, home=None, reviews=None)
    out = folder / f"fold-{number + 1}"
    said = f"the audit in {folder} was stopped; the same command continues it"
    try:
        trained = train_or_resume(settings_of(experiment, plan), out, rest, stopped=stopped)
    except Interrupted:
        raise Interrupted(said) from None

    def check(_done: int, _all: int) -> None:
        if stopped():
            raise Interrupted(said)

    asked = own[:, :4]
    found = judge(trained.model, asked, graph.known, len(graph.relations), progress=check)
    _write(folder, number, found)
    shutil.rmtree(out)  # its tables are no longer needed


def settings_of(experiment: Experiment, plan: Plan) -> Experiment:
    """The settings of the models of the folds: those of the run, with the plan's epochs and no validation."""
    t = experiment.training
    anneal = round(t.anneal * plan.epochs / t.epochs) if t.epochs else 0
    return replace(experiment, training=replace(t, epochs=plan.epochs, anneal=anneal, patience=0), expected={})


def _write(folder: Path, number: int, found: Judged) -> None:
    from safetensors.numpy import save

    write_atomic(folder / f"fold-{number + 1}.safetensors", save({"share": found.share, "rank": found.rank}))


def _read(folder: Path, number: int, facts: int) -> Judged | None:
    """What the model of a fold makes of its facts; None if it has not judged them yet."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    name = f"fold-{number + 1}.safetensors"
    try:
        found = load(read_bytes(folder, name, 1 << 20 | 64 * facts))
    except Missing:
        return None
    except SafetensorError as error:
        raise Damage(f"{folder / name} is damaged: {error}; delete it, and the fold is judged again") from None
    if {key: (value.dtype, value.shape) for key, value in found.items()} != {
        key: (np.dtype(np.float64), (facts, 2)) for key in ("share", "rank")
    }:
        raise Damage(f"{folder / name} is damaged: it must hold share and rank of {facts:,} facts; delete it")
    return Judged(found["share"], found["rank"])


# -- several folds at a time -------------------------------------------------------------------------------------------


def _in_workers(
    run: Path, folder: Path, plan: Plan, left: list[int], jobs: int, progress: Bar, stopped: Stopped
) -> None:
    """Judge folds in workers, this many at a time."""
    from dura.runs.workers import Call, Crew, Limits

    waiting, done = list(left), plan.folds - len(left)
    with Crew(Limits(jobs, 1)) as crew:
        while waiting or crew.running:
            while waiting and crew.room():
                number = waiting.pop(0)
                call = Call(fold_run, {"run": str(run), "folder": str(folder), "plan": asdict(plan), "number": number})
                crew.start(f"fold {number + 1}", call, folder / f"fold-{number + 1}.log")
            for ended in crew.wait():
                if ended.failure:
                    raise DuraError(f"{ended.name}: {ended.failure}")
                done += 1
                progress(done, plan.folds)
            if stopped():
                raise Interrupted(f"the audit in {folder} was stopped; the same command continues it")


def fold_run(
    run: str,
    folder: str,
    plan: dict[str, Any],
    number: int,
    *,
    stopped: Stopped,
    tell: Callable[[Any], None],  # noqa: ARG001
) -> None:
    """Judge one fold of a run's graph, in a worker."""
    home, wanted = RunFolder.open(Path(run)), Plan(**plan)
    experiment, graph = read_settings(home), read_graph(home)
    fold = deal(graph.train, wanted.folds, wanted.seed, pairs=wanted.pairs)
    _fold(experiment, graph, wanted, fold, number, Path(folder), stopped)
