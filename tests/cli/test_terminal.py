"""Names of strangers reach the terminal without their control characters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dura
from dura.cli.main import app

ESC = "\x1b]0;owned\x07"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose names, relations and labels hold control characters."""
    facts = [(f"{ESC}{i}", f"\x9b31mr{i % 2}", f"b\u202e{(i + 1) % 7}") for i in range(12)]
    graph = dura.from_facts(facts, test=facts[:2], labels={f"{ESC}1": f"one{ESC}"}, name=f"g{ESC}")
    folder = tmp_path_factory.mktemp("terminal") / "run"
    dura.fit(graph, rank=2, epochs=1, out=folder, progress=False)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "RUN", "--by", "relation"),
        ("predict", "RUN", "--tail", "b\u202e1", "--relation", "\x9b31mr0"),
        ("predict", "RUN", "--tail", "b\u202e1", "--relation", "\x9b31mr0", "--known", "-k", "30"),
    ],
)
def test_no_control_character_reaches_the_terminal(run: Path, arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [str(run) if a == "RUN" else a for a in arguments])
    assert done.exit_code == 0, done.output
    assert not set("\x1b\x07\x9b\u202e") & set(done.output) and r"\u" in done.output


def test_error_sentences_are_one_line_without_controls(run: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "dura",
        "predict",
        str(run),
        "--head",
        f"no\nbody{ESC}",
        "--relation",
        f"\x9b31m{ESC}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert not set("\x1b\x07\x9b") & set(done.stderr) and done.stderr.startswith("dura: the ")


def test_json_still_holds_the_names(run: Path) -> None:
    import json

    question = ["predict", str(run), "--tail", "b\u202e1", "--relation", "\x9b31mr0", "--json", "--known", "-k", "30"]
    document = json.loads(CliRunner().invoke(app, question).stdout)
    assert f"{ESC}0" in {answer["entity"] for answer in document["answers"]}
