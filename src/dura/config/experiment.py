"""Experiment: all settings of one run, as frozen values <-> TOML."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources.abc import Traversable
from typing import Any

import tomli_w

from dura.config.sections import (
    GraphSettings,
    Section,
    SmoothnessSettings,
    TermSettings,
    TrainingSettings,
    WorldSettings,
)
from dura.config.versions import VERSION, current, objective
from dura.registry import Scalar, Value, check_value, did_you_mean
from dura.text import parse_toml, read_toml, shown
from dura.types import BadInput

_COMPONENTS = ("model", "regularizer", "loss", "candidates", "optimizer")
_TABLES = (
    "graph",
    "model",
    "regularizer",
    "loss",
    "candidates",
    "terms",
    "optimizer",
    "smoothness",
    "training",
    "world",
)


@dataclass(frozen=True)
class Component:
    """A row of a registry by its name, with the options of its constructor.

    >>> Component("dura", {"weight": 0.05}).to_dict()
    {'name': 'dura', 'weight': 0.05}
    """

    name: str
    options: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plain = {key: tuple(v) if isinstance(v, list) else v for key, v in self.options.items()}
        object.__setattr__(self, "options", plain)

    def to_dict(self) -> dict[str, Any]:
        """The table of a settings file."""
        return {"name": self.name} | _listed(self.options)


@dataclass(frozen=True)
class Experiment:
    """All settings of one run. The defaults suit an unknown graph of 1,000 to 100,000 entities.

    >>> Experiment().with_value("regularizer.weight", "0.1").regularizer.options
    {'weight': 0.1}
    """

    graph: GraphSettings = field(default_factory=GraphSettings)
    model: Component = field(default_factory=lambda: Component("complex", {"rank": 200}))
    regularizer: Component = field(default_factory=lambda: Component("dura", {"weight": 0.02}))
    loss: Component = field(default_factory=lambda: Component("softmax"))
    candidates: Component = field(default_factory=lambda: Component("all"))
    terms: TermSettings = field(default_factory=TermSettings)
    optimizer: Component = field(default_factory=lambda: Component("adagrad", {"lr": 0.1}))
    smoothness: SmoothnessSettings = field(default_factory=SmoothnessSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    world: WorldSettings = field(default_factory=WorldSettings)
    expected: Mapping[str, Any] = field(default_factory=dict)
    """The results that a preset should reach and where they come from. Nothing is computed from it."""

    def __post_init__(self) -> None:
        for table in _COMPONENTS:
            component: Component = getattr(self, table)
            check_value(component.name, str, f"{table}.name")
            for key, value in component.options.items():
                check_value(value, Scalar | tuple[Scalar, ...], f"{table}.{key}")

    @classmethod
    def of_dated_facts(cls) -> Experiment:
        """The defaults for facts with times."""
        smooth = SmoothnessSettings(weight=0.2)
        return cls(model=Component("tcomplex", {"rank": 200}), regularizer=Component("dura1"), smoothness=smooth)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "settings") -> Experiment:
        """The experiment of nested tables. What is left out has its default. Errors begin with `where`."""
        if not isinstance(data, Mapping):
            raise BadInput(f"{where}: must be tables by name, such as {{'model': {{'rank': 50}}}}, not {shown(data)}")
        try:
            data = current(data)
            default = cls()
            known = ["version", *_TABLES, "expected"]
            read: dict[str, Any] = {}
            for table, given in data.items():
                if table not in known:
                    hint = did_you_mean(table, known)
                    raise BadInput(
                        f"{shown(table)} is not a part of the settings; the parts are {', '.join(known)}{hint}"
                    )
                if table != "version":
                    read[table] = _read_table(given, table, getattr(default, table))
            return replace(default, **read)
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None

    @classmethod
    def from_toml(cls, source: str | Traversable, where: str = "") -> Experiment:
        """The experiment of a TOML text (str) or file (Path). Errors begin with `where`."""
        where = where or ("settings" if isinstance(source, str) else str(source))
        try:
            data = parse_toml(source) if isinstance(source, str) else read_toml(source)
        except OSError as error:
            raise BadInput(f"{where}: cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise BadInput(f"{where}: is not UTF-8 text (byte {error.start + 1})") from error
        except ValueError as error:
            raise BadInput(f"{where}: is not valid TOML: {error}") from error
        return cls.from_dict(data, where)

    def to_dict(self) -> dict[str, Any]:
        """Nested tables of plain values, as in a settings file."""
        tables: dict[str, Any] = {"version": VERSION}
        for table in _TABLES:
            section = getattr(self, table)
            tables[table] = section.to_dict() if isinstance(section, Component) else _listed(vars(section))
        return tables | ({"expected": dict(self.expected)} if self.expected else {})

    def to_toml(self) -> str:
        """The text of a settings file. `from_toml` reads the same experiment from it."""
        return tomli_w.dumps(self.to_dict())

    def by_path(self) -> dict[str, Value]:
        """Every setting by its path, without `expected`.

        >>> Experiment().by_path()["model.rank"]
        200
        """
        tables = {table: values for table, values in self.to_dict().items() if table in _TABLES}
        return {
            f"{table}.{key}": tuple(value) if isinstance(value, list) else value
            for table, values in tables.items()
            for key, value in values.items()
        }

    def with_value(self, path: str, value: Value) -> Experiment:
        """A copy with one setting changed, as `--set path=value` does. Text is read as a TOML value.

        Paths of version 1 (`objective.…`) still work.

        >>> Experiment().with_value("training.epochs", "20").training.epochs
        20
        """
        table, _, key = path.partition(".")
        if table == "objective" and key:
            return self._with_objective(key, value)
        section = getattr(self, table) if table in _TABLES else None
        if isinstance(section, Component) and key and "." not in key:
            if key == "name":
                return self.with_component(table, check_value(value, str, path))
            options = {**section.options, key: _parse(value) if isinstance(value, str) else value}
            return self._with(table, Component(section.name, options))
        if isinstance(section, Section) and key in vars(section):
            changed: dict[str, Any] = {key: _typed(section, key, value)}
            return self._with(table, replace(section, **changed))
        raise BadInput(self._unknown(path))

    def with_values(self, values: Mapping[str, Value]) -> Experiment:
        """A copy with several settings changed, names first: another component drops the options of the one before it.

        >>> Experiment().with_values({"model.rank": 50, "model.name": "cp"}).model
        Component(name='cp', options={'rank': 50})
        """
        experiment, sections = self, dict[str, dict[str, Any]]()
        for path in sorted(values, key=lambda path: not path.endswith(".name")):
            table, _, key = path.partition(".")
            section = getattr(self, table) if table in _TABLES else None
            if isinstance(section, Section) and key in vars(
                section
            ):  # all keys of a section at once: it checks them together
                sections.setdefault(table, {})[key] = _typed(section, key, values[path])
            else:
                experiment = experiment.with_value(path, values[path])
        for table, changed in sections.items():
            experiment = experiment._with(table, replace(getattr(self, table), **changed))
        return experiment

    def with_component(self, table: str, name: str) -> Experiment:
        """A copy with another model, regularizer, loss, candidates or optimizer, without the old options."""
        if table not in _COMPONENTS:
            hint = did_you_mean(table, _COMPONENTS)
            raise BadInput(
                f"{table!r} is not a part with a name; the parts with a name are {', '.join(_COMPONENTS)}{hint}"
            )
        old: Component = getattr(self, table)
        return self if old.name == name else self._with(table, Component(name))

    def _with_objective(self, key: str, value: Value) -> Experiment:
        """A copy with a setting that version 1 kept in `objective`."""
        if key in ("samples", "draw") and self.candidates.name != "sample":
            raise BadInput(
                f"objective.{key} needs objective.name = 'sampled-cross-entropy'; since version 2 of the settings they are called "
                f"candidates.{key} and candidates.name = 'sample'"
            )
        if key != "name":
            return self.with_value(f"{'loss' if key == 'w0' else 'candidates'}.{key}", value)
        loss, candidates = objective(check_value(value, str, "objective.name"))
        return self.with_component("loss", loss).with_component("candidates", candidates)

    def _with(self, table: str, section: Any) -> Experiment:
        changed: dict[str, Any] = {table: section}
        return replace(self, **changed)

    def _unknown(self, path: str) -> str:
        """The sentence for a path that is not a setting. It suggests optimizer.lr for `lr`."""
        paths = list(self.by_path())
        same = [known for known in paths if known.endswith(f".{path.rpartition('.')[2]}")]
        hint = f"; did you mean {same[0]!r}?" if same else did_you_mean(path, paths)
        table = path.partition(".")[0]
        if own := [known.partition(".")[2] for known in paths if known.startswith(f"{table}.")]:
            if path == table:  # model=complex
                first = f"{table}.{own[0]}={self.by_path()[f'{table}.{own[0]}']}"
                return f"{path!r} has several settings ({', '.join(own)}): set one of them, such as {first}"
            return f"{shown(path)} is not a setting; {table} has {', '.join(own)}{hint}"
        return f"{shown(path)} is not a setting; they begin with {', '.join(_TABLES)}{hint}"


def _read_table(given: object, table: str, default: object) -> object:
    """One table of a settings file as a value of the default's class."""
    if not isinstance(given, Mapping):
        raise BadInput(f"{table} must be a table, [{table}], not {shown(given)}")
    if isinstance(default, Component):
        # A table replaces the default's options even if it leaves the name out.
        name = given.get("name", default.name)
        return Component(name, {key: value for key, value in given.items() if key != "name"})
    if isinstance(default, Section):
        known = vars(default)
        for key in given:
            if key not in known:
                hint = did_you_mean(key, known)
                raise BadInput(f"{table}.{shown(key)[1:-1]} is not a setting; {table} has {', '.join(known)}{hint}")
        return replace(default, **given)
    return dict(given)


def _listed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tuples as lists, the form that TOML and JSON readers give."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _parse(text: str) -> Any:
    """A TOML value if the text is one (dates are not: no setting wants them), else the text itself."""
    with contextlib.suppress(ValueError):
        read = parse_toml(f"value = {text}")
        if list(read) == ["value"] and not isinstance(read["value"], dt.date | dt.time):
            return read["value"]
    # TOML wants digits on both sides of the point, people type .05
    return float(text) if re.fullmatch(r"[+-]?(\.\d+|\d+\.)([eE][+-]?\d+)?", text) else text


def _typed(section: Section, key: str, value: Value) -> Any:
    """A value for a key of a section; text is read as the key's type."""
    return _parse_as(value, typing.get_type_hints(type(section))[key]) if isinstance(value, str) else value


def _parse_as(text: str, expected: Any) -> Any:
    """The parsed text, or the text itself if only that fits: a folder may be called 2024."""
    for value in (_parse(text), text):
        with contextlib.suppress(BadInput):
            check_value(value, expected, "")
            return value
    return _parse(text)
