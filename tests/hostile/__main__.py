"""Judge every change to one kind of folder: the same results as before or one sentence, in little memory and time."""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import dura
from dura.config import Experiment
from dura.records import RunFolder
from dura.reports.page import read_sources, report
from dura.runs.evaluations import keep
from dura.runs.run import resume, train
from dura.runs.trained import open_run
from dura.training.display import Quiet
from dura.training.trainer import Interrupted
from dura.types import DuraError
from graphs import dated_graph, random_graph
from hostile.cases import cases
from hostile.changes import Case

HEADROOM = 1 << 30
"""Bytes that reading a folder of a few kilobytes may take on top of the program itself."""
SECONDS = 20


def make(kind: str, path: Path) -> None:
    """A valid run folder of this kind."""
    settings = Experiment.of_dated_facts() if kind == "dated" else Experiment()
    settings = settings.with_value("model.rank", 4).with_value("training.epochs", 3)
    if kind == "stopped":
        settings = settings.with_component("optimizer", "adam").with_component("regularizer", "none")
        settings = settings.with_value("training.batch", 20)
        graph = replace(
            random_graph(),
            labels={"e001": "one", "e002": "two"},
            entity_types={"e001": ("number", "odd")},
            entity_descriptions={"e002": "the number after one"},
            relation_labels={"r0": "follows"},
        )
        steps = iter(range(100))
        with contextlib.suppress(Interrupted):
            train(settings, graph, path, stopped=lambda: next(steps) == 8)
    elif kind == "dated":
        train(settings, dated_graph(intervals=True, untimed=True), path)
    else:
        whole = path.with_name("whole") if kind in ("int8", "sparse") else path
        trained = train(settings, random_graph(), whole)
        if kind == "int8":
            dura.open(whole).export(path, dtype="int8")
        elif kind == "sparse":
            dura.open(whole).export(path, sparse=0.5)
        else:
            assert keep(path, trained.evaluate(by="category")) == ""


class Hung(BaseException):
    """The clock ran out."""


def answers(path: Path) -> Any:
    trained = open_run(path)
    question = {"head": trained.graph.entities.name(3), "relation": "r1"}
    if trained.graph.times is not None:
        question["time"] = trained.graph.times.name(0)
    best = trained.predict(**question, k=5)  # type: ignore[arg-type]
    return trained.evaluate().mrr, [(trained.graph.entities.id(a.entity), a.score) for a in best]


class Heard(Quiet):
    """Listens for notices: what is said is not done in silence. Every resumed run says where it continues."""

    def __init__(self) -> None:
        self.said = ""

    def notice(self, sentence: str) -> None:
        if not sentence.startswith(("the run continues with", "the run has ended")):
            self.said = sentence


def resumed(path: Path) -> Any:
    steps, heard = iter(range(1000)), Heard()
    found = resume(path, stopped=lambda: next(steps) == 40, listeners=(heard,)).evaluate().mrr
    if heard.said:
        raise DuraError(heard.said)
    return found


def reported(path: Path) -> Any:
    runs, studies = read_sources([path])
    report(runs, studies)
    RunFolder.open(path).append({"kind": "notice", "text": "read"})


ACTS: tuple[Callable[[Path], Any], ...] = (answers, resumed, reported)
DRAWN = ("run.json", "settings", "record")
"""Changes that a report can see begin with these."""


def outcome(act: Callable[[Path], Any], path: Path) -> tuple[Any, str]:
    """What came out, and the sentence where nothing did; anything but one sentence is raised."""
    try:
        return act(path), ""
    except DuraError as error:
        sentence = str(error)
        assert sentence and "\n" not in sentence and len(sentence) < 1500, f"not one sentence: {sentence[:200]}"
        return None, sentence


def judge(case: Case, valid: Path, place: Path, wanted: list[tuple[Any, str]]) -> tuple[str, str]:
    """Make the folder and use it in every way: what is wrong, or nothing, and the first sentence that it gave."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    folder = place / "run"
    shutil.copytree(valid, folder)
    case.change(folder)
    secret = place / "stolen"
    before, said = secret.read_bytes() if secret.exists() else b"", ""
    for act, want in zip(ACTS, wanted, strict=True):
        if act is reported and not case.name.startswith(DRAWN):
            continue
        signal.alarm(SECONDS)
        try:
            got, sentence = outcome(act, folder)
        except (Exception, Hung) as error:  # noqa: BLE001
            return f"{act.__name__}: {type(error).__name__}: {error}", said
        finally:
            signal.alarm(0)
        if not sentence and not case.free and got != want[0]:
            return f"{act.__name__}: other results in silence: {got} instead of {want[0]}", said
        said = said or sentence
    if secret.exists() and secret.read_bytes() != before:
        return "a file outside of the folder was written", said
    return "", said


def ring(number: int, _: object) -> None:
    raise Hung(f"more than {SECONDS} seconds")


def main(place: Path, kind: str) -> None:
    """Print one JSON line per change: its name, what is wrong, and the sentence that it gave."""
    torch.set_num_threads(1)
    valid = place / kind
    make(kind, valid)
    shutil.copytree(valid, place / "copy")
    wanted = [outcome(act, place / "copy") for act in ACTS]
    assert not any(sentence for _, sentence in wanted) or "cannot be continued" in wanted[1][1], wanted
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + HEADROOM, taken + HEADROOM))
    signal.signal(signal.SIGALRM, ring)
    for case in cases(kind):
        sys.stdout.write(json.dumps([case.name, *judge(case, valid, place / "case", wanted)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
