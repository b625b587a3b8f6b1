"""The example package, installed as a user would: trained, killed and resumed, exported, served, and held to all laws."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import torch
from torch import Tensor

import dura
from dura.training.checkpoint import Checkpoints

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "dura-extras"
HINGE = ["--set", "loss.name=squared-hinge", "--set", "candidates.name=negatives", "--set", "candidates.count=8"]
FREQUENT = ["--set", "loss.name=margin", "--set", "candidates.name=frequent", "--set", "candidates.power=0.5"]
CASES: dict[str, list[str]] = {
    "shift": ["--model", "shift", "--regularizer", "l1", "--lr", "0.3", *HINGE],
    "mlp": ["--model", "mlp", "--regularizer", "l1", "--set", "loss.name=binary"],
    "shift-l2": [
        "--model",
        "shift",
        "--set",
        "model.norm=l2",
        "--regularizer",
        "fro",
        "--set",
        "candidates.name=sample",
    ],
    "frequent": ["--model", "distmult", "--regularizer", "l1", *FREQUENT],
    "complex": ["--model", "complex", "--regularizer", "l1", *HINGE],
}
TRAIN = ["train", "--graph", "nations", "--rank", "12", "--epochs", "4", "--batch", "100", "--quiet", "--json"]
TRAIN += ["--set", "training.threads=1", "--set", "training.checkpoint_every=1e-6"]  # a checkpoint after each step
QUESTION = {"head": "usa", "relation": "embassy", "k": 3}
LAWS = ["models/test_laws.py", "test_regularizers.py", "objectives/test_losses.py", "training/test_model_laws.py"]

COMMANDS = """
import contextlib, io, json, sys
from dura.cli.main import main

done = []
for arguments in json.load(sys.stdin):
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["dura", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    done.append((code, out.getvalue(), err.getvalue()))
json.dump(done, sys.stdout)
"""
"""Several commands, one after the other, in one process: starting one takes longer than most commands do."""

KILLED = """
import os, signal, sys
from pathlib import Path
from dura.records import RunFolder
from dura.runs.run import train
from dura.runs.store import read_graph, read_settings

class Killer:
    def step(self, progress, steps_in_epoch):
        if progress.epoch == 1 and progress.step == steps_in_epoch // 2:
            os.kill(os.getpid(), signal.SIGKILL)

    def epoch(self, record):
        pass

    def notice(self, sentence):
        pass

whole = RunFolder.open(Path(sys.argv[1]))
train(read_settings(whole), read_graph(whole), Path(sys.argv[2]), listeners=(Killer(),))
"""
"""The same training as that of another run, which dies in the middle of its second epoch."""

pytestmark = pytest.mark.slow


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The error: one line, an exit code, nothing printed, no traceback."""
        assert self.code == 2 or self.code == 1
        assert self.out == "" and self.err.startswith("dura: ") and self.err.count("\n") == 1, self.err
        return self.err


def environment(*folders: Path) -> dict[str, str]:
    """The variables of a process that finds these folders and the program that is tested."""
    paths = [*folders, Path(dura.__file__).parents[1]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def commands(lines: Sequence[Sequence[object]], cwd: Path, *folders: Path) -> list[Done]:
    given = json.dumps([list(map(str, line)) for line in lines])
    run = [sys.executable, "-c", COMMANDS]
    done = subprocess.run(run, input=given, cwd=cwd, env=environment(*folders), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [Done(*one) for one in json.loads(done.stdout)]


def worked(done: Done) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package, which only subprocesses look into."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    done = subprocess.run([*pip, "--target", folder, PACKAGE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def home(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run per case."""
    folder = tmp_path_factory.mktemp("extras")
    for done in commands([[*TRAIN, *case, "--out", name] for name, case in CASES.items()], folder, site):
        worked(done)
    return folder


def epochs(run: Path) -> dict[int, dict[str, Any]]:
    """The record of each epoch without what a clock says; the last one if an epoch was ended twice."""
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    clock = ("seconds", "facts_per_second", "time", "at")
    return {
        record["epoch"]: {key: value for key, value in record.items() if key not in clock}
        for record in records
        if record["kind"] == "epoch"
    }


def tensors(run: Path) -> Mapping[str, Tensor]:
    """The newest and the best state of a run folder."""
    checkpoints = Checkpoints(run / "checkpoints")
    newest, best = checkpoints.newest(), checkpoints.best()
    assert newest is not None and best is not None
    return newest[0] | {f"best.{key}": tensor for key, tensor in best[0].items()}


@pytest.mark.parametrize("name", CASES)
def test_parts_of_the_package_are_trained_together_and_with_those_of_dura(home: Path, name: str) -> None:
    curve = epochs(home / name)
    assert list(curve) == [1, 2, 3, 4]
    assert curve[4]["loss"] < curve[1]["loss"]
    assert curve[4]["penalty"] > 0


def test_a_run_that_was_killed_and_resumed_equals_one_that_never_stopped(home: Path, site: Path) -> None:
    """Bit by bit: parameters, buffers, the optimizer's state, the best state and the records."""
    names = ["shift", "mlp", "frequent"]
    for name in names:
        run = [sys.executable, "-c", KILLED, name, f"{name}-killed"]
        done = subprocess.run(run, cwd=home, env=environment(site), capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert len(epochs(home / f"{name}-killed")) == 1
    for done_again in commands([["train", "--resume", f"{name}-killed", "--json"] for name in names], home, site):
        worked(done_again)
    for name in names:
        whole, killed = tensors(home / name), tensors(home / f"{name}-killed")
        assert whole.keys() == killed.keys()
        assert all(torch.equal(tensor, killed[key]) for key, tensor in whole.items())
        assert epochs(home / name) == epochs(home / f"{name}-killed")
    assert {"model.norm.running_var", "optimizer.layer.weight.sum"} <= tensors(home / "mlp").keys()


def test_runs_are_evaluated_exported_and_packed(home: Path, site: Path) -> None:
    lines = []
    for name in ("shift", "mlp"):
        lines += [["evaluate", name, "--json"]] * 2
        lines += [["export", name, f"{name}-copy", "--quiet", "--json"], ["evaluate", f"{name}-copy", "--json"]]
        lines += [["export", name, f"{name}-int8", "--int8", "--test", "--quiet", "--json"]]
        lines += [["export", name, f"{name}-sparse", "--sparse", "0.3", "--float16", "--quiet", "--json"]]
    shown = [worked(done) for done in commands(lines, home, site)]
    for once, twice, _, copy, small, sparse in (shown[:6], shown[6:]):
        del once["run"], twice["run"], copy["run"]
        assert once == twice == copy
        bytes_, test = small["bytes"]["tables"], small["figures"]["test"]
        assert bytes_["after"] < bytes_["before"] / 2
        assert test["before"]["mrr"] == once["mrr"]
        assert test["after"]["mrr"] == pytest.approx(test["before"]["mrr"], abs=0.03)
        assert sparse["zeros"] == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize(("name", "options"), [("mlp", []), ("shift", ["--int8"])])
def test_a_run_is_served(home: Path, site: Path, name: str, options: list[str], tmp_path: Path) -> None:
    """Over HTTP it gives the answers that the command line gives."""
    ask = ["--head", QUESTION["head"], "--relation", QUESTION["relation"], "-k", QUESTION["k"], "--json"]
    served = tmp_path / "served"
    wrote, said = commands(
        [["export", home / name, served, *options, "--quiet", "--json"], ["predict", served, *ask]], tmp_path, site
    )
    worked(wrote)
    command = [sys.executable, "-m", "dura", "serve", str(served), "--port", "0"]
    with subprocess.Popen(command, env=environment(site), stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            first = server.stderr.readline()
            assert first.startswith(f"serving {served} at http://"), first + server.stderr.read()
            with urlopen(f"{first.split()[3]}/predict?{urlencode(QUESTION)}", timeout=30) as response:
                answers = json.load(response)["answers"]
        finally:
            server.kill()
    expected = worked(said)["answers"]
    assert [answer["entity"] for answer in answers] == [answer["entity"] for answer in expected]
    assert [answer["score"] for answer in answers] == pytest.approx([answer["score"] for answer in expected])


def test_the_study_of_the_package_is_a_command(home: Path, site: Path) -> None:
    lines = [["study", "frequency", "shift", "mlp", "--json", "--out", "studied"], ["study", "--help"]]
    lines += [["study", "frequency", "shift", "shift"]]
    done, listed, twice = commands(lines, home, site)
    document = worked(done)
    assert [run["label"] for run in document["runs"]] == ["Shift L1", "MLP L1"]
    for run in document["runs"]:
        assert set(run["mrr"]) == {"rare", "common", "frequent"}
        assert min(run["mrr"].values()) <= run["all"] <= max(run["mrr"].values())
    endings = ("csv", "json", "md", "png", "svg")
    assert sorted(file.name for file in (home / "studied").iterdir()) == [f"frequency.{ending}" for ending in endings]
    assert "theory" in listed.out and "Compare the MRR of runs for rare" in listed.out
    assert "is given 2 times" in twice.sentence


def test_a_study_that_does_not_fit_is_one_sentence_and_the_others_work(tmp_path: Path) -> None:
    info = tmp_path / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dura.studies]\nbare = bare\nodd = odd\nlost = lost\ntyped = typed\n")
    (tmp_path / "bare.py").write_text("def compute(): ...\n")
    parts = "def compute(): ...\ndef sheets(found): ...\ndef draw(found, path): ...\n"
    (tmp_path / "odd.py").write_text(f"{parts}def command(*, colour): ...\n")
    (tmp_path / "typed.py").write_text(f"{parts}def command(out: 'Nowhere'): ...\n")
    lines = [["study", name] for name in ("bare", "odd", "lost", "typed")]
    *found, listed = commands([*lines, ["study", "--help"]], tmp_path, tmp_path)
    for sentence, done in zip(
        (
            "which has no function 'sheets'",
            "fills in bar and train only, not colour",
            "cannot be imported",
            "the study 'typed' cannot be shown: NameError",
        ),
        found,
        strict=True,
    ):
        assert sentence in done.sentence
    assert listed.code == 0 and "sparsity" in listed.out and "Cannot be used" in listed.out


def test_help_lists_the_parts_and_what_does_not_fit_is_refused_in_one_sentence(site: Path, tmp_path: Path) -> None:
    info = tmp_path / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dura.models]\nodd = odd:Odd\n")
    (tmp_path / "odd.py").write_text(
        "from dura_extras.shift import Shift\n"
        "class Odd(Shift):\n"
        "    def compare(self, query, targets, out=None):\n"
        "        return query @ targets.T\n"
    )
    train = ["train", "--graph", "nations", "--quiet"]
    refused = {
        "the regularizer 'dura' needs a semantic matching model such as 'complex' or 'rescal', not 'shift'": [
            "--model", "shift",
        ],
        "it is not defined for candidates.name = 'all', only for 'negatives'": [
            "--model", "shift", "--regularizer", "l1", "--set", "loss.name=squared-hinge",
        ],
        "the model 'shift' cannot be asked for relations": [
            "--model", "shift", "--regularizer", "none", "--set", "terms.relations=0.5", "--out", "asked",
        ],
        "candidates.power is -1.0, but it must be from 0": [
            "--model", "complex", "--set", "candidates.name=frequent", "--set", "candidates.power=-1.0",
            "--set", "loss.name=margin",
        ],
        "model.dropout is 1.5, but it is a share": ["--model", "mlp", "--set", "model.dropout=1.5", "--regularizer", "l1"],
        "model.norm must be 'l1' or 'l2', not the text 'l3'": [
            "--model", "shift", "--set", "model.norm=l3", "--regularizer", "none",
        ],
        "the model 'shft' is not known; known are": ["--model", "shft"],
        "Odd overrides compare, which training does not call: set `comparator` to a Comparator instead": [
            "--model", "odd",
        ],
    }  # fmt: skip
    lines = [[*train, *options] for options in refused.values()]
    *found, listed = commands([*lines, ["train", "--help"]], tmp_path, site, tmp_path)
    assert listed.code == 0 and all(name in listed.out for name in ("shift", "mlp", "l1"))
    for sentence, done in zip(refused, found, strict=True):
        assert sentence in done.sentence
    assert "did you mean 'shift'?" in found[6].sentence


def test_the_package_keeps_all_laws(site: Path) -> None:
    """Those of models, losses and regularizers, with the formulas that the package brings."""
    names = ("shift", "mlp", "squared-hinge", "l1")
    paths = environment(site, PACKAGE / "tests") | {"DURA_TEST_LITERALS": "dura_extras_literals"}
    run = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", " or ".join(names)]
    laws = [f"tests/{file}" for file in LAWS]
    done = subprocess.run([*run, *laws], cwd=ROOT, env=paths, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    passed = [line.split()[0] for line in done.stdout.splitlines() if "PASSED" in line]
    for law, least in zip(LAWS, (20, 20, 3, 14), strict=True):
        assert sum(f"tests/{law}::" in test for test in passed) >= least, law
    for name in names:
        assert any(f"[{name}]" in test or f"[{name}-" in test for test in passed), name
