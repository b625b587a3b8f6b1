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
    assert [path.name for path in NOTEBOOKS] == [
        "answers-to-act-on.ipynb",
        "from-csv-to-model.ipynb",
        "new-entities-and-neighbours.ipynb",
    ]


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


def numbers(pattern: str, text: str) -> list[float]:
    """The numbers that the groups of a pattern find in a text. It must find them."""
    found = re.search(pattern, text, re.M)
    assert found is not None, text
    return [float(number.replace(",", "")) for number in found.groups()]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter's own packages
def test_answers_to_act_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="calibration needs the extra studies")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("DURA_DATA", "")
    committed, book = executed(EXAMPLES / "answers-to-act-on.ipynb", tmp_path)
    for said in (outputs(book), outputs(committed)):
        gaps, sets, asked, sure, restricted, why, found, decided, again, second, counted, more = said
        assert "5,016 train" in gaps
        for coverage in (0.5, 0.8, 0.9):
            (measured,) = numbers(rf"│ {coverage} +┆ ([0-9.]+)", sets)
            assert abs(measured - coverage) < 0.1
        assert len(asked.splitlines()) == 6 and all(
            0 <= float(line.split()[-1]) <= 1 for line in asked.splitlines()[1:]
        )
        (size,) = numbers(r"^(\d+) answers in the set", sure)
        assert len(sure.splitlines()) == size + 2  # k is larger, so that the whole set is there
        assert "hidden: amino_acid_peptide_or_protein carbohydrate" in restricted
        assert "vitamin" in restricted and "(known)" in restricted and "hazardous" not in restricted
        assert "training facts that it depends on" in why and "rules that lead to it" in why
        assert "shape: (8, 4)" in found
        accepted, rejected = numbers(
            r"^(\d+) accepted and (\d+) rejected; 0 were known, 20 lines have no decision", decided
        )
        assert accepted + rejected == 180 and accepted > 100 and rejected > 5
        (suggested,) = numbers(r"^(\d+) of the 200 suggestions", again)
        assert suggested <= 20  # those without a decision
        assert numbers(r"([0-9,]+) train", second) == [5016 + accepted]
        before, after = (numbers(rf"│ reject +┆ {name} .*┆ ([0-9.]+)", counted)[0] for name in ("first", "second"))
        assert before > 0.5 and after < 0.1
        assert numbers(r"│ accept +┆ second ┆ .*┆ ([0-9.]+)", counted)[0] > 0.9
        assert numbers(r"^(\d+) of the next 50", more)[0] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter's own packages
def test_new_entities_and_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the map needs the extra studies")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("DURA_DATA", "")
    committed, book = executed(EXAMPLES / "new-entities-and-neighbours.ipynb", tmp_path)
    for run, said in ((book, outputs(book)), (committed, outputs(committed))):
        old, grown, asked, near, scored, array, table, _, audit = said
        assert "135 entities" in old and "5,216 train" in old
        assert "137 entities" in grown and "5,224 train" in grown
        assert asked.splitlines()[0] == "(retrovirus, causes, ?)" and len(asked.splitlines()) == 10
        assert not re.search(r" disease_or_syndrome ", asked)  # known by the new facts
        of_virus, of_vaccine, queries = near.split("nearest to ")[1:]
        assert re.search(r" (virus|bacterium|fungus) ", of_virus) and " pharmacologic_substance " in of_vaccine
        assert queries.startswith("virus as the head of causes") and " bacterium " in queries
        known, new, wrong = scored.splitlines()
        assert known.endswith("(known)") and not new.endswith("(known)")
        assert float(new.split()[0]) > float(wrong.split()[0])
        assert array == "(137, 100) 137\n"
        assert "shape: (3, 2)" in table and "array[f32, 100]" in table
        assert any("image/png" in out.get("data", {}) for cell in run.cells for out in cell.get("outputs", []))
        errors, hits = numbers(r"^(\d+) of 5263 training facts are errors; (\d+) of the 50", audit)
        assert errors == 47 and hits > 10  # by chance it is one in two audits


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
