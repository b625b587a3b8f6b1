"""The parts of the settings whose keys are known here: frozen values that check themselves."""

from __future__ import annotations

import typing
from dataclasses import dataclass, field, fields
from typing import Literal, TypeVar

from dura.registry import check_value
from dura.types import BadInput

Header = Literal["auto", "yes", "no"]
Splitting = Literal["random", "grouped", "relation", "time"]
Unit = Literal["auto", "hour", "day", "week", "month", "year"]
Batching = Literal["questions", "facts"]
Precision = Literal["auto", "float32", "tf32", "bf16"]
Share = float | Literal["auto"]

N = TypeVar("N", int, float)
LARGEST = 1e30
"""Weights stay below this: larger ones do not fit in 32-bit numbers."""


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
    split: Splitting = "random"
    """Which facts are held out: random ones, groups of facts that give each other away, a share per relation, or the latest."""
    time_format: str = ""
    """How times are written, e.g. DD.MM.YYYY; "" = recognised."""
    time_unit: Unit = "auto"
    """Times are cut to this unit. "auto" keeps dates as they are and cuts date-times to days."""
    time_zone: str = "UTC"
    """The zone in which days begin, and that of date-times without one."""
    query: str = ""
    """The SQL or SPARQL query whose rows are the facts, if the source is a database."""
    format: str = ""
    """The format of the file as an ending, e.g. csv; "" = by the file's own ending."""
    most_gb: float = _least(4.0, 0)
    """Files that hold more than this many gigabytes when they are unpacked are refused."""
    entities: str = ""
    """A file with labels, types and descriptions of entities; "" = the file `entities` of the folder, if there is one."""
    relations: str = ""
    """The same for relations."""
    reviews: str = ""
    """What people decided about facts: a run folder or a file, see `dura review`. "" = nothing."""

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

    weight: float = _least(0.0, 0, LARGEST)
    """The weight of Λ_p; 0 turns it off."""
    p: Literal["auto", 2, 3, 4, 5] = "auto"
    """The norm. "auto" is 3, or 2 if times are matrices."""
    every: int = _least(1, 1)
    """A step smooths each nth pair of neighbouring times, with n times the weight. Large tables of times train faster."""

    def __post_init__(self) -> None:
        _check_fields(self, "smoothness")


@dataclass(frozen=True)
class TermSettings:
    """How much each hole of a fact counts in training: (h, r, ?), (h, ?, t) and, for temporal models, (h, r, t, ?)."""

    tails: float = _least(1.0, 0, LARGEST)
    relations: float = _least(0.0, 0, LARGEST)
    times: float = _least(0.0, 0, LARGEST)
    rejected: float = _least(1.0, 0, LARGEST)
    """How much each rejected fact counts, compared with a training fact of the same batch. Only for reviewed graphs."""
    share: float = 1.0
    """The share of a step's facts whose relation or time is asked for, drawn anew in each step."""

    def __post_init__(self) -> None:
        _check_fields(self, "terms")
        if not 0 < self.share <= 1:
            raise BadInput(f"terms.share is {self.share}, but it is more than 0 and at most 1")
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
    """Of the matrix products. "auto" is bf16 if a measurement at the start finds it much faster, else float32."""
    threads: int = _least(0, 0)
    """0 = one if a step is small, else as torch chooses."""

    def __post_init__(self) -> None:
        _check_fields(self, "training")

    def remarks(self) -> list[str]:
        """Sentences about settings that are allowed, but perhaps not what a user wants.

        >>> TrainingSettings(epochs=1, anneal=5).remarks()
        ['training.anneal is 5, but there is only 1 epoch, so the learning rate falls from the first step on']
        >>> TrainingSettings(epochs=0).remarks()
        ['training.epochs is 0, so nothing is trained: the model keeps the random numbers it starts with']
        """
        if not self.epochs:
            return ["training.epochs is 0, so nothing is trained: the model keeps the random numbers it starts with"]
        if self.anneal > self.epochs:
            epochs = "is only 1 epoch" if self.epochs == 1 else f"are only {self.epochs} epochs"
            few = f"training.anneal is {self.anneal}, but there {epochs}"
            return [f"{few}, so the learning rate falls from the first step on"]
        return []

    @property
    def questions_a_step(self) -> int:
        """`batch` as a number; "auto" must have been replaced before."""
        if self.batch == "auto":
            raise BadInput("training.batch is 'auto', which a measurement at the start of training turns into a number")
        return self.batch


@dataclass(frozen=True)
class WorldSettings:
    """How the processes that torchrun starts share the work. One process needs none of it."""

    shards: int = _least(0, 0)
    """Over how many processes the rows of the entities are spread; 0 = as many as there are, divided by `replicas`."""
    replicas: int = _least(1, 1)
    """How many copies of the tables there are. Each copy works on a part of every batch."""
    timeout: float = _least(300.0, 1)
    """How many seconds a process waits for another one before it gives up."""

    def __post_init__(self) -> None:
        _check_fields(self, "world")


Section = GraphSettings | TermSettings | SmoothnessSettings | TrainingSettings | WorldSettings
"""A part of the settings whose keys are known here."""


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
