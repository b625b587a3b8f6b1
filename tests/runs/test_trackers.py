"""Trackers get every epoch once, in order, also after a resume; one that fails does not end training."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dura
from dura.config import Experiment
from dura.records import RunFolder, curve
from dura.runs.api import choose
from dura.runs.run import resume, train
from dura.runs.trackers import TRACKERS, MLflow, TrackedRun, Tracker, open_trackers, tracked, tracking
from dura.training.trainer import Interrupted
from dura.types import BadInput, DuraError
from folders import epoch
from graphs import random_graph

GRAPH = random_graph()
SETTINGS = {"model.rank": 4, "training.epochs": 5, "training.batch": 10, "training.patience": 0,
            "training.checkpoint_every": 0.0, "training.validate_every": 2}  # fmt: skip
QUICK = choose(None, graph="random", settings=SETTINGS)


class Notes(Tracker):
    """Writes down what it is told; `has` epochs are there already, and it fails at the epoch `bad`."""

    def __init__(self, has: int = 0, bad: int = 0) -> None:
        self.has, self.bad = has, bad
        self.told: list[tuple[str, Any]] = []
        self.values: dict[int, dict[str, float]] = {}

    def begin(self, run: TrackedRun) -> int:
        self.told.append(("begin", run.name))
        self.run = run
        return self.has

    def epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        if epoch == self.bad:
            raise OSError("the server\nis gone")
        self.told.append(("epoch", epoch))
        self.values[epoch] = dict(metrics)

    def end(self, finished: bool) -> None:
        self.told.append(("end", finished))


def told_epochs(notes: Notes) -> list[int]:
    return [value for kind, value in notes.told if kind == "epoch"]


def start(out: Path, *track: str | Tracker, stop_after: int | None = None, experiment: Experiment = QUICK) -> list[str]:
    """Train with these trackers, stopped in the epoch after `stop_after`; returns what was said."""
    said: list[str] = []

    def stopped() -> bool:
        return stop_after is not None and len(curve(RunFolder(out).records())) > stop_after

    with tracking(open_trackers(track), experiment, "random", out, said.append) as listeners:
        train(experiment, GRAPH, out, listeners=listeners, stopped=stopped)
    return said


def go_on(out: Path, *track: str | Tracker) -> list[str]:
    said: list[str] = []
    with tracking(open_trackers(track), QUICK, "random", out, said.append) as listeners:
        resume(out, listeners=listeners)
    return said


def records_of(out: Path) -> dict[int, dict[str, float]]:
    return {record["epoch"]: tracked(record) for record in curve(RunFolder(out).records())}


# -- any tracker --------------------------------------------------------------------------------------------------------


def test_a_tracker_is_told_what_stands_in_the_records(tmp_path: Path) -> None:
    notes = Notes()
    assert start(tmp_path / "run", notes) == []
    assert notes.told == [("begin", "run"), *(("epoch", n) for n in range(1, 6)), ("end", True)]
    assert notes.values == records_of(tmp_path / "run")
    assert set(notes.values[1]) == {"loss", "penalty", "facts_per_second", "seconds"}
    valid = {"valid/mrr", "valid/hits_1", "valid/hits_3", "valid/hits_10"}
    assert [epoch for epoch, values in notes.values.items() if valid <= set(values)] == [2, 4, 5]
    assert notes.run.settings["regularizer.lambda1"] == 0.5  # defaults are written out
    assert notes.run.settings["model.rank"] == 4
    assert notes.run.settings["graph.columns"] == ""


@pytest.mark.parametrize(("has", "then"), [(0, [1, 2, 3, 4, 5]), (2, [3, 4, 5])])
def test_after_a_resume_a_tracker_gets_what_it_lacks(tmp_path: Path, has: int, then: list[int]) -> None:
    first, second = Notes(), Notes(has=has)
    with pytest.raises(Interrupted):
        start(tmp_path / "run", first, stop_after=2)
    assert first.told[-1] == ("end", False)
    assert told_epochs(first) == [1, 2, 3]
    go_on(tmp_path / "run", second)
    assert told_epochs(second) == then
    assert second.values == {n: values for n, values in records_of(tmp_path / "run").items() if n > has}


def test_records_after_the_checkpoint_are_not_told_twice(tmp_path: Path) -> None:
    """A killed run left an epoch in its records that the resumed one does again: its new metrics count, once."""
    with pytest.raises(Interrupted):
        start(tmp_path / "run", stop_after=1)
    RunFolder(tmp_path / "run").append({**epoch(4), "loss": -1.0})
    notes = Notes()
    go_on(tmp_path / "run", notes)
    assert told_epochs(notes) == [1, 2, 3, 4, 5]
    assert notes.values[4]["loss"] > 0


def test_a_finished_run_is_caught_up_with(tmp_path: Path) -> None:
    start(tmp_path / "run")
    notes = Notes()
    go_on(tmp_path / "run", notes)
    assert notes.told == [("begin", "run"), *(("epoch", n) for n in range(1, 6)), ("end", True)]


def test_a_tracker_that_fails_is_let_go_and_training_goes_on(tmp_path: Path) -> None:
    bad, good = Notes(bad=3), Notes()
    said: list[str] = []
    trackers: dict[str, Tracker] = {"bad": bad, "good": good}
    with tracking(trackers, QUICK, "random", tmp_path / "run", said.append) as listeners:
        train(QUICK, GRAPH, tmp_path / "run", listeners=listeners)
    sentence = "the tracker 'bad' failed and is off from now on: OSError: the server"
    assert said == [sentence]
    assert told_epochs(bad) == [1, 2]
    assert ("end", True) not in bad.told
    assert told_epochs(good) == [1, 2, 3, 4, 5]
    notices = [r["text"] for r in RunFolder.open(tmp_path / "run").records() if r["kind"] == "notice"]
    assert notices == [sentence]
    assert len(records_of(tmp_path / "run")) == 5


def test_a_refused_folder_is_not_touched_by_trackers(tmp_path: Path) -> None:
    start(tmp_path / "run")
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    notes = Notes()
    with pytest.raises(BadInput, match="already holds a run"):
        start(tmp_path / "run", notes, "tensorboard")
    assert notes.told == []
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_fit_takes_a_tracker_of_ones_own(tmp_path: Path) -> None:
    notes = Notes()
    dura.fit(GRAPH, rank=4, epochs=2, progress=False, track=[notes], settings={"training.patience": 0})
    assert told_epochs(notes) == [1, 2]
    assert notes.run.name == "random-complex-dura"
    assert notes.run.folder is None
    assert notes.run.settings["regularizer.lambda2"] == 1.5


def test_an_automatic_batch_is_tracked_as_the_number_it_became(tmp_path: Path) -> None:
    notes = Notes()
    start(tmp_path / "run", notes, experiment=QUICK.with_value("training.batch", "auto"))
    assert isinstance(notes.run.settings["training.batch"], int)


def test_unknown_trackers_and_missing_packages_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="the tracker 'tensorbord' is not known; .*did you mean 'tensorboard'"):
        open_trackers("tensorbord")
    for name, module in (("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow")):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, module, None)
            with pytest.raises(DuraError, match=rf"'{name}' needs the package .*pip install 'dura-kge\[tracking\]'"):
                open_trackers([name])


def test_another_package_can_offer_a_tracker(tmp_path: Path) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dura.trackers]\nlines = theirs:Lines\n")
    (tmp_path / "theirs.py").write_text(
        "from dura.runs.trackers import Tracker\n"
        "class Lines(Tracker):\n"
        "    def epoch(self, epoch, metrics):\n"
        "        print(epoch, sorted(metrics))\n"
    )
    command = [
        *["train", "--graph", "nations", "--rank", "2", "--epochs", "2", "--quiet", "--out", "run", "--track", "lines"]
    ]
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "dura", *command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("1 ['facts_per_second', 'loss', 'penalty', 'seconds', 'valid/hits_1'")
    assert done.stdout.splitlines()[1].startswith("2 ")


def test_the_table_of_trackers() -> None:
    assert TRACKERS.names()[:2] == ["tensorboard", "mlflow"]
    assert TRACKERS.options("tensorboard") == {}


# -- TensorBoard --------------------------------------------------------------------------------------------------------


def events(out: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

    accumulator = EventAccumulator(str(out / "tensorboard"))
    accumulator.Reload()
    return accumulator


def test_tensorboard_has_every_point_once_after_a_resume(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        start(out, "tensorboard", stop_after=2)
    assert [point.step for point in events(out).Scalars("loss")] == [1, 2, 3]
    assert go_on(out, "tensorboard") == []
    found, told = events(out), records_of(out)
    assert set(found.Tags()["scalars"]) == set(told[2])
    for name in told[2]:
        points = [(point.step, point.value) for point in found.Scalars(name)]
        assert points == [(n, pytest.approx(v[name], rel=1e-6)) for n, v in told.items() if name in v]


def test_tensorboard_has_the_settings(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData  # type: ignore[import-untyped]

    start(tmp_path / "run", "tensorboard", experiment=QUICK.with_value("training.epochs", 1))
    found = events(tmp_path / "run")
    (text,) = found.Tensors("settings/text_summary")
    assert b"rank = 4" in text.tensor_proto.string_val[0]
    content = found.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    assert values["model.rank"].number_value == 4
    assert values["model.name"].string_value == "complex"


# -- MLflow -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store in files: MLflow's SQLite store warns of its own use of SQLAlchemy, and warnings are errors here."""
    uri = (tmp_path / "mlruns").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return uri


def test_mlflow_has_every_point_once_after_a_resume(tmp_path: Path, store: str) -> None:
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        start(out, "mlflow", stop_after=2)
    tracker = MLflow()
    client = tracker.client
    place = client.get_experiment_by_name("dura-random")
    assert place is not None
    (kept,) = client.search_runs([place.experiment_id])
    assert (kept.info.status, kept.info.run_name) == ("KILLED", "run")
    assert go_on(out, "mlflow") == []
    (kept,) = client.search_runs([place.experiment_id])
    assert kept.info.status == "FINISHED"
    assert kept.data.params["model.rank"] == "4"
    assert kept.data.params["regularizer.name"] == "dura"
    told = records_of(out)
    for name in ("loss", "penalty", "valid/mrr", "valid/hits_10"):
        points = [(point.step, point.value) for point in client.get_metric_history(kept.info.run_id, name)]
        assert points == [(n, v[name]) for n, v in told.items() if name in v]


def test_mlflow_begins_anew_where_the_store_does_not_know_the_run(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    start(out, "mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "elsewhere").as_uri())
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    assert go_on(out, "mlflow") == []
    client = MLflow().client
    place = client.get_experiment_by_name("mine")
    assert place is not None
    (kept,) = client.search_runs([place.experiment_id])
    assert [point.step for point in client.get_metric_history(kept.info.run_id, "loss")] == [1, 2, 3, 4, 5]
    ids = [record["id"] for record in RunFolder.open(out).records() if record["kind"] == "tracker"]
    assert ids[-1] == kept.info.run_id
    assert len(ids) == 2


@pytest.mark.parametrize("store", ["nonsense://there", "sqlite:////dev/null/mlflow.db"])
def test_mlflow_says_when_its_store_cannot_be_opened(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    with pytest.raises(DuraError, match="the tracker 'mlflow' cannot open its store .*MLFLOW_TRACKING_URI"):
        open_trackers(["mlflow"])
