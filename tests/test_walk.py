"""The walks of a fact and of a question: which source files they pass, as CONTRIBUTING lists them."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dura
from dura.__main__ import app
from walks import files_of

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
MOST_OF_A_FACT, MOST_OF_A_QUESTION = 24, 12
MOST_OF_DATA = 11
AROUND = {
    "cli/main.py": "finds the command",
    "cli/common.py": "prints",
    "cli/usage.py": "reports wrong commands",
    "config/*.py": "settings",
    "models/comparators/base.py": "what all comparators share",
    "registry.py": "names of parts",
    "text.py": "settings as TOML",
    "words.py": "numbers for JSON",
    "types.py": "values that are handed around",
    "world/*.py": "is this the only process?",
    "runs/processes.py": "is this the only process?",
    "objectives/deal.py": "the part of the batch that this process has, which is all of it",
    "training/team.py": "does nothing if there is one process",
    "tables/sharded.py": "fills new tables",
    "tables/mapped.py": "opens the run",
    "records/*.py": "files of the run folder",
    "runs/choices.py": "settings",
    "runs/presets.py": "settings",
    "runs/build.py": "makes the parts",
    "runs/store.py": "keeps the graph in the run folder",
    "runs/reviews.py": "what people decided about facts, if they did",
    "runs/texts.py": "gives names to models that know texts",
    "runs/trackers.py": "listens",
    "runs/recorder.py": "listens",
    "runs/api.py": "opens the run",
    "runs/exploring.py": "is the run calibrated?",
    "runs/trained.py": "opens the run",
    "training/display.py": "listens",
    "training/checkpoint.py": "opens the run",
    "models/model.py": "state and mode",
    "models/static.py": "the constructor of the model",
    "models/state.py": "opens the run",
    "regularizers/smoothness.py": "the constructor of smoothness, which facts without times do not need",
    "objectives/known.py": "training facts for filters, which softmax over all entities does not need",
    "evaluation/*.py": "validation",
    "data/stored.py": "keeps the graph in the run folder",
    "data/stored_descriptions.py": "keeps labels in the run folder",
    "data/descriptions.py": "labels, which this graph does not have",
    "data/names.py": "reads the names of the run folder",
    "data/catalog.py": "is this the name of a known graph?",
    "runs/fitting.py": "chooses settings for the graph",
    "runs/defaults.py": "chooses settings by its size",
    "runs/weight.py": "is a search for the weight worth it?",
    "runs/training.py": "makes the trainer",
    "cli/reading.py": "options",
    "data/sheet.py": "rows that are handed around",
    "data/words.py": "what the first row would say as a header",
    "data/content.py": "what columns without titles seem to hold",
    "data/sources/*.py": "is this a database?",
    "data/leaks.py": "counts for a note",
    "data/readoff.py": "says what test facts can be read off train",
}
"""What else runs, and why it is no part of a walk: no fact and no question passes through it."""
PLAIN = {
    "loading",
    "opening",
    "readers",
    "separated",
    "recognition",
    "facts",
    "assembly",
    "vocabulary",
    "split",
    "graph",
    "questions",
}


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

    walked = [file for file in files_of(walk) if file.startswith("data/") and not around(file)]
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
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        env={name: value for name, value in os.environ.items() if name != "DURA_DATA"},  # which would be looked at too
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["data/catalog.py"]


def around(file: str) -> bool:
    return any(fnmatch.fnmatch(file, pattern) for pattern in AROUND)


def listed(heading: str) -> list[str]:
    """The files of a numbered list in CONTRIBUTING."""
    section = CONTRIBUTING.read_text("utf-8").partition(f"### {heading}\n")[2].partition("\n#")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, re.M)


def compared(heading: str, walked: list[str], most: int) -> None:
    """Every listed file ran, and whatever else ran is known to be around the walk."""
    walk = listed(heading)
    assert 0 < len(walk) == len(set(walk)) <= most
    assert [file for file in walk if file not in walked] == [], "listed in CONTRIBUTING, but did not run"
    others = [file for file in walked if file not in walk]
    strange = [file for file in others if not around(file)]
    assert strange == [], "ran, but is neither on the walk in CONTRIBUTING nor known to be around it"


def test_the_walks_are_those_of_contributing(facts: Path) -> None:
    run = facts.with_name("run")

    def dura_(*arguments: str) -> list[str]:
        done: list[int] = []
        walked = files_of(lambda: done.append(CliRunner().invoke(app, arguments).exit_code))
        assert done == [0]
        return walked

    trained = dura_("train", "--graph", str(facts), "--rank", "4", "--epochs", "2", "--out", str(run), "--quiet")
    compared("The walk of a fact", trained, MOST_OF_A_FACT)
    asked = dura_("predict", str(run), "--head", "e1", "--relation", "r1")
    compared("The walk of a question", asked, MOST_OF_A_QUESTION)
