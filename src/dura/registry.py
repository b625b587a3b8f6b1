"""Registry: tables from names to classes or modules. Other packages add rows by entry points; two rows with one name are an error.

`Registry` holds classes. A row is a class, or "module:Class" if the module should be imported only when the class is used. So help
texts can list the names of a table without importing torch. `Modules` holds modules of one shape.

The constructor of a class is the schema. A parameter is a setting if its type can be written in TOML: bool, int, float, str,
Literal, and unions and lists of these. The program passes the other parameters.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, Union, cast

from dura.text import shown
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
R = TypeVar("R")
Scalar = bool | int | float | str
Value = Scalar | tuple[Scalar, ...]

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    types.NoneType: "nothing",
}
_MISFIT = object()


class Option(NamedTuple):
    """One setting of a class: its annotated type, and its default (`inspect.Parameter.empty` if it has none)."""

    type: Any
    default: Any

    @property
    def required(self) -> bool:
        """True if the setting has no default."""
        return self.default is inspect.Parameter.empty


class Joined(Generic[R]):
    """A table from names to rows of one `kind`. Other packages add rows by entry points of the group `entry_point_group`."""

    def __init__(self, kind: str, entry_point_group: str, members: Mapping[str, R | str]) -> None:
        self.kind = kind
        self.entry_point_group = entry_point_group
        self._members = dict(members)
        self._points: dict[str, EntryPoint] | None = None

    def names(self) -> list[str]:
        """All names: ours in the order of the table, then those of other packages. Nothing is imported."""
        return list(dict.fromkeys([*self._members, *self._joined()]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self._members or name in self._joined()

    def items(self) -> list[tuple[str, R]]:
        """All rows with their names. This imports every row."""
        return [(name, self.get(name)) for name in self.names()]

    def get(self, name: str) -> R:
        """The row called `name`. The error for an unknown name lists the known names."""
        row = self._members.get(name)
        if row is None:
            point = self._joined().get(name)
            if point is None:
                known = self.names()
                hint = did_you_mean(name, known)
                raise BadInput(f"the {self.kind} {shown(name)} is not known; known are {', '.join(known)}{hint}")
            row = self._members[name] = self._load(point)
        elif isinstance(row, str):
            row = self._members[name] = cast(R, _imported(row))
        return row

    def _joined(self) -> dict[str, EntryPoint]:
        """The entry points of other packages. They are read once, when first needed, because this takes time."""
        if self._points is None:
            from importlib.metadata import entry_points

            points: dict[str, EntryPoint] = {}
            for point in entry_points(group=self.entry_point_group):
                rival = points.get(point.name)
                if point.name in self._members or (rival is not None and rival.value != point.value):
                    first = _origin(rival) if rival is not None else "dura itself"
                    raise DuraError(
                        f"the {self.kind} {point.name!r} is defined twice, by {first} and by"
                        f" {_origin(point)}; uninstall one of the two or rename its entry point"
                    )
                points[point.name] = point
            self._points = points
        return self._points

    def _load(self, point: EntryPoint) -> R:
        offer = f"the {self.kind} {point.name!r} of {_origin(point)}"
        try:
            loaded = point.load()
        except Exception as error:
            raise DuraError(f"{offer} cannot be imported: {type(error).__name__}: {error}") from error
        if misfit := self._misfit(loaded, point.value):
            raise DuraError(f"{offer} {misfit}")
        return cast(R, loaded)

    def _misfit(self, loaded: object, value: str) -> str:  # noqa: ARG002
        """Why what an entry point names cannot be a row, as the end of a sentence; empty if it can."""
        return ""


class Registry(Joined[type[T]], Generic[T]):
    """A table from names to classes. Classes of other packages must extend `base`, a class or "module:Class".

    >>> class Dura:
    ...     def __init__(self, weight: float = 0.05) -> None:
    ...         self.weight = weight
    >>> table = Registry("regularizer", "dura.regularizers", {"dura": Dura}, Dura)
    >>> table.build("dura", {"weight": 1}).weight
    1.0
    >>> Registry("number", "dura.numbers", {"fraction": "fractions:Fraction"}, "numbers:Number").get("fraction")
    <class 'fractions.Fraction'>
    """

    def __init__(
        self, kind: str, entry_point_group: str, members: Mapping[str, type[T] | str], base: type | str = object
    ) -> None:
        super().__init__(kind, entry_point_group, members)
        self._base = base

    def options(self, name: str) -> dict[str, Option]:
        """The settings of the class called `name`, in the constructor's order."""
        cls = self.get(name)
        init = cast(Callable[..., None], inspect.getattr_static(cls, "__init__"))
        hints = typing.get_type_hints(init)
        return {
            key: Option(hints[key], parameter.default)
            for key, parameter in inspect.signature(init).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            and key in hints
            and _is_plain(hints[key])
        }

    def build(self, name: str, options: Mapping[str, Value | None], *args: object) -> T:
        """Make an object of the class, with arguments of the program (`args`) and options of the user. The options are checked."""
        make = cast(Callable[..., T], self.get(name))
        passed = list(inspect.signature(make).parameters)[: len(args)]
        known = {key: option for key, option in self.options(name).items() if key not in passed}
        for key in options:
            if key not in known:
                has = f"it has {', '.join(known)}" if known else "it has none"
                hint = did_you_mean(key, known) or self._who_has(key)
                raise BadInput(f"{self.kind}.{shown(key)[1:-1]} is not a setting of {name!r}; {has}{hint}")
        for key, option in known.items():
            if option.required and key not in options:
                raise BadInput(f"the {self.kind} {name!r} needs the setting {self.kind}.{key}, {describe(option.type)}")
        checked = {key: check_value(value, known[key].type, f"{self.kind}.{key}") for key, value in options.items()}
        return make(*args, **checked)

    def _who_has(self, key: str) -> str:
        """The end of an error message that says which other classes have this setting. Empty if none has it."""
        with contextlib.suppress(DuraError):  # another package may be broken
            others = [other for other in self.names() if key in self.options(other)]
            return (
                f"; to choose one that has it, set {self.kind}.name = {' or '.join(map(repr, others))}"
                if others
                else ""
            )
        return ""

    def _misfit(self, loaded: object, value: str) -> str:
        if not isinstance(loaded, type):
            return f"is not a class; its entry point {value!r} must name one"
        base: type = _imported(self._base) if isinstance(self._base, str) else self._base
        return "" if issubclass(loaded, base) else f"is the class {value!r}, which does not extend {_path(base)}"


class Modules(Joined[R], Generic[R]):
    """A table from names to modules of one shape. A module of another package must have all `parts`: functions by these names."""

    def __init__(self, kind: str, entry_point_group: str, members: Mapping[str, R], parts: Iterable[str]) -> None:
        super().__init__(kind, entry_point_group, members)
        self._parts = tuple(parts)

    def _misfit(self, loaded: object, value: str) -> str:
        if not isinstance(loaded, types.ModuleType):
            return f"is not a module; its entry point {value!r} must name one, without a colon"
        missing = [part for part in self._parts if not callable(getattr(loaded, part, None))]
        return f"is the module {value!r}, which has no function {missing[0]!r}" if missing else ""


def late(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that imports names from their homes when they are first used."""

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message, "; did you mean 'x'?". Empty if no known name is similar.

    >>> did_you_mean("Complx", ["complex", "cp"])
    "; did you mean 'complex'?"
    """
    spelled = {option.casefold(): option for option in known}
    near = difflib.get_close_matches(name.casefold(), spelled, n=1, cutoff=0.6)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""


def check_value(value: object, expected: Any, path: str) -> Any:
    """The value with the type of the annotation `expected`, or an error. An int is accepted for a float.

    >>> check_value(1, float | None, "training.checkpoint_every")
    1.0
    """
    fitted = _fit_any(value, expected)
    if fitted is not _MISFIT:
        return fitted
    if expected == Scalar | tuple[Scalar, ...]:
        wanted = "a number" if isinstance(value, int | float) else "a number, text, true, false or a list of these"
        raise BadInput(f"{path} must be {wanted}, not {_given(value)}")
    choices = [choice for kind in _alternatives(expected) for choice in _choices(kind)]
    hint = did_you_mean(value, map(str, choices)) if isinstance(value, str) else ""
    raise BadInput(f"{path} must be {describe(expected)}, not {_given(value)}{hint}")


def describe(expected: Any) -> str:
    """An annotation in words, for an error message.

    >>> describe(float | None), describe(Literal["auto", "yes", "no"])
    ('a number or nothing', "'auto', 'yes' or 'no'")
    """
    words: list[str] = []
    for kind in _alternatives(expected):
        if choices := _choices(kind):
            words += [repr(choice) for choice in choices]
        elif typing.get_origin(kind) in (tuple, list):
            words.append(f"a list ({describe(typing.get_args(kind)[0])})")
        else:
            words.append(_WORDS.get(kind, str(kind)))
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _imported(row: str) -> Any:
    """What "module:name" names."""
    module, _, attribute = row.partition(":")
    return getattr(import_module(module), attribute)


def _path(kind: type) -> str:
    """A class by the name that users import: `dura.models.Model`, although it is defined in `dura.models.model`."""
    room = kind.__module__.rpartition(".")[0]
    return f"{room if hasattr(sys.modules.get(room), kind.__name__) else kind.__module__}.{kind.__name__}"


def _origin(point: EntryPoint) -> str:
    return f"the package {point.dist.name!r}" if point.dist is not None else f"{point.value!r}"


def _alternatives(expected: Any) -> tuple[Any, ...]:
    return typing.get_args(expected) if typing.get_origin(expected) in (Union, types.UnionType) else (expected,)


def _choices(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _is_plain(expected: Any) -> bool:
    """True if a value of this type can be written in TOML."""
    return all(
        kind in _WORDS
        or bool(_choices(kind))
        or (typing.get_origin(kind) in (tuple, list) and _is_plain(typing.get_args(kind)[0]))
        for kind in _alternatives(expected)
    )


def _fit_any(value: object, expected: Any) -> object:
    """The value as the first alternative of `expected` that fits it, or _MISFIT."""
    fits = (_fit(value, kind) for kind in _alternatives(expected))
    return next((fitted for fitted in fits if fitted is not _MISFIT), _MISFIT)


def _fit(value: object, kind: Any) -> object:
    """The value as `kind`, or _MISFIT. True and False are not numbers here, although Python counts them as ints."""
    if choices := _choices(kind):
        return value if any(type(value) is type(choice) and value == choice for choice in choices) else _MISFIT
    if typing.get_origin(kind) in (tuple, list) and isinstance(value, list | tuple):
        items = [_fit_any(item, typing.get_args(kind)[0]) for item in value]
        return _MISFIT if any(item is _MISFIT for item in items) else cast(Any, typing.get_origin(kind))(items)
    if isinstance(value, bool) or value is None:
        return value if type(value) is kind else _MISFIT
    if kind is float and isinstance(value, int | float):
        # nan and inf are refused: as settings they are always mistakes, and JSON cannot hold them.
        return float(value) if abs(value) <= sys.float_info.max else _MISFIT
    if kind is int and isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else _MISFIT
    if kind is str and isinstance(value, str):
        # File names that are not UTF-8 reach Python as lone surrogates, which no settings file can hold.
        return _MISFIT if any("\ud800" <= letter <= "\udfff" for letter in value) else value
    return _MISFIT


def _given(value: object) -> str:
    """A value for an error message, as it would be written in a settings file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {shown(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}, which is not finite"
    if isinstance(value, int) and _fit(value, int) is _MISFIT:
        return f"{shown(value)}, which does not fit in 64 bits"
    if isinstance(value, int | float):
        return f"the {'whole ' if isinstance(value, int) else ''}number {shown(value)}"
    if isinstance(value, list | tuple):
        endless = any(isinstance(item, float) and not math.isfinite(item) for item in value)
        return f"the list {shown(list(value))}{', which has numbers that are not finite' if endless else ''}"
    return {dict: "a table", types.NoneType: "nothing"}.get(type(value), shown(value))
