"""OpenKE folders: counts, numbers and the order of columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from dura.data.readers import ReadOptions
from dura.data.sources import folder_kind
from dura.data.sources.openke import load
from dura.types import BadInput

ENTITIES = '4\n/m/0a\t0\nBö b\t1\nc c\t3\n"d"\t2\n'
RELATIONS = "2\nknows\t0\nlikes\t1\n"


def folder(path: Path, train: str = "2\n0 1 0\n3 2 1\n", entities: str = ENTITIES, relations: str = RELATIONS) -> Path:
    for name, text in (
        ("entity2id", entities),
        ("relation2id", relations),
        ("train2id", train),
        ("test2id", "1\n1\t0\t1\n"),
    ):
        (path / f"{name}.txt").write_text(text, "utf-8")
    return path


def test_lines_are_head_tail_relation(tmp_path: Path) -> None:
    assert folder_kind(folder(tmp_path)) is load
    found = load(tmp_path, ReadOptions())
    assert set(found.sheets) == {"train", "test"}
    assert found.sheets["train"].rows.rows() == [("/m/0a", "knows", "Bö b"), ("c c", "likes", '"d"')]
    assert found.sheets["test"].rows.rows() == [("Bö b", "likes", "/m/0a")]
    assert found.sheets["train"].titles == ("head", "relation", "tail")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"train": "3\n0 1 0\n"},
            r"train2id\.txt:1: the file says that 3 lines follow, but there are 1; is it cut short\?",
        ),
        ({"train": "0 1 0\n"}, r"train2id\.txt:1: '0 1 0' is not the count"),
        (
            {"train": "2\n0 1 3\n2 0 2\n"},
            "look like head, relation, tail .the third column goes up to 3, but there are 2",
        ),
        ({"train": "2\n0 3 0\n0 3 5\n"}, r"train2id\.txt:3: '5' is not the number of a relation; these are 0 to 1"),
        ({"train": "1\n0 9 0\n"}, r"train2id\.txt:2: '9' is not the number of an entity; these are 0 to 3"),
        ({"train": "1\n0 1\n"}, r"train2id\.txt:2: three numbers are needed: head, tail, relation"),
        ({"entities": "2\na 0\nb 2\n"}, "does not number its 2 entities from 0 without gaps: 2 is where 1 should be"),
        ({"entities": "2\na 0\na 1\n"}, "names two entities 'a'"),
        ({"relations": "1\nknows\n"}, r"relation2id\.txt:2: a name and a number are needed"),
    ],
)
def test_what_is_wrong_is_said(changed: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        load(folder(tmp_path, **changed), ReadOptions())
