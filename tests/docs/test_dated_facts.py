"""The page on dated facts is run from its first line to its last: the file it makes, its commands, its Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dura.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "dated-facts.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)


def test_the_page_does_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make, session = blocks("python")
    exec(compile(make, "make", "exec"), {})
    output = ""
    for line in "".join(blocks("sh")).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "dura"
        if arguments[0] == "train":
            arguments += ["--quiet"] if "--out" in arguments else ["--quiet", "--epochs", "2"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        output += result.stdout
    shown = [line for block in blocks("text") for line in block.splitlines() if line.startswith(("(", "test facts"))]
    assert len(shown) == 5
    assert all(line in output.splitlines() for line in shown)
    when = output[output.index("(Ann, visits, Dora, ?)") :].splitlines()[1:8]
    assert sorted(line.split()[1] for line in when) == [f"2024-02-{day}" for day in range(14, 21)]
    exec(compile(session.replace("batch=50)", "batch=50, progress=False)"), "session", "exec"), {})
    assert "time-aware filter" in capsys.readouterr().out
