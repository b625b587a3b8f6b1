"""Words: numbers that JSON lacks, durations, names of folders and of registered classes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.models import MODELS
from dura.regularizers import REGULARIZERS
from dura.words import duration, finite, short_names, spelled

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(plain)
def test_anything_can_be_written_as_json(value: Any) -> None:
    assert json.loads(json.dumps(finite(value), allow_nan=False)) == finite(value)


def test_only_numbers_that_are_not_finite_become_none() -> None:
    given = {"a": (1, 2.5, math.nan), 3: [math.inf, {"b": -math.inf}], "c": True, "d": "nan"}
    assert finite(given) == {"a": [1, 2.5, None], "3": [None, {"b": None}], "c": True, "d": "nan"}


def test_durations_have_the_unit_that_fits() -> None:
    words = {0.04: "0.04 s", 7.31: "7.3 s", 60: "1.0 min", 599: "10.0 min", 3600: "1.0 h", 36000: "10 h"}
    assert {seconds: duration(seconds) for seconds in words} == words


def test_runs_are_called_by_as_little_of_their_paths_as_tells_them_apart() -> None:
    assert short_names([Path("/a/x"), Path("/b/y")]) == ["x", "y"]
    assert short_names([Path("/a/1/x"), Path("/a/2/x"), Path("/a/2/y")]) == ["1/x", "2/x", "2/y"]
    assert short_names([]) == []


@pytest.mark.parametrize(
    ("name", "like", "expected"),
    [("dura-ii", "DURAII", "DURA-II"), ("my-model", "MyModelOfTrees", "My-Model"), ("theirs", "Other", "theirs")],
)
def test_names_have_the_capitals_of_their_class(name: str, like: str, expected: str) -> None:
    assert spelled(name, like) == expected


def test_our_own_names_are_spelled_as_in_the_paper() -> None:
    models = [spelled(name, cls.__name__) for name, cls in MODELS.items()]
    semantic = "CP DistMult ComplEx RESCAL TComplEx TNTComplEx TRESCAL"
    static = "TransE TransH TransD SE ModE RotatE MuRE MuRP HAKE ConvE InteractE TuckER ConvKB KBGAT StAR"
    assert models == f"{semantic} {static} TTransE TATransE HyTE RTFE BoxTE ConT DEDICOM".split()
    regularizers = {spelled(name, cls.__name__) for name, cls in REGULARIZERS.items()}
    assert {"none", "N3", "DURA", "DURA-I", "DURA-II", "DURA1", "DURA2"} <= regularizers
