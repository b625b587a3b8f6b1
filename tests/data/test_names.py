from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data import names as names_module
from dura.data import vocabulary as vocabulary_module
from dura.data.names import StoredNames, read_vocabulary
from dura.data.vocabulary import Vocabulary
from dura.records import Damage
from dura.types import BadInput

QUICK = settings(max_examples=40)
NAMES = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), min_size=1, unique=True)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "LAZY", 0)
    monkeypatch.setattr(names_module, "BLOCK", 16)


def stored(folder: Path, names: Vocabulary) -> Vocabulary:
    (folder / "names.txt").write_bytes(b"".join(names.pieces()))
    return read_vocabulary(Vocabulary, folder, "names.txt", len(names), "graph.json")


@QUICK
@given(NAMES, st.text())
def test_names_in_a_file_are_the_same_vocabulary(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], other: str
) -> None:
    plain = Vocabulary(names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names_module, "LAZY", 0)
        patch.setattr(names_module, "BLOCK", 16)
        found = stored(tmp_path_factory.mktemp("names"), plain)
        assert isinstance(found, StoredNames)
        assert len(found) == len(plain) and found == plain and found.text() == plain.text()
        assert list(found) == list(plain) and found.names(range(len(plain))) == list(plain)
        assert [found.id(name) for name in names] == [plain.id(name) for name in names]
        assert (other in found) == (other in plain)
        assert found.ids(pl.Series(names, dtype=pl.String)).tolist() == [plain.id(name) for name in names]


@pytest.mark.usefixtures("lazy")
def test_no_name_is_read_before_one_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Vocabulary(f"e{i:03d}" for i in range(100))
    found = stored(tmp_path, plain)

    def refuse(*_: object) -> None:
        raise AssertionError("names are read")

    monkeypatch.setattr(StoredNames, "_series", refuse)
    assert len(found) == 100 and found.digest == hashlib.sha256(plain.text().encode()).hexdigest()
    assert b"".join(found.pieces()) == plain.text().encode()


@pytest.mark.usefixtures("lazy")
def test_unknown_names_get_a_suggestion(tmp_path: Path) -> None:
    found = stored(tmp_path, Vocabulary(["Berlin", "Bern", "Paris"]))
    with pytest.raises(BadInput, match=r"the entity 'berlin' is not in this graph; did you mean 'Berlin', 'Bern'\?"):
        found.id("berlin", "entity")
    assert "\udcff" not in found


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has 0 whole lines, but graph.json says 2"),
        (b"a\n", "has 1 whole lines, but graph.json says 2"),
        (b"a\nb\nc\n", "has 3 whole lines, but graph.json says 2"),
        (b"a\nb", "has 1 whole lines, but graph.json says 2"),
        (b"b\na\n", "its names are not distinct and sorted"),
        (b"a\na\n", "its names are not distinct and sorted"),
        (b"a\n\xff\n", "it is not UTF-8 text"),
    ],
)
def test_damaged_names_are_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises(Damage, match=said):
        read_vocabulary(Vocabulary, tmp_path, "names.txt", 2, "graph.json").id("a")


@pytest.mark.usefixtures("lazy")
def test_order_is_checked_across_blocks(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes(b"a" * 15 + b"\n" + b"c" * 15 + b"\n" + b"b" * 15 + b"\n")
    with pytest.raises(Damage, match="not distinct and sorted"):
        read_vocabulary(Vocabulary, tmp_path, "names.txt", 3, "graph.json").name(0)


def test_many_names_in_memory_are_found_by_search(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["", "B", "a", "é", "🦆"]
    plain = Vocabulary(names)
    monkeypatch.setattr(vocabulary_module, "MANY", 2)
    assert [plain.id(name) for name in names] == list(range(5))
    assert "b" not in plain and "🦆🦆" not in plain and "\udcff" not in plain
