"""Experiment: everything that decides the numbers of a run, as frozen values <-> TOML.

An unknown key or a wrong type is an error with its path and the known names. The options of model, regularizer, loss, candidates
and optimizer are only read here: their constructors check them. Version 1 of the settings had one part `objective` in place of
`loss` and `candidates`; it is still read.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.resources.abc import Traversable
from typing import Any, Literal, TypeVar

import tomli_w

from dura.registry import Scalar, Value, check_value, did_you_mean
from dura.text import parse_toml, shown
from dura.types import BadInput

VERSION = 2
"""The newest version of settings files that this program reads, and the one it writes."""

Header = Literal["auto", "yes", "no"]
Batching = Literal["questions", "facts"]
Precision = Literal["float32", "tf32", "bf16"]
Share = float | Literal["auto"]

N = TypeVar("N", int, float)

_COMPONENTS = ("model", "regularizer", "loss", "candidates", "optimizer")
_TABLES = ("graph", "model", "regularizer", "loss", "candidates", "terms", "optimizer", "smoothness", "training")
_OBJECTIVES = {"cross-entropy": ("softmax", "all"), "sampled-cross-entropy": ("softmax", "sample")}
"""The objectives of version 1, as loss and candidates."""


def _least(default: N, least: float, below: float | None = None) -> N:
    """A default with its range: `least` is allowed, `below` is not."""
    return field(default=default, metadata={"least": least, "below": below})


@dataclass(frozen=True)
class GraphSettings:
    """Where the facts come from and how they are read and split."""

    source: str = ""
    """A name of the catalog, a folder or a file."""
    columns: tuple[str | int, ...] = ()
    """The columns of head, relation, tail, and of time or begin and end, as positions or header names; () = the first ones."""
    header: Header = "auto"
    separator: str = ""
    """One character; "" = by the file's ending."""
    skip_bad: bool = False
    valid_share: Share = field(default="auto", metadata={"least": 0, "below": 1})
    """The share of facts that is held out if the graph has no such split. "auto" is a tenth, at most 10,000 facts."""
    test_share: Share = field(default="auto", metadata={"least": 0, "below": 1})
    split_seed: int = _least(0, 0)

    def __post_init__(self) -> None:
        _check_fields(self, "graph")
        if len(self.columns) not in (0, 3, 4, 5):
            columns = "three columns (head, relation, tail), with a time four, with begin and end five, or none"
            raise BadInput(f"graph.columns must name {columns}, not {len(self.columns)}")
        if len(set(self.columns)) < len(self.columns):
            raise BadInput(f"graph.columns names a column twice: {', '.join(map(str, self.columns))}")
        if len(self.separator) > 1:
            raise BadInput(f"graph.separator must be one character or empty, not {self.separator!r}")
        shares = [0.1 if share == "auto" else share for share in (self.valid_share, self.test_share)]
        if sum(shares) >= 1:
            raise BadInput(
                "graph.valid_share and graph.test_share must leave facts to train on: "
                f"{shares[0]:g} + {shares[1]:g} is not below 1"
            )


@dataclass(frozen=True)
class SmoothnessSettings:
    """How similar neighbouring times should be; temporal models only."""

    weight: float = _least(0.0, 0)
    """The weight of Λ_p; 0 turns it off."""
    p: Literal["auto", 2, 3, 4, 5] = "auto"
    """The norm. "auto" is 3, or 2 if times are matrices."""

    def __post_init__(self) -> None:
        _check_fields(self, "smoothness")


@dataclass(frozen=True)
class TermSettings:
    """How much each hole of a fact counts in training: (h, r, ?), (h, ?, t) and, for temporal models, (h, r, t, ?)."""

    tails: float = _least(1.0, 0)
    relations: float = _least(0.0, 0)
    times: float = _least(0.0, 0)

    def __post_init__(self) -> None:
        _check_fields(self, "terms")
        if not (self.tails or self.relations or self.times):
            raise BadInput("all weights in terms are zero, so there is nothing to train; set terms.tails = 1")


@dataclass(frozen=True)
class TrainingSettings:
    """How long, in which batches and on what a model is trained."""

    epochs: int = _least(100, 0)
    anneal: int = _least(0, 0)
    """The number of last epochs over which the learning rate falls linearly to zero; 0 = it stays."""
    batch: int | Literal["auto"] = field(default=500, metadata={"least": 1})
    """Distinct questions per step, or facts if `batching` says so. "auto" measures at the start and writes the number down."""
    batching: Batching = "questions"
    validate_every: int = _least(1, 1)
    """Epochs between validations."""
    patience: int = _least(5, 0)
    """Validations without improvement before stopping, 0 = never stop."""
    checkpoint_every: float = _least(60.0, 0)
    """Seconds between checkpoints."""
    seed: int = _least(0, 0)
    device: str = "cpu"
    precision: Precision = "float32"
    threads: int = _least(0, 0)
    """0 = one if a step is small, else as torch chooses."""

    def __post_init__(self) -> None:
        _check_fields(self, "training")

    @property
    def questions_a_step(self) -> int:
        """`batch` as a number; "auto" must have been replaced before."""
        if self.batch == "auto":
            raise BadInput("training.batch is 'auto', which a measurement at the start of training turns into a number")
        return self.batch


Section = GraphSettings | TermSettings | SmoothnessSettings | TrainingSettings
"""A part of the settings whose keys are known here."""


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
        smooth = SmoothnessSettings(weight=0.01)
        return cls(model=Component("tcomplex", {"rank": 200}), regularizer=Component("dura1"), smoothness=smooth)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "settings") -> Experiment:
        """The experiment of nested tables. What is left out has its default. Errors begin with `where`."""
        try:
            data = _current(data)
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
            text = source if isinstance(source, str) else source.read_bytes().decode("utf-8")
            data = parse_toml(text)
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
            wanted = typing.get_type_hints(type(section))[key]
            changed: dict[str, Any] = {key: _parse_as(value, wanted) if isinstance(value, str) else value}
            return self._with(table, replace(section, **changed))
        raise BadInput(self._unknown(path))

    def with_values(self, values: Mapping[str, Value]) -> Experiment:
        """A copy with several settings changed, names first: another component drops the options of the one before it.

        >>> Experiment().with_values({"model.rank": 50, "model.name": "cp"}).model
        Component(name='cp', options={'rank': 50})
        """
        experiment = self
        for path in sorted(values, key=lambda path: not path.endswith(".name")):
            experiment = experiment.with_value(path, values[path])
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
        if key != "name":
            return self.with_value(f"{'loss' if key == 'w0' else 'candidates'}.{key}", value)
        loss, candidates = _objective(check_value(value, str, "objective.name"))
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
            return f"{shown(path)} is not a setting; {table} has {', '.join(own)}{hint}"
        return f"{shown(path)} is not a setting; they begin with {', '.join(_TABLES)}{hint}"


def _current(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tables of a settings file as version 2 has them."""
    version = data.get("version", VERSION)
    _check_version(version)
    if "objective" not in data or (version >= 2 and "version" in data):
        return data
    given = data["objective"]
    if not isinstance(given, Mapping):
        raise BadInput(f"objective must be a table, [objective], not {given!r}")
    loss, candidates = _objective(check_value(given.get("name", "cross-entropy"), str, "objective.name"))
    options = {key: value for key, value in given.items() if key != "name"}
    weight = {"w0": options.pop("w0")} if "w0" in options else {}
    rest = {key: value for key, value in data.items() if key not in ("objective", "version")}
    return {"loss": {"name": loss, **weight}, "candidates": {"name": candidates, **options}, **rest}


def _objective(name: str) -> tuple[str, str]:
    """Loss and candidates of an objective of version 1."""
    if name not in _OBJECTIVES:
        known, hint = ", ".join(_OBJECTIVES), did_you_mean(name, _OBJECTIVES)
        raise BadInput(
            f"the objective {name!r} is not known; known are {known}, or set loss.name and candidates.name{hint}"
        )
    return _OBJECTIVES[name]


def _check_version(version: object) -> None:
    number: int = check_value(version, int, "version")
    if number > VERSION:
        raise BadInput(f"has version {number}, but this dura reads versions up to {VERSION}; update dura")
    if number < 1:
        raise BadInput(f"version must be at least 1, not {number}")


def _check_fields(settings: Section, table: str) -> None:
    """Check types by the annotations and ranges by the fields' metadata. Ints become floats where floats are wanted."""
    hints = typing.get_type_hints(type(settings))
    for f in fields(settings):
        path = f"{table}.{f.name}"
        value = check_value(getattr(settings, f.name), hints[f.name], path)
        least, below = f.metadata.get("least"), f.metadata.get("below")
        if (
            least is not None
            and not isinstance(value, str)
            and (value < least or (below is not None and value >= below))
        ):
            span = f"at least {least:g}" + (f" and below {below:g}" if below is not None else "")
            raise BadInput(f"{path} must be {span}, not {value}")
        object.__setattr__(settings, f.name, value)


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


def _parse_as(text: str, expected: Any) -> Any:
    """The parsed text, or the text itself if only that fits: a folder may be called 2024."""
    for value in (_parse(text), text):
        with contextlib.suppress(BadInput):
            check_value(value, expected, "")
            return value
    return _parse(text)
