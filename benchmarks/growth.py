"""The parts of speed.py in which dura runs alone: growth of time and memory, the cost of dated facts, the start."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

import dura
import measure
from dura.data.catalog import find
from dura.data.questions import Questions, reciprocal
from dura.evaluation import rank
from dura.models import MODELS
from dura.regularizers import Smoothness
from dura.tables.table import Table
from dura.types import IntArray, Sizes
from measure import Measured, Options, Work, console, exponent, paced, peak, ratio, show
from turns import BATCH, STEPS, Shape, drawn_facts, stepping, trainer_of

Row = dict[str, Any]
RANKED = 2000
"""Facts to rank per turn."""


def memory(options: Options) -> list[Row]:
    """Peak memory of training and evaluation as the number of entities grows. Each is measured in its own process."""
    rows: list[Row] = []
    for kind in ("training", "evaluation"):
        for entities in (10_000, 100_000, *((1_000_000,) if options.full else ())):
            order = json.dumps({"kind": kind, "entities": options.size(entities)})
            done = subprocess.run([sys.executable, __file__, order], stdout=subprocess.PIPE, check=True)
            rows.append(json.loads(done.stdout))
    show(
        "peak memory in MB, ComplEx, rank 100",
        rows,
        [
            "tables: parameters, and for training their gradients and Adagrad's sums",
            "peak: above that of the same work on 100 entities",
            f"questions × entities: the scores of a batch of {BATCH} (evaluation: of all {2 * BATCH}); never made",
        ],
    )
    panels = {}
    for kind in ("training", "evaluation"):
        mine = [row for row in rows if row["work"] == kind]
        xs = [row["entities"] for row in mine]
        names = {"peak": "peak", "tables": "(tables)", "questions × entities": "(questions × entities)"}
        panels[f"entities: {kind}"] = {label: (xs, [row[key] for row in mine]) for key, label in names.items()}
    measure.draw_lines(options.out / "memory.png", panels, "MB", "Peak memory, ComplEx rank 100")
    return rows


def child(kind: str, entities: int) -> Row:
    """One process of the memory part: does the work and returns how much memory it needed."""
    work(kind, 100)  # so that what torch loads on its first use is not counted
    before = peak()
    parameters, copies, questions = work(kind, entities), *((3, BATCH) if kind == "training" else (1, 2 * BATCH))
    sizes = {
        "tables": 4 * copies * parameters,
        "peak": peak() - before,
        "questions × entities": 4 * questions * entities,
    }
    return {"work": kind, "entities": entities} | {key: round(value / 1e6, 1) for key, value in sizes.items()}


def work(kind: str, entities: int) -> int:
    """Train a few steps or rank some facts; returns the number of parameters. There are few facts: only entities grow."""
    sizes = Sizes(entities, 200)
    facts = drawn_facts(Shape(entities, sizes.relations, (20_000, 0, BATCH)))
    questions = Questions.of(facts, relations=sizes.relations)
    if kind == "training":
        trainer = trainer_of("complex", sizes, questions, 100)
        stepping(trainer)()
        return sum(table.numel() for table in trainer.model.parameters())
    model = MODELS.build("complex", {"rank": 100, "init_scale": 0.1}, sizes)
    rank(model, facts[-BATCH:], questions, sizes.relations)
    return sum(table.numel() for table in model.parameters())


@cache
def drawn_questions(entities: int, relations: int, facts: int) -> Questions:
    """Questions of a synthetic graph."""
    return Questions.of(drawn_facts(Shape(entities, relations, (facts, 0, 0))), relations=relations)


def growth(options: Options) -> list[Row]:
    """Seconds per epoch as entities, facts and rank double."""
    base = {"entities": options.size(10_000), "facts": options.size(100_000), "rank": 50}
    points = [(axis, base | {axis: base[axis] * 2**i}) for axis in base for i in range(5 if options.full else 4)]
    rows: list[Row] = []
    works: dict[str, Work] = {}
    for i, (axis, point) in enumerate(points):
        sizes, questions = Sizes(point["entities"], 50), drawn_questions(point["entities"], 50, point["facts"])
        trainer = trainer_of("complex", sizes, questions, point["rank"])
        works[str(i)] = paced(STEPS / trainer.steps_in_epoch, stepping(trainer))
        rows.append({"doubling": axis, **point, "questions": len(questions), "steps": trainer.steps_in_epoch})
    paces = options.rounds(works, 20)
    for row, turns in zip(rows, paces.values(), strict=True):
        row["seconds an epoch"] = Measured.of([1 / pace for pace in turns])
    panels: dict[str, measure.Lines] = {}
    notes = [f"extrapolated from turns of {STEPS} steps of {BATCH} questions; seconds = a · sizeᵇ by least squares:"]
    for axis in base:
        mine = [row for row in rows if row["doubling"] == axis]
        xs, ys = [row[axis] for row in mine], [row["seconds an epoch"].median for row in mine]
        power = exponent(xs, ys)
        for row in mine:
            row["exponent"] = power
        more = exponent(xs, [row["questions"] for row in mine])
        notes.append(f"{axis}: exponent {power:.2f} (distinct questions: {more:.2f})")
        straight = [ys[0] * x / xs[0] for x in xs]
        panels[f"{axis}: exponent {power:.2f}"] = {"dura": (xs, ys), "(exponent 1)": (xs, straight)}
    show("growth of the time per epoch, ComplEx", rows, notes)
    measure.draw_lines(options.out / "growth.png", panels, "seconds per epoch", "Time per epoch as sizes double")
    return rows


def dated(options: Options) -> list[Row]:
    """TComplEx with DURA1 and smoothness, compared with ComplEx with DURA on the same questions without times."""
    listing = find("icews14")
    if options.scale != 1 or listing is None or listing.path is None:
        console.print("dated facts are measured only on the whole of icews14 (dura data get icews14)")
        return []
    graph, rows = dura.load("icews14"), list[Row]()
    relations, facts = len(graph.relations), graph.test[:RANKED]

    def distinct(facts: IntArray) -> int:
        both = np.concatenate([facts, reciprocal(facts, relations)])
        return len(np.unique(np.delete(both, 2, axis=1), axis=0))

    known = Questions.of(np.concatenate([graph.train, graph.valid, graph.test])[:, :3], relations=relations)
    for size in (200, 400):
        plain = trainer_of("complex", graph.sizes, replace(graph.questions, time=None), size)
        timed = trainer_of("tcomplex", graph.sizes, graph.questions, size, regularizer="dura1")
        times = timed.model.get_parameter("times")
        assert isinstance(times, Table)
        timed.smooth = partial(Smoothness(weight=0.01), times, len(times), 2)
        works = {
            f"{count} questions per step": {
                "static": paced(STEPS * count, stepping(plain, STEPS, count)),
                "dated": paced(STEPS * count, stepping(timed, STEPS, count)),
            }
            for count in (250, 1000)
        }
        # Only distinct questions are scored, and the same facts have fewer of them without their times.
        works["ranking"] = {
            "static": paced(distinct(facts[:, :3]), partial(rank, plain.model, facts[:, :3], known, relations)),
            "dated": paced(distinct(facts), partial(rank, timed.model, facts, graph.known, relations)),
        }
        for name, pair in works.items():
            paces = options.rounds(pair, 10)
            both = {who: Measured.of(turns) for who, turns in paces.items()}
            rows.append(
                {"work": name, "rank": size, **both, "% of static": ratio(paces["dated"], paces["static"], 0.01)}
            )
    show(
        "dated facts, distinct questions per second: ICEWS14, TComplEx with DURA1 and smoothness against ComplEx with DURA",
        rows,
    )
    return rows


def startup(options: Options) -> list[Row]:
    """How long a user waits before anything begins."""
    programs = {"python": ["-c", "pass"], "import dura": ["-c", "import dura"], "dura --help": ["-m", "dura", "--help"]}

    def run(arguments: list[str], *flags: str) -> str:
        command = [sys.executable, *flags, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr

    works = {name: paced(1, partial(run, arguments)) for name, arguments in programs.items()}
    paces = options.rounds(works, 20)
    rows = []
    for name, arguments in programs.items():
        modules = [line.rpartition("|")[2].strip() for line in run(arguments, "-X", "importtime").splitlines()]
        seconds = Measured.of([1 / pace for pace in paces[name]])
        rows.append({"program": name, "seconds": seconds, "imports torch": "torch" in modules})
    show("startup", rows)
    return rows


if __name__ == "__main__":  # one process of the memory part
    print(json.dumps(child(**json.loads(sys.argv[1]))))
