from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.registry import Option, Registry, check_value, describe, did_you_mean
from dura.types import BadInput, Sizes


class Complex:
    def __init__(self, sizes: Sizes, rank: int = 200, init: float = 1e-3, dropout: float | None = None) -> None:
        self.sizes, self.rank, self.init, self.dropout = sizes, rank, init, dropout


class Picky(Complex):
    def __init__(
        self,
        sizes: Sizes,
        rank: int,
        *,
        ties: Literal["mean", "max"] = "mean",
        tag: str = "",
        fast: bool = False,
    ) -> None:
        super().__init__(sizes, rank)
        self.ties, self.tag, self.fast = ties, tag, fast


class Plain(Complex):
    """Inherits its constructor, so it has its parent's settings."""


class Bare:
    """Has no constructor, so it has no settings."""


SIZES = Sizes(3, 2)
CHOOSE = "to choose one that has it, set model.name ="
HAS = "it has rank, init, dropout"
MODELS: Registry[Complex] = Registry("model", "dura.test.models", {"complex": Complex, "picky": Picky, "plain": Plain})


def test_names_get_items_contains() -> None:
    assert MODELS.names() == list(MODELS) == ["complex", "picky", "plain"]
    assert MODELS.get("picky") is Picky
    assert dict(MODELS.items())["plain"] is Plain
    assert "complex" in MODELS and "cp" not in MODELS


def test_unknown_name_tells_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(BadInput) as error:
        MODELS.get("Complx")
    assert str(error.value) == (
        "the model 'Complx' is not known; known are complex, picky, plain; did you mean 'complex'?"
    )
    with pytest.raises(BadInput, match=r"plain$"):
        MODELS.get("xyz")


def test_build_takes_positional_arguments_and_options() -> None:
    model = MODELS.build("complex", {"rank": 7, "init": 1}, SIZES)
    assert (model.sizes, model.rank, model.init, model.dropout) == (SIZES, 7, 1.0, None)
    assert type(model.init) is float
    assert MODELS.build("complex", {"dropout": None}, SIZES).dropout is None
    assert MODELS.build("plain", {}, SIZES).rank == 200
    picky = MODELS.build("picky", {"rank": 2, "ties": "max", "tag": "x", "fast": True}, SIZES)
    assert isinstance(picky, Picky) and (picky.ties, picky.tag, picky.fast) == ("max", "x", True)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("complex", {"ranks": 3}, f"model.ranks is not a setting of 'complex'; {HAS}; did you mean 'rank'?"),
        ("complex", {"sizes": 3}, "model.sizes is not a setting of 'complex'; " + HAS),
        ("complex", {"rank": 2.0}, "model.rank must be a whole number, not the number 2.0"),
        ("complex", {"rank": True}, "model.rank must be a whole number, not true"),
        ("complex", {"rank": "many"}, "model.rank must be a whole number, not the text 'many'"),
        ("complex", {"init": False}, "model.init must be a number, not false"),
        ("complex", {"init": None}, "model.init must be a number, not nothing"),
        ("complex", {"dropout": "no"}, "model.dropout must be a number or nothing, not the text 'no'"),
        ("complex", {"init": float("nan")}, "model.init must be a number, not nan, which is not finite"),
        ("complex", {"init": (1, 2)}, "model.init must be a number, not the list [1, 2]"),
        ("complex", {"fast": True}, f"model.fast is not a setting of 'complex'; {HAS}; {CHOOSE} 'picky'"),
        ("picky", {}, "the model 'picky' needs the setting model.rank, a whole number"),
        ("picky", {"rank": 1, "ties": "x"}, "model.ties must be 'mean' or 'max', not the text 'x'"),
        ("picky", {"rank": 1, "fast": 1}, "model.fast must be true or false, not the whole number 1"),
        ("picky", {"rank": 1, "tag": 1}, "model.tag must be text, not the whole number 1"),
    ],
)  # fmt: skip
def test_build_refuses_with_a_sentence(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        MODELS.build(name, options, SIZES)
    assert str(error.value) == sentence


def test_a_class_without_settings() -> None:
    table: Registry[Bare] = Registry("reader", "dura.test.readers", {"bare": Bare})
    assert table.options("bare") == {}
    assert isinstance(table.build("bare", {}), Bare)
    with pytest.raises(BadInput, match=r"reader\.x is not a setting of 'bare'; it has none"):
        table.build("bare", {"x": 1})


def test_options_are_the_constructors_plain_parameters() -> None:
    assert MODELS.options("complex") == {
        "rank": Option(int, 200),
        "init": Option(float, 1e-3),
        "dropout": Option(float | None, None),
    }
    options = MODELS.options("picky")
    assert options["rank"].required and tuple(options["rank"]) == (int, inspect.Parameter.empty)
    assert not options["ties"].required


def _package(folder: Path, package: str, points: str, code: str) -> None:
    """A package installed by hand: a module and the metadata that announces its entry points."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[dura.models]\n{points}\n")
    (folder / f"{package}.py").write_text(code)


_USE = """
import sys
from dura.registry import Registry
from dura.types import DuraError
class Own: ...
table = Registry("model", "dura.models", {"own": Own})
"""


def _run(folder: Path, code: str) -> str:
    paths = f"import sys; sys.path[:0] = {[str(folder), *sys.path]!r}\n"
    done = subprocess.run([sys.executable, "-c", paths + _USE + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_rows_of_another_package_are_imported_only_when_asked_for(tmp_path: Path) -> None:
    code = "class Theirs:\n    def __init__(self, size: int = 3) -> None: self.size = size"
    _package(tmp_path, "theirs_a", "theirs = theirs_a:Theirs", code)
    assert _run(tmp_path, "print(table.names(), 'theirs_a' in sys.modules)") == "['own', 'theirs'] False"
    assert _run(tmp_path, "print(table.build('theirs', {'size': 5}).size, table.names())") == "5 ['own', 'theirs']"


def test_a_row_that_names_its_class_is_imported_only_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("class Late:\n    def __init__(self, size: int = 3) -> None: self.size = size")
    table = "table = Registry('model', 'dura.models', {'own': Own, 'late': 'late:Late'})\n"
    seen = "print(table.names(), 'late' in table, 'late' in sys.modules)"
    assert _run(tmp_path, table + seen) == "['own', 'late'] True False"
    used = (
        "table.get('own'); print('late' in sys.modules, table.build('late', {'size': 5}).size, 'late' in sys.modules)"
    )
    assert _run(tmp_path, table + used) == "False 5 True"
    same = "import late; print(table.get('late') is table.get('late') is late.Late, dict(table.items())['late'])"
    assert _run(tmp_path, table + same) == "True <class 'late.Late'>"


def test_a_package_cannot_take_the_name_of_a_row_that_is_not_imported_yet(tmp_path: Path) -> None:
    _package(tmp_path, "theirs_f", "late = theirs_f:X", "class X: ...")
    table = "table = Registry('model', 'dura.models', {'late': 'late:Late'})\n"
    said = _run(tmp_path, table + "try: table.names()\nexcept DuraError as error: print(error)")
    assert said.startswith("the model 'late' is defined twice, by dura itself and by the package 'theirs_f'")


def test_a_clash_is_an_error(tmp_path: Path) -> None:
    show = "\ntry: table.names()\nexcept DuraError as error: print(error)"
    _package(tmp_path / "one", "theirs_b", "own = theirs_b:X", "class X: ...")
    assert _run(tmp_path / "one", show) == (
        "the model 'own' is defined twice, by dura itself and by the package 'theirs_b'; "
        "uninstall one of the two or rename its entry point"
    )
    for package in ("theirs_c", "theirs_d"):
        _package(tmp_path / "two", package, f"new = {package}:X", "class X: ...")
    said = _run(tmp_path / "two", show)
    assert "the model 'new' is defined twice" in said and "'theirs_c'" in said and "'theirs_d'" in said


def test_a_broken_entry_point_is_one_sentence(tmp_path: Path) -> None:
    _package(tmp_path, "theirs_e", "broken = theirs_e:X\nnumber = theirs_e:Y", "Y = 3")
    show = "\ntry: table.get('{}')\nexcept DuraError as error: print(error)"
    assert _run(tmp_path, show.format("broken")).startswith(
        "the model 'broken' of the package 'theirs_e' cannot be imported:"
    )
    assert _run(tmp_path, show.format("number")).endswith("is not a class; its entry point 'theirs_e:Y' must name one")


def test_a_class_of_another_package_must_extend_the_base(tmp_path: Path) -> None:
    _package(
        tmp_path,
        "theirs_g",
        "odd = theirs_g:Odd\ngood = theirs_g:Good",
        "class Odd: ...\nfrom base import Base\nclass Good(Base): ...",
    )
    (tmp_path / "base.py").write_text("class Base: ...")
    table = "table = Registry('model', 'dura.models', {}, 'base:Base')\n"
    show = "try: print(table.get('{}').__name__)\nexcept DuraError as error: print(error)"
    assert _run(tmp_path, table + show.format("good")) == "Good"
    assert _run(tmp_path, table + show.format("odd")) == (
        "the model 'odd' of the package 'theirs_g' is the class 'theirs_g:Odd', which does not extend base.Base"
    )


def test_a_module_of_another_package_must_have_all_parts(tmp_path: Path) -> None:
    _package(tmp_path, "theirs_h", "whole = theirs_h\nbare = bare_h\nnumber = theirs_h:Y", "def draw(): ...\nY = 3")
    (tmp_path / "bare_h.py").write_text("draw = 3")
    table = "from dura.registry import Modules\ntable = Modules('study', 'dura.models', {}, ['draw'])\n"
    show = "try: print(table.get('{}').__name__)\nexcept DuraError as error: print(error)"
    assert _run(tmp_path, table + show.format("whole")) == "theirs_h"
    said = {
        "bare": "is the module 'bare_h', which has no function 'draw'",
        "number": "is not a module; its entry point 'theirs_h:Y' must name one, without a colon",
    }
    for name, sentence in said.items():
        assert _run(tmp_path, table + show.format(name)) == f"the study {name!r} of the package 'theirs_h' {sentence}"


def test_entry_points_are_not_read_for_a_known_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(group: str) -> Any:
        raise AssertionError(group)

    monkeypatch.setattr(importlib.metadata, "entry_points", never)
    table: Registry[Bare] = Registry("reader", "dura.test.readers", {"bare": Bare})
    assert isinstance(table.build("bare", {}), Bare)
    with pytest.raises(AssertionError, match=r"dura\.test\.readers"):
        table.names()


@given(st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_numbers_keep_their_value(number: float) -> None:
    assert check_value(number, float, "x") == number
    assert check_value(number, float | str, "x") == number
    assert check_value([number], tuple[float, ...], "x") == (number,)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**63, int),
        (10**400, float),
        (float("inf"), float),
        ("\udce9", str),
        ([1, "a"], tuple[int, ...]),
        (1, None),
    ],
)
def test_values_that_no_settings_file_holds_are_refused(value: object, expected: object) -> None:
    with pytest.raises(BadInput, match=r"^a\.b must be "):
        check_value(value, expected, "a.b")


def test_unions_and_lists() -> None:
    columns = tuple[str | int, ...]
    assert check_value(["a", 2], columns, "c") == ("a", 2)
    assert check_value([], columns, "c") == ()
    with pytest.raises(BadInput) as error:
        check_value([0.5], columns, "c")
    assert str(error.value) == "c must be a list (text or a whole number), not the list [0.5]"
    with pytest.raises(BadInput, match="not a table"):
        check_value({}, int, "c")
    with pytest.raises(BadInput, match=r"must be 'mean' or 'max', not the text 'Max'; did you mean 'max'\?"):
        check_value("Max", Literal["mean", "max"], "c")
    assert describe(Literal["a", "b", 3]) == "'a', 'b' or 3"


def test_did_you_mean() -> None:
    assert did_you_mean("LAMBDA", ["lambda1", "weight"]) == "; did you mean 'lambda1'?"
    assert did_you_mean("zzz", ["lambda1", "weight"]) == ""
