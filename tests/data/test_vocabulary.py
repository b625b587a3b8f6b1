from __future__ import annotations

import hashlib
import random
import string
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.vocabulary import Vocabulary
from dura.types import BadInput

ODD = [
    "b",
    "a\u00a0",
    "a",
    "A",
    "a\rb",
    "a\r",
    '"q"',
    "it's",
    "🦆",
    "é",
    "e\u0301",
    " lead",
    "tab\tin",
    "\u2028x",
    "\ufeffm",
]
QUICK = settings(max_examples=40)
NAMES = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1))


def test_names_are_sorted_by_code_point_and_once() -> None:
    vocabulary = Vocabulary([*ODD, "b", "a"])
    assert list(vocabulary) == sorted(ODD)
    assert [vocabulary.id(name) for name in sorted(ODD)] == list(range(len(ODD)))
    assert all(name in vocabulary for name in ODD)
    assert "a " not in vocabulary


def test_odd_names_survive_a_file(tmp_path: Path) -> None:
    vocabulary = Vocabulary(ODD)
    vocabulary.write(tmp_path / "names.txt")
    assert Vocabulary.read(tmp_path / "names.txt") == vocabulary
    assert list(Vocabulary.read(tmp_path / "names.txt")) == sorted(ODD)
    assert vocabulary.digest == hashlib.sha256((tmp_path / "names.txt").read_bytes()).hexdigest()


@QUICK
@given(NAMES)
def test_any_names_survive_a_file(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "names.txt"
    vocabulary = Vocabulary(names)
    vocabulary.write(path)
    assert list(Vocabulary.read(path)) == sorted(set(names))


@QUICK
@given(NAMES)
def test_ids_and_names_are_inverse(names: list[str]) -> None:
    vocabulary = Vocabulary(names)
    ids = vocabulary.ids(pl.Series(names, dtype=pl.String))
    assert ids.dtype == np.int32
    assert vocabulary.names(ids) == names
    assert [vocabulary.id(name) for name in names] == ids.tolist()


def test_digest_tells_apart() -> None:
    assert Vocabulary(["a", "b"]) == Vocabulary(["b", "a", "a"])
    assert Vocabulary(["a", "b"]) != Vocabulary(["ab"])
    assert Vocabulary(["a"]) != ["a"]


def test_bad_names_are_refused() -> None:
    with pytest.raises(BadInput, match="line break"):
        Vocabulary(["a\nb"])
    with pytest.raises(BadInput, match="missing"):
        Vocabulary(pl.Series(["a", None]))


def test_unknown_names_get_a_suggestion() -> None:
    vocabulary = Vocabulary(["Berlin", "Bern", "Paris", "New York City", "mad men "])
    assert vocabulary.suggest("berlin")[0] == "Berlin"
    assert vocabulary.suggest("MAD MEN")[0] == "mad men "
    assert vocabulary.suggest("Pariss") == ["Paris"]
    assert vocabulary.suggest("York") == ["New York City"]
    assert vocabulary.suggest("") == vocabulary.suggest("zzz") == []
    assert Vocabulary([]).suggest("a") == []
    with pytest.raises(BadInput, match=r"the entity 'berlin' is not in this graph; did you mean 'Berlin', 'Bern'\?"):
        vocabulary.id("berlin", "entity")
    with pytest.raises(BadInput, match=r"not in this graph$"):
        vocabulary.id("zzz")


def test_suggestions_are_quick_in_a_large_vocabulary() -> None:
    letters = random.Random(0)
    names = ["".join(letters.choices(string.ascii_letters, k=letters.randint(5, 30))) for _ in range(100_000)]
    vocabulary = Vocabulary([*names, "Angela_Merkel"])
    assert vocabulary.suggest("angela merkl") == ["Angela_Merkel"]
    start = time.perf_counter()
    vocabulary.suggest("a name that is quite long and in which nothing is known")
    assert time.perf_counter() - start < 1  # 0.07 s on an idle machine
