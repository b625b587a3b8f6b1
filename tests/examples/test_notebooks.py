"""The notebooks of examples/ run from their first cell to their last, and say what their committed outputs say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
WHY = "notebooks run only where nbclient, nbformat and ipykernel are installed: pip install 'dura-kge[dev]'"


def outputs(book: Any) -> list[str]:
    """The text that each code cell shows."""
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    return [
        "".join(out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.outputs) for cell in cells
    ]


def executed(path: Path, folder: Path) -> tuple[Any, Any]:
    """The notebook as it is committed, and as it is after all its cells ran."""
    nbformat = pytest.importorskip("nbformat", reason=WHY)
    nbclient = pytest.importorskip("nbclient", reason=WHY)
    pytest.importorskip("ipykernel", reason=WHY)
    committed, book = (nbformat.read(path, as_version=4) for _ in range(2))
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    nbclient.NotebookClient(book, timeout=200, resources={"metadata": {"path": str(folder)}}).execute()
    return committed, book


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["from-csv-to-model.ipynb"]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter's own packages
def test_from_csv_to_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("DURA_DATA", "")
    committed, book = executed(EXAMPLES / "from-csv-to-model.ipynb", tmp_path)
    said, before = outputs(book), outputs(committed)
    assert said[:2] == before[:2]  # the file, how it is read and split
    assert "head = 'source_concept', relation = 'link_type', tail = 'target_concept'; not used: 'row'" in said[1]
    for results in (said[3], before[3]):
        found = re.search(r"^realistic +([0-9.]+)", results, re.M)
        assert found is not None
        assert float(found[1]) > 0.8
    asked = said[4].splitlines()
    assert asked[0] == "(acquired_abnormality (Acquired abnormality), location_of, ?)"
    assert len(asked) == 6 and "(known)" not in said[4]
    assert "(known)" in said[5]
    assert said[-1].startswith("Trained(complex of rank 100")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_committed_with_outputs_and_without_paths(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason=WHY)
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not re.search(r"/(home|root|tmp|Users|work)/", path.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)]+)\)", "".join(cell.source for cell in book.cells)):
        assert (path.parent / target).exists(), target
