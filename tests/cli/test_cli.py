"""The command line as scripts see it: real processes, exit codes, JSON on standard output, one sentence on standard error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dura.models import MODELS
from dura.regularizers import REGULARIZERS

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def dura(*arguments: object, cwd: Path, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `check` is the exit code it must have."""
    done = subprocess.run(
        [sys.executable, "-m", "dura", *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert check is None or done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


def dura_json(*arguments: object, cwd: Path) -> Any:
    return json.loads(dura(*arguments, "--json", cwd=cwd).stdout)


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The error: one line, and nothing on standard output."""
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("dura: ")
    return lines[0]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one trained run, `run`."""
    folder = tmp_path_factory.mktemp("cli")
    dura("train", "--graph", "nations", "--rank", 10, "--epochs", 6, "--batch", 50, "--out", "run",
         "--set", "regularizer.weight=0.005", "--quiet", cwd=folder)  # fmt: skip
    return folder


def test_train_evaluate_predict_keep_their_promise(home: Path) -> None:
    result = dura_json("evaluate", "run", "--split", "test", cwd=home)
    assert set(result) >= {"mrr", "hits", "ranks", "ties", "protocol", "run"}
    assert set(result["hits"]) == {"1", "3", "10"}
    assert result["ranks"] == 2 * 201
    assert 0.3 < result["mrr"] <= 1
    ties = result["ties"]
    assert ties["optimistic"]["mrr"] >= ties["realistic"]["mrr"] == result["mrr"] >= ties["pessimistic"]["mrr"]
    answers = dura_json("predict", "run", "--head", "usa", "--relation", "embassy", "-k", 3, cwd=home)["answers"]
    assert [a["rank"] for a in answers] == [1, 2, 3]
    assert all(a["known"] is False for a in answers)
    assert [a["score"] for a in answers] == sorted((a["score"] for a in answers), reverse=True)


def test_evaluation_can_be_broken_down(home: Path) -> None:
    by_side = dura_json("evaluate", "run", "--by", "side", cwd=home)
    sides = by_side["by"]["side"]
    assert set(sides) == {"tail", "head"}
    assert (sides["tail"]["mrr"] + sides["head"]["mrr"]) / 2 == pytest.approx(by_side["mrr"])
    assert "embassy" in dura("evaluate", "run", "--by", "relation", cwd=home).stdout


def test_questions_from_a_file_and_head_questions(home: Path) -> None:
    (home / "questions.tsv").write_text("usa\tembassy\t?\n?\ttreaties\tchina\n")
    many = dura_json("predict", "run", "--input", "questions.tsv", "-k", 2, cwd=home)["questions"]
    alone = dura_json("predict", "run", "--tail", "china", "--relation", "treaties", "-k", 2, cwd=home)
    for one, other in zip(many[1]["answers"], alone["answers"], strict=True):
        assert one == {**other, "score": pytest.approx(other["score"], rel=1e-5)}
    assert many[1]["question"] == {"relation": "treaties", "tail": "china"}
    everyone = dura_json("predict", "run", "--head", "usa", "--relation", "embassy", "-k", 99, "--known", cwd=home)
    assert len(everyone["answers"]) == 14
    assert any(a["known"] for a in everyone["answers"])


def test_train_reports_in_json(home: Path) -> None:
    report = dura_json("train", "--graph", "nations", "--rank", 4, "--epochs", 1, "--out", "second", cwd=home)
    assert report["run"] == "second"
    assert report["epochs"] == report["best_epoch"] == 1
    assert set(report["valid"]) == {"mrr", "hits@1", "hits@3", "hits@10"}


def test_plain_lines_when_not_on_a_terminal_and_none_when_quiet(home: Path) -> None:
    loud = dura("train", "--graph", "nations", "--rank", 4, "--epochs", 2, "--out", "loud", cwd=home)
    assert "epoch 1/2" in loud.stderr
    assert "valid MRR" in loud.stderr
    assert "\x1b[" not in loud.stderr
    quiet = dura("train", "--graph", "nations", "--rank", 4, "--epochs", 2, "--out", "quiet", "--quiet", cwd=home)
    assert "epoch" not in quiet.stderr


def test_own_file_with_a_header_gets_split_trained_and_asked(tmp_path: Path) -> None:
    people = [f"p{i}" for i in range(30)]
    lines = [
        f"{a}\t{r}\t{b}" for i, a in enumerate(people) for r, b in (("knows", people[i - 1]), ("likes", people[i - 2]))
    ]
    (tmp_path / "mine.tsv").write_text("head\trelation\ttail\n" + "\n".join(lines) + "\n")
    dura("train", "--graph", "mine.tsv", "--rank", 8, "--epochs", 2, cwd=tmp_path)
    answers = dura_json("predict", "runs/mine-complex-dura-1", "--head", "p3", "--relation", "knows", cwd=tmp_path)
    assert len(answers["answers"]) == 10


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train"], "which graph?"),
        (["train", "umls/complex-dora"], "did you mean 'umls/complex-dura'?"),
        (["train", "--graph", "umsl"], "did you mean umls?"),
        (["train", "--graph", "nowhere/facts.tsv"], "there is no file nowhere/facts.tsv"),
        (["train", "--graph", "nations", "--model", "complexx"], "known are cp, distmult, complex, rescal"),
        (["train", "--graph", "nations", "--regularizer", "n3", "--model", "rescal"], "unlike those of 'rescal'"),
        (["train", "--graph", "nations", "--set", "regularizer.wait=1"], "did you mean 'weight'?"),
        (["train", "--graph", "nations", "--set", "nonsense"], "--set takes KEY=VALUE"),
        (["train", "--graph", "nations", "--rank", "0"], "model.rank is 0"),
        (["train", "--graph", "nations", "--device", "cuda"], "'cuda' is not available"),
        (["train", "--graph", "nations", "--out", "run"], "already holds a run"),
        (["train", "run/entities.txt"], "is not a preset but a file: train on its facts with --graph run/entities.txt"),
        (["train", "run"], "run is not a preset but a folder: train on its facts with --graph run"),
        (["train", "--graph", "nations", "--lr", "nan"], "optimizer.lr must be a number, not nan, which is not finite"),
        (["train", "--graph", "nations", "--rank", str(10**20)], "model.rank must be a whole number, not 1000"),
        (["train", "--graph", "nations", "--set", "model=cp"], "set one of them, such as model.name=complex"),
        (["train", "--graph", "nations", "--set", "candidates.samples=5"], "set candidates.name = 'sample'"),
        (["train", "--graph", "nations", "--set", "loss.name=margin"], "use --set candidates.name=negatives"),
        (["train", "--graph", "nations", "--set", "loss.smoothing=0.1", "--set", "candidates.name=sample"],
         "use --set candidates.name=all"),
        (["train", "--resume", "nowhere"], "there is no run folder nowhere"),
        (["train", "--resume", "run", "--rank", "3"], "takes no --rank"),
        (["evaluate", "nowhere"], "there is no run folder nowhere"),
        (["predict", "run", "--head", "USA", "--relation", "embassy"], "'USA' is not in this graph; did you mean 'usa'?"),
        (["predict", "run", "--head", "usa"], "needs --relation"),
        (["predict", "run", "--head", "usa", "--tail", "uk", "--relation", "embassy"], "exactly one hole"),
        (["predict", "run", "--input", "nowhere.tsv"], "there is no file nowhere.tsv"),
        (["data", "show", "umsl"], "did you mean umls?"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_exit_code_2(home: Path, arguments: list[str], sentence: str) -> None:
    assert sentence in one_sentence(dura(*arguments, cwd=home, check=2))


def test_bad_lines_end_the_command_with_file_and_line(home: Path) -> None:
    (home / "bad.tsv").write_text("a\tr\tb\nonly one column\nb\tr\tc\n")
    done = dura("train", "--graph", "bad.tsv", cwd=home, check=2)
    assert done.stdout == ""
    assert "--skip-bad" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[1:] == ["  bad.tsv:2: 1 column instead of 3"]


def test_bad_lines_can_be_skipped(home: Path) -> None:
    (home / "mixed.tsv").write_text("".join(f"a{i}\tr\tb{i % 3}\n" for i in range(20)) + "bad\n")
    done = dura("train", "--graph", "mixed.tsv", "--skip-bad", "--epochs", 1, "--rank", 2, "--out", "mixed", cwd=home)
    assert "1 bad line skipped" in done.stderr


def test_a_diverging_run_says_where_and_what_to_try(home: Path) -> None:
    done = dura(
        "train", "--graph", "nations", "--lr", "1e30", "--rank", 4, "--out", "nan", "--quiet", cwd=home, check=1
    )
    assert "train again with a smaller learning rate" in one_sentence(done)
    again = dura("train", "--graph", "nations", "--rank", 4, "--epochs", 1, "--out", "nan", "--quiet", cwd=home)
    assert "run folder nan" in again.stdout  # nothing was learnt, so the folder is free


def test_settings_that_change_nothing_or_little_get_a_notice(home: Path) -> None:
    short = ["train", "--graph", "nations", "--rank", 4, "--quiet"]
    done = dura(*short, "--epochs", 0, "--out", "zero", cwd=home)
    assert "dura: training.epochs is 0, so nothing is trained" in done.stderr
    done = dura(*short, "--epochs", 2, "--set", "training.anneal=5", "--out", "falling", cwd=home)
    assert "dura: training.anneal is 5, but there are only 2 epochs" in done.stderr
    assert "so the static filter is the same" in dura("evaluate", "falling", "--filter", "static", cwd=home).stderr
    assert "filter" not in dura("evaluate", "falling", cwd=home).stderr
    done = dura("train", "--resume", "falling", "--quiet", cwd=home)
    assert "dura: the run has ended after epoch 2, so nothing is left to train" in done.stderr


def start(home: Path, out: str) -> subprocess.Popen[str]:
    """A run that would take minutes, started and seen past its first checkpoints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dura", "train", "--graph", "nations", "--rank", "10", "--epochs", "100000", "--batch", "20",
         "--set", "regularizer.weight=0.02", "--set", "training.checkpoint_every=0.05", "--out", out, "--quiet"],
        cwd=home, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(600):
        if len(list((home / out / "checkpoints").glob("step-*.json"))) >= 2:
            return process
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no checkpoint in thirty seconds")


def test_ctrl_c_saves_says_how_to_go_on_and_ends_with_130(home: Path) -> None:
    process = start(home, "interrupted")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continue with: dura train --resume interrupted" in errors
    assert "Traceback" not in errors


def test_a_second_process_on_the_same_run_is_refused(home: Path) -> None:
    process = start(home, "locked")
    try:
        sentence = one_sentence(dura("train", "--resume", "locked", "--quiet", cwd=home, check=1))
        assert str(process.pid) in sentence
    finally:
        process.kill()
        process.communicate()


def test_killed_at_any_moment_and_resumed_is_bit_equal(home: Path) -> None:
    """kill -9 several times at odd moments, resume each time; the last checkpoint is that of a run left in peace."""
    settings = ["--graph", "umls", "--rank", 20, "--epochs", 12, "--batch", 40, "--quiet",
                "--set", "training.patience=0", "--set", "training.checkpoint_every=0.05"]  # fmt: skip
    dura("train", *settings, "--out", "peace", cwd=home)
    command = [sys.executable, "-m", "dura", "train"]
    first = subprocess.Popen([*command, *map(str, settings), "--out", "war"], cwd=home, env=ENVIRONMENT)
    while not (home / "war" / "run.json").exists():
        assert first.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    first.kill()
    first.wait()
    for delay in (2.9, 3.3):
        again = subprocess.Popen([*command, "--resume", "war", "--quiet"], cwd=home, env=ENVIRONMENT)
        time.sleep(delay)
        again.kill()
        again.wait()
    dura("train", "--resume", "war", "--quiet", cwd=home)
    last = [sorted((home / run / "checkpoints").glob("step-*.safetensors"))[-1] for run in ("peace", "war")]
    assert last[0].name[:14] == last[1].name[:14]  # the same step
    assert last[0].read_bytes() == last[1].read_bytes()
    results = [dura_json("evaluate", run, cwd=home)["ties"] for run in ("peace", "war")]
    assert results[0] == results[1]


COMMANDS = (
    "",
    "train",
    "evaluate",
    "predict",
    "serve",
    "report",
    "reproduce",
    "sweep",
    "export",
    "study",
    "study sparsity",
    "study sensitivity",
    "study categories",
    "study projection",
    "study duality",
    "study theory",
    "presets",
    "demo",
    "data",
    "data list",
    "data show",
    "data get",
    "data check",
    "data pack",
    "data synth",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_shows_an_example(home: Path, command: str) -> None:
    text = dura(*command.split(), "--help", cwd=home).stdout
    assert "Example" in text
    assert "dura " in text.split("Example", 1)[1]


def test_help_and_import_leave_torch_and_polars_alone(home: Path) -> None:
    for code in ("import dura", "import dura.cli.main", "import dura.__main__"):
        probe = f"import sys; {code}; sys.exit(any(m in sys.modules for m in ('torch', 'polars', 'pandas', 'fastapi')))"
        assert subprocess.run([sys.executable, "-c", probe], env=ENVIRONMENT, cwd=home).returncode == 0


def test_the_help_of_train_names_every_model_and_regularizer(home: Path) -> None:
    text = " ".join(dura("train", "--help", cwd=home).stdout.split())
    assert f"--model <str> {', '.join(MODELS)} (default complex; tcomplex if facts have times)." in text
    assert f"--regularizer <str> {', '.join(REGULARIZERS)} (default dura; dura1 if facts have times)." in text


def test_a_graph_is_checked_without_torch(home: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from dura.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "data", "check", "nations"],
        cwd=home,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert "training complex with rank 200" in done.stdout, done.stderr


def test_the_help_of_train_leaves_torch_alone(home: Path) -> None:
    code = "import sys, atexit; atexit.register(lambda: print('torch' in sys.modules)); from dura.__main__ import main; main()"
    command = [sys.executable, "-c", code, "train", "--help"]
    assert subprocess.run(command, cwd=home, env=ENVIRONMENT, capture_output=True, text=True).stdout.endswith("False\n")


def test_data_commands(home: Path) -> None:
    names = [graph["name"] for graph in dura_json("data", "list", cwd=home)["graphs"]]
    assert {"umls", "nations", "kinships", "wn18rr", "fb15k-237", "yago3-10"} <= set(names)
    assert dura_json("data", "show", "umls", cwd=home)["entities"] == 135
    report = json.loads(dura("data", "check", "nations", "--json", cwd=home, check=1).stdout)
    assert report["facts"] == {"train": 1592, "valid": 199, "test": 201}
    assert [f["topic"] for f in report["findings"] if f["severity"] == "warning"] == ["leaks"]


def test_graphs_are_packed_and_made(home: Path) -> None:
    packed = dura_json("data", "pack", "umls", "--out", "stored/umls", cwd=home)
    assert packed["graph"]["entities"] == 135 and (home / "stored" / "umls" / "graph.json").exists()
    assert "135 entities, 46 relations" in dura("data", "check", "./stored/umls", cwd=home, check=1).stdout  # it leaks
    text = dura(
        "data", "synth", "--entities", "200", "--facts", "1000", "--times", "9", "--out", "made", cwd=home
    ).stdout
    assert text.startswith(
        "made: 200 entities, 40 relations, 9 times; facts: 900 train, 50 valid, 50 test\n  symmetric: "
    )
    failed = dura("data", "pack", "umls", "--out", "made", cwd=home, check=2)
    assert failed.stderr == "dura: made already holds a stored graph; name a new folder with --out\n"
    assert "facts are too few" in dura("data", "synth", "--facts", "100", "--out", "few", cwd=home, check=2).stderr
    trained = dura_json(
        "train", "--graph", "./made", "--rank", "2", "--epochs", "1", "--out", "run-made", "--quiet", cwd=home
    )
    assert trained["graph"] == "made"


def test_the_demo_compares_and_answers(home: Path) -> None:
    report = dura_json("demo", "--out", "demo", "--quiet", cwd=home)
    assert set(report["results"]) == {"dura", "none", "n3"}
    assert report["results"]["dura"]["mrr"] > report["results"]["none"]["mrr"]
    assert [len(question["answers"]) for question in report["questions"]] == [3, 3, 3]
    assert (home / "demo" / "run.json").exists()


def test_presets_are_listed(home: Path) -> None:
    assert "umls/complex-dura" in dura("presets", cwd=home).stdout
    assert "umls/complex-dura" in dura_json("presets", cwd=home)["presets"]
