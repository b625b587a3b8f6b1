"""Files of questions and facts on the command line: every format, bad lines, Ctrl-C, bounded memory; score and neighbours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import dura
from dura.__main__ import app
from dura.types import BadInput

QUESTIONS = "usa\tembassy\t?\n?\ttreaties\tchina\nus\tembassy\t?\nusa\tembassy\tuk\nbrazil\tembassy\n"
WRONG = {
    3: "the entity 'us' is not in this graph; did you mean 'usa', 'ussr'?",
    4: "a question needs exactly one ?, in place of its head, its tail or its time",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streaming")
    types = {"usa": ("big", "west"), "uk": ("west",), "china": ("big",), "ussr": ("big",)}
    graph = replace(dura.load("nations"), entity_types=types)
    dura.fit(graph, rank=8, epochs=4, out=folder / "run", progress=False)
    (folder / "questions.tsv").write_text(QUESTIONS)
    return folder


def call(*arguments: object, text: str | None = None) -> Result:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)
    if isinstance(done.exception, BadInput):
        return done
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_tables_have_a_row_per_answer(home: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"answers.{ending}"
    done = call("predict", home / "run", "--input", home / "questions.tsv", "-k", 2, "--output", out)
    assert (done.exit_code, done.stdout) == (1, "")
    separator = {"separator": "\t"} if ending == "tsv" else {}
    frame = pl.read_parquet(out) if ending == "parquet" else pl.read_csv(out, **separator)  # type: ignore[arg-type]
    assert frame.columns == ["line", "asked", "head", "relation", "tail", "score", "rank", "known", "label"]
    assert frame["line"].to_list() == [1, 1, 2, 2, 5, 5]
    trained = dura.open(home / "run")
    expected = trained.predict(tail="china", relation="treaties", k=2)
    rows = frame.filter(pl.col("line") == 2).rows(named=True)
    assert [(row["asked"], row["head"], row["tail"]) for row in rows] == [("head", a.entity, "china") for a in expected]
    assert [row["score"] for row in rows] == pytest.approx([a.score for a in expected], rel=1e-5)
    assert list(tmp_path.iterdir()) == [out]


def test_bad_questions_are_named_and_the_others_answered(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    done = call("predict", home / "run", "--input", home / "questions.tsv", "-k", 2, "--output", out)
    assert done.exit_code == 1
    told = [f"{home / 'questions.tsv'}:{line}: {wrong}" for line, wrong in WRONG.items()]
    assert done.stderr.splitlines() == [*told, "dura: 3 of 5 lines are done; 2 are bad"]
    documents = [json.loads(line) for line in out.read_text().splitlines()]
    assert [document["line"] for document in documents] == [1, 2, 3, 4, 5]
    assert {document["line"]: document["error"] for document in documents if "error" in document} == WRONG
    whole = json.loads(call("predict", home / "run", "--input", home / "questions.tsv", "-k", 2, "--json").stdout)
    assert whole == {"run": str(home / "run"), "questions": documents}
    text = call("predict", home / "run", "--input", home / "questions.tsv", "-k", 2).stdout
    assert [line for line in text.splitlines() if line.startswith("(")] == [
        "(usa, embassy, ?)", "(?, treaties, china)", "(brazil, embassy, ?)"
    ]  # fmt: skip
    piped = call("predict", home / "run", "--input", "-", "-k", 2, "--output", "-", text=QUESTIONS)
    assert [json.loads(line) for line in piped.stdout.splitlines()] == documents


def test_python_writes_the_same_file(home: Path, tmp_path: Path) -> None:
    told: list[str] = []
    counts: list[int] = []
    trained = dura.open(home / "run")
    tally = trained.predict_file(
        home / "questions.tsv", tmp_path / "one.csv", k=2, in_range=True, notify=told.append, progress=counts.append
    )
    assert (tally.done, tally.bad, len(told), counts) == (3, 2, 2, [1, 2, 3, 4, 5])
    call(
        "predict", home / "run", "--input", home / "questions.tsv", "-k", 2, "--in-range",
        "--output", tmp_path / "two.csv",
    )  # fmt: skip
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_restrictions_on_the_command_line(home: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("usa\n\nbrazil\nchina\n")
    asked = ["predict", home / "run", "--head", "uk", "--relation", "embassy", "--known"]
    answers = json.loads(call(*asked, "--among", tmp_path / "names.txt", "--type", "big", "--json").stdout)["answers"]
    assert sorted(answer["entity"] for answer in answers) == ["china", "usa"]
    both = json.loads(call(*asked, "--type", "west", "--type", "big", "--json").stdout)["answers"]
    assert sorted(answer["entity"] for answer in both) == ["china", "uk", "usa", "ussr"]
    none = call(*asked[:-1], "--among", tmp_path / "names.txt", "--type", "west", "--in-range").stdout
    assert none.splitlines()[-1].startswith("   no answer is left: none passes the restrictions") or "usa" in none
    (tmp_path / "none.txt").write_text("\n")
    wrong: list[tuple[list[object], str]] = [
        (["--type", "wst"], "the type 'wst' is not in this graph; did you mean 'west'?"),
        (["--among", tmp_path / "none.txt"], "none.txt holds no names; write one per line"),
        (["--among", tmp_path / "nowhere"], "there is no file"),
        (["--min-probability", "0.5"], f"run dura calibrate {home / 'run'} first"),
        (["--output", tmp_path / "a.csv"], "--output is for the questions of a file; name it with --input"),
    ]
    for more, sentence in wrong:
        assert sentence in str(call(*asked, *more).exception)
    (tmp_path / "old.csv").write_text("mine")
    wrong = [
        (["--input", home / "questions.tsv", "--output", tmp_path / "old.csv"], "old.csv is there already"),
        (["--input", "-", "--among", "-"], "standard input can be read only once"),
    ]
    for more, sentence in wrong:
        assert sentence in str(call("predict", home / "run", *more).exception)


def test_scores_of_a_file_and_of_one_fact(home: Path, tmp_path: Path) -> None:
    facts = [("usa", "embassy", "uk"), ("uk", "treaties", "china"), ("usa", "embassy", "cuba")]
    path = tmp_path / "facts.csv"
    path.write_text("head,relation,tail\n" + "".join(",".join(fact) + "\n" for fact in facts) + "usa,embassy,mars\n")
    trained = dura.open(home / "run")
    done = call("score", home / "run", path, "--output", tmp_path / "scores.parquet")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[0] == f"{path}:5: the entity 'mars' is not in this graph"
    frame = pl.read_parquet(tmp_path / "scores.parquet")
    assert frame.columns == ["line", "head", "relation", "tail", "score", "known", "rejected"]
    assert frame["score"].to_list() == pytest.approx(trained.score(facts), rel=1e-5)
    assert frame["known"].to_list() == [fact.known for fact in trained.scored(facts)]
    document = json.loads(call("score", home / "run", path, "--json").stdout)
    assert [fact.get("score") for fact in document["facts"][:3]] == frame["score"].to_list()
    assert document["facts"][3]["error"].startswith("the entity 'mars'")
    one = json.loads(
        call("score", home / "run", "--head", "usa", "--relation", "embassy", "--tail", "uk", "--json").stdout
    )
    assert one == {"run": str(home / "run"), **trained.scored(facts[:1])[0].to_dict()}
    text = call("score", home / "run", "-", text="usa\tembassy\tuk\n").stdout
    assert text == f"{trained.scored(facts[:1])[0]}\n"
    tally = trained.score_file(path, tmp_path / "again.csv")
    assert (tally.done, tally.bad) == (3, 1)
    wrong: list[tuple[list[object], str]] = [
        ([], "name a file of facts, or one fact with --head, --relation and --tail"),
        ([path, "--head", "usa"], "FACTS has the facts, so --head"),
        (["--head", "usa", "--relation", "embassy", "--tail", "uk", "--output", "a.csv"], "--output is for a file"),
    ]
    for arguments, sentence in wrong:
        assert sentence in str(call("score", home / "run", *arguments).exception)


def test_neighbours_on_the_command_line(home: Path) -> None:
    found = dura.open(home / "run").neighbours("usa", 3)
    assert call("neighbours", home / "run", "--entity", "usa", "-k", 3).stdout == f"{found!r}\n"
    document = json.loads(call("neighbours", home / "run", "--entity", "usa", "-k", 3, "--json").stdout)
    assert document == {"run": str(home / "run"), **found.to_dict()}


def test_empty_files_are_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "header.csv").write_text("head,relation,tail\n")
    (tmp_path / "empty.csv").write_text("")
    for name, sentence in [("header.csv", "holds nothing but a header or blank lines"), ("empty.csv", "is empty")]:
        done = call("predict", home / "run", "--input", tmp_path / name, "--output", tmp_path / "out.csv")
        assert sentence in str(done.exception)
    assert not (tmp_path / "out.csv").exists()


MEMORY = """
import resource, sys
import dura
model = dura.open(sys.argv[1])
peaks = []
def watch(done):
    if done in (6_000, 60_000):
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
tally = model.predict_file(sys.argv[2], sys.argv[3], k=1, progress=watch)
assert tally.done == 60_000, tally
print(peaks[1] - peaks[0])
"""


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_questions(home: Path, tmp_path: Path, ending: str) -> None:
    heads = list(dura.open(home / "run").graph.entities)
    frame = pl.DataFrame({"head": (heads * (60_000 // len(heads) + 1))[:60_000]}).with_columns(
        relation=pl.lit("embassy")
    )
    frame.write_parquet(tmp_path / "q.parquet") if ending == "parquet" else frame.write_csv(tmp_path / "q.csv")
    out = tmp_path / f"a.{ending}"
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(home / "run"), str(tmp_path / f"q.{ending}"), str(out)],
        capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 15, "MB more after ten times as many questions"
    assert (pl.scan_parquet(out) if ending == "parquet" else pl.scan_csv(out)).select(
        pl.len()
    ).collect().item() == 60_000


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_says_how_far_it_came_and_leaves_nothing(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    command = [
        sys.executable,
        "-m",
        "dura",
        "predict",
        str(home / "run"),
        "--input",
        "-",
        "--output",
        str(out / "a.csv"),
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write("usa\tembassy\t?\n" * 40_000)
    process.stdin.flush()
    deadline = time.monotonic() + 100
    while not list(out.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.startswith("dura: interrupted after ") and said.endswith(" lines; no file is left\n")
    assert list(out.iterdir()) == []
