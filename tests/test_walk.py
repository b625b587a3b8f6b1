"""The walk of a fact: how many source files a line of a file passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dura
from walks import files_of

MOST_OF_DATA = 7
PLAIN = {"loading", "readers", "separated", "vocabulary", "split", "graph", "questions"}


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.tsv"
    path.write_text("".join(f"e{i}\tr{i % 2}\te{(i + step) % 30}\n" for i in range(30) for step in (1, 2, 3)))
    return path


def test_a_plain_file_passes_few_files_of_the_data_room(facts: Path) -> None:
    graphs: list[dura.Graph] = []

    def walk() -> None:
        graph = dura.read(facts)
        graphs.append(graph)
        assert len(graph.questions) and len(graph.known)

    walked = [file for file in files_of(walk) if file.startswith("data/")]
    assert {file.removeprefix("data/").removesuffix(".py") for file in walked} == PLAIN, walked
    assert len(walked) <= MOST_OF_DATA, walked
    assert graphs[0].sizes.entities == 30


def test_times_and_catalogs_add_files(facts: Path) -> None:
    dated = facts.with_name("dated.tsv")
    dated.write_text("".join(f"{line}\t{2000 + at}\n" for at, line in enumerate(facts.read_text().splitlines())))
    assert {"data/columns.py", "data/times.py"} <= set(files_of(lambda: dura.read(dated, time=3)))
    assert "data/catalog.py" in files_of(lambda: dura.load("umls"))


def test_imports_are_no_part_of_a_walk() -> None:
    """In a new process, where the call has to import everything first."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from walks import files_of\n"
        "def walk():\n"
        "    from dura.data.catalog import find\n"
        "    assert find('umls') is not None\n"
        "print(*files_of(walk))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["data/catalog.py"]
