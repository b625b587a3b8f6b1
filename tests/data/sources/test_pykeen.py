"""PyKEEN folders that PyKEEN itself wrote (tests/fixtures/make_pykeen.py)."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from dura.data.readers import ReadOptions
from dura.data.sources import folder_kind
from dura.data.sources.pykeen import load
from dura.types import BadInput

FIXTURES = Path(__file__).parents[2] / "fixtures" / "pykeen"
ADA = 'Ada "the" Queen'
FACTS = [
    (ADA, "knows", "Bö b"),
    ("Bö b", "knows", "null"),
    ("Bö b", "likes,much", "c\td"),
    ("c\td", "knows", "Bö b"),
    ("null", "knows", "c\td"),
    ("null", "likes,much", ADA),
]


def test_a_factory() -> None:
    assert folder_kind(FIXTURES / "factory") is load
    found = load(FIXTURES / "factory", ReadOptions())
    assert list(found.sheets) == ["train"] and sorted(found.sheets["train"].rows.rows()) == FACTS
    assert found.sheets["train"].titles == ("head", "relation", "tail")


def test_a_dataset() -> None:
    assert folder_kind(FIXTURES / "dataset") is load
    found = load(FIXTURES / "dataset", ReadOptions())
    assert set(found.sheets) == {"train", "valid", "test"}
    assert sorted(row for sheet in found.sheets.values() for row in sheet.rows.rows()) == FACTS
    assert found.sheets["test"].rows.rows() == [("null", "knows", "c\td")]


def test_a_factory_without_names() -> None:
    rows = load(FIXTURES / "core", ReadOptions()).sheets["train"].rows.rows()
    assert rows[0] == ("0", "0", "1") and len(rows) == 6


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "factory", tmp_path / "f")
    (tmp_path / "f" / "base.pth").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    assert len(load(tmp_path / "f", ReadOptions()).sheets["train"]) == 6
    (tmp_path / "f" / "base.pth").unlink()
    assert len(load(tmp_path / "f", ReadOptions()).sheets["train"]) == 6


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "numeric_triples",
            "head\trelation\ttail\n0\t0\t9\n",
            r"gz:2: '9' is not the number of an entity; these are 0 to 3",
        ),
        ("numeric_triples", "head\ttail\n0\t0\n", "needs the columns head, relation, tail, but has head, tail"),
        ("entity_to_id", "id\tlabel\n0\ta\n0\tb\n", r"gz:2: the id '0' is no number, or is given twice"),
        ("entity_to_id", "id\tlabel\n0\ta\n1\ta\n", "gives two ids the label 'a'"),
        ("relation_to_id", 'id\tlabel\n0\t"a\n', "is not a table of PyKEEN"),
    ],
)
def test_what_is_wrong_is_said(name: str, text: str, message: str, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "factory", tmp_path / "f")
    (tmp_path / "f" / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(BadInput, match=message):
        load(tmp_path / "f", ReadOptions())
