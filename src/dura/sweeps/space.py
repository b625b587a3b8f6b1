"""Space: what a sweep searches, as frozen values <-> TOML.

A sweep's file is a settings file, or names a preset and changes some of its settings. It has one more table:

```toml
preset = "umls/complex-dura"

[sweep]
method = "grid"

[sweep.space]
"regularizer.weight" = [0.003, 0.01, 0.03]
"model.rank" = { low = 20, high = 100, step = 20 }
```
"""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tomli_w

from dura.config import Experiment
from dura.data.loading import anchored
from dura.registry import Scalar, check_value, did_you_mean
from dura.runs.api import choose
from dura.runs.presets import presets
from dura.text import read_toml
from dura.types import BadInput, Sizes

Method = Literal["tpe", "grid", "each"]
"""Tree-structured Parzen estimator; all combinations; one setting at a time while the others stay as in the file."""
Values = dict[str, Scalar]
"""The values that the sweep chose for one trial, by the paths of the settings."""
TPE_TRIALS = 50


@dataclass(frozen=True)
class Choice:
    """A list of values of a setting.

    >>> Choice((50, 100)).values
    (50, 100)
    """

    values: tuple[Scalar, ...]

    @property
    def probes(self) -> tuple[Scalar, ...]:
        """Values to check."""
        return self.values

    def toml(self) -> str:
        """As it is written in a file."""
        return f"[{', '.join(map(_toml, self.values))}]"


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, both included; only every `step` if there is one. All three whole: whole numbers only.

    >>> Range(20, 100, step=40).values, Range(0.001, 0.1, log=True).values
    ((20, 60, 100), ())
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    @property
    def whole(self) -> bool:
        """True if only whole numbers are meant."""
        return all(isinstance(number, int) for number in (self.low, self.high, self.step))

    @property
    def values(self) -> tuple[Scalar, ...]:
        """Every value of a linear range with a step; empty for other ranges."""
        if self.step is None or self.log:
            return ()
        low, step = Decimal(str(self.low)), Decimal(str(self.step))
        steps = int((Decimal(str(self.high)) - low) / step)
        return tuple((int if self.whole else float)(low + i * step) for i in range(steps + 1))

    @property
    def probes(self) -> tuple[Scalar, ...]:
        """Values to check: all of them, or the two ends."""
        return self.values or tuple(map(int if self.whole else float, (self.low, self.high)))

    def toml(self) -> str:
        """As it is written in a file."""
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        return f"{{ {', '.join(f'{key} = {_toml(value)}' for key, value in given.items())} }}"


Axis = Choice | Range


@dataclass(frozen=True)
class Sweep:
    """Which settings of an experiment are varied over which values, how many trials there are and how they are chosen.

    >>> plan = Sweep(Experiment(), {"regularizer.weight": [0.01, 0.1], "model.rank": [50, 100, 200]}, method="grid")
    >>> plan.combinations, plan.budget, plan.experiment_of({"model.rank": 50}).model.options
    (6, 6, {'rank': 50})
    """

    experiment: Experiment
    space: Mapping[str, Any]
    """By paths: a list of values, or a table with low, high and optionally log or step; each becomes an `Axis`."""
    method: Method = "tpe"
    trials: int = 0
    """0: every combination; with tpe at most 50."""
    seed: int = 0
    prune: bool = True
    """End a trial early if its valid MRR is below the median of the others at the same epoch."""
    keep: int = 1
    """Keep the trained tables of this many trials, the best ones; 0: of all."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for key in ("method", "trials", "seed", "prune", "keep"):
            check_value(getattr(self, key), hints[key], f"sweep.{key}")
        for key in ("trials", "seed", "keep"):
            if getattr(self, key) < 0:
                raise BadInput(f"sweep.{key} must be at least 0, not {getattr(self, key)}")
        if not isinstance(self.space, Mapping) or not self.space:
            raise BadInput(
                'sweep.space must be a table of the settings to vary, such as "regularizer.weight" = [0.01, 0.1]'
            )
        object.__setattr__(self, "space", {path: _axis(path, given) for path, given in self.space.items()})
        for path in self.space:
            self._check_axis(path)

    # -- files ------------------------------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "sweep") -> Sweep:
        """The sweep of nested tables, as in a file; every error begins with `where`."""
        tables = dict(data)
        name, given = tables.pop("preset", None), tables.pop("sweep", None)
        experiment = Experiment.from_dict(tables, where)
        try:
            if name is not None:
                check_value(name, str, "preset")
                named = {k: t for k, t in tables.items() if k not in ("version", "expected")}
                experiment = choose(
                    name, settings={f"{t}.{k}": v for t, keys in named.items() for k, v in keys.items()}
                )
            if not isinstance(given, Mapping):
                raise BadInput("a sweep needs the tables [sweep] and [sweep.space]; see 'dura sweep --help'")
            known = [f.name for f in fields(cls) if f.name != "experiment"]
            for key in given:
                if key not in known:
                    hint = did_you_mean(key, known)
                    raise BadInput(f"sweep.{key} is not a setting; sweep has {', '.join(known)}{hint}")
            return cls(experiment, **{"space": {}, **given})
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None

    @classmethod
    def from_toml(cls, source: Traversable, where: str = "") -> Sweep:
        """The sweep of a file."""
        where = where or str(source)
        try:
            return cls.from_dict(read_toml(source), where)
        except OSError as error:
            raise BadInput(f"{where}: cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise BadInput(f"{where}: is not valid TOML: {error}") from error

    def to_toml(self) -> str:
        """The text of a file from which `from_toml` reads the same sweep; the order of the settings stays: draws depend on it."""
        sweep = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("experiment", "space")}
        lines = [f"{json.dumps(path, ensure_ascii=False)} = {axis.toml()}\n" for path, axis in self.space.items()]
        return tomli_w.dumps(self.experiment.to_dict() | {"sweep": sweep}) + "\n[sweep.space]\n" + "".join(lines)

    # -- what is tried ----------------------------------------------------------------------------------------------

    @property
    def combinations(self) -> int | None:
        """How many different trials there are; None if a range has no steps."""
        sizes = [len(axis.values) for axis in self.space.values()]
        if not all(sizes):
            return None
        return len(self.points()) if self.method == "each" else math.prod(sizes)

    @property
    def budget(self) -> int:
        """How many trials there will be."""
        if self.method == "tpe":
            return self.trials or min(TPE_TRIALS, self.combinations or TPE_TRIALS)
        everything = self.combinations or 0
        return min(self.trials or everything, everything)

    def points(self) -> list[Values]:
        """The trials of a grid or of "each", in order; a grid is shuffled by the seed, so that its first part is a fair sample."""
        if self.method == "each":
            return list(self._one_by_one())
        combined = list(product(*(axis.values for axis in self.space.values())))
        order = np.random.default_rng(self.seed).permutation(len(combined))
        return [dict(zip(self.space, combined[i], strict=True)) for i in order]

    def experiment_of(self, values: Mapping[str, Scalar]) -> Experiment:
        """The settings of the trial with these values; another model keeps the rank."""
        rank = self.experiment.model.options.get("rank")
        chosen = {**({} if rank is None else {"model.rank": rank}), **values}
        return replace(self.experiment, expected={}).with_values(chosen)

    def fixed(self, settings: Mapping[str, str]) -> Sweep:
        """The sweep with these settings fixed; they are no longer varied."""
        space = {path: axis for path, axis in self.space.items() if path not in settings}
        if not space:
            raise BadInput("--set fixes every setting that the sweep varies, so there is nothing left to search")
        return replace(self, experiment=self.experiment.with_values(settings), space=space)

    def anchored(self) -> Sweep:
        """The sweep with absolute paths to the graph's files, so that it can be continued from every folder."""
        return replace(self, experiment=replace(self.experiment, graph=anchored(self.experiment.graph)))

    def changed(self, *, trials: int | None = None, keep: int | None = None) -> Sweep:
        """The sweep with another number of trials, or another `keep`; None leaves it as it is."""
        return replace(self, trials=self.trials if trials is None else trials, keep=self.keep if keep is None else keep)

    def check(self, sizes: Sizes) -> None:
        """Build every value once at a tiny size, so that a wrong name or number is an error now and not after hours of work."""
        from dura.runs.build import build, complete

        tiny = Sizes(2, 1, min(2, sizes.times))
        for values in self._probes():
            try:
                build(complete(self.experiment_of(values)), tiny)
            except BadInput as error:
                shown = ", ".join(f"{path} = {value}" for path, value in values.items())
                raise BadInput(f"the sweep's trial with {shown} is not possible: {error}") from None

    def _probes(self) -> Iterator[Values]:
        """Trials in which every value of every setting occurs; of a range without steps, its two ends."""
        if self.method == "each":
            yield from ({path: value} for path, axis in self.space.items() for value in axis.probes)
            yield from self.points()
            return
        first = {path: axis.probes[0] for path, axis in self.space.items()}
        for path, axis in self.space.items():
            yield from ({**first, path: value} for value in axis.probes)

    def _one_by_one(self) -> Iterator[Values]:
        """The settings of the file, then each other value of each setting alone."""
        from dura.runs.build import complete

        tables = complete(self.experiment).to_dict()
        base: Values = {}
        for path in self.space:
            table, _, key = path.partition(".")
            if key not in tables[table]:
                raise BadInput(f"{path} has no value in the file to vary from; give it one with --set")
            base[path] = tables[table][key]
        yield base
        for path, axis in self.space.items():
            yield from ({**base, path: value} for value in axis.values if value != base[path])

    def _check_axis(self, path: str) -> None:
        axis: Axis = self.space[path]
        where = f'sweep.space."{path}"'
        if path.startswith("graph."):
            raise BadInput(f"{where}: a sweep trains on one graph, so the settings of the graph cannot be varied")
        try:
            for value in axis.probes:
                self.experiment.with_value(path, value)
        except BadInput as error:
            hint = "; whole numbers need a step, such as step = 1" if "whole number" in str(error) else ""
            raise BadInput(f"{where}: {error}{hint if isinstance(axis, Range) and not axis.whole else ''}") from None
        if self.method != "tpe" and not axis.values:
            linear = " and no log" if isinstance(axis, Range) and axis.log else ""
            raise BadInput(f"{where}: {self.method!r} tries every value, so give a list of values, or a step{linear}")


def _toml(value: Scalar) -> str:
    return tomli_w.dumps({"value": value}).partition("=")[2].strip()


def _axis(path: str, given: object) -> Axis:
    """The axis of what is written in the file, or an error with its path."""
    where = f'sweep.space."{path}"'
    if isinstance(given, Choice | Range):
        return given
    if isinstance(given, Mapping):
        return _range(where, given)
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise BadInput(
            f"{where} must be a list of values or a table with low and high, such as {{ low = 0.001, high = 0.1, log = true }}"
        )
    values: tuple[Scalar, ...] = check_value(tuple(given), tuple[Scalar, ...], where)
    if len(set(values)) < len(values):
        raise BadInput(f"{where} has a value twice: {', '.join(map(str, values))}")
    return Choice(values)


def _range(where: str, given: Mapping[str, Any]) -> Range:
    known = [f.name for f in fields(Range)]
    for key in given:
        if key not in known:
            raise BadInput(f"{where} has no {key!r}; a range has {', '.join(known)}{did_you_mean(key, known)}")
    if not {"low", "high"} <= set(given):
        raise BadInput(f"{where} needs both low and high")
    for key, value in given.items():
        check_value(value, bool if key == "log" else float, f"{where}.{key}")
    axis = Range(**given)
    if axis.high <= axis.low:
        raise BadInput(f"{where}: high must be above low, but {axis.high} is not above {axis.low}")
    if axis.log and axis.low <= 0:
        raise BadInput(f"{where}: low must be above 0 on a logarithmic scale, not {axis.low}")
    if axis.step is not None and axis.log and (axis.step != 1 or not axis.whole):
        raise BadInput(f"{where}: on a logarithmic scale the step can only be 1, for whole numbers")
    if axis.step is not None and axis.step <= 0:
        raise BadInput(f"{where}: the step must be above 0, not {axis.step}")
    if axis.step is not None and (Decimal(str(axis.high)) - Decimal(str(axis.low))) % Decimal(str(axis.step)):
        raise BadInput(f"{where}: {axis.low} to {axis.high} is not a whole number of steps of {axis.step}")
    return axis


def grids(folder: Traversable | None = None) -> dict[str, Traversable]:
    """The sweeps that come with dura, by their names "graph/model-regularizer"."""
    return presets(resources.files("dura") / "grids" if folder is None else folder)


def read_sweep(name: str) -> Sweep:
    """The sweep of a ready grid, or of a file (a path that ends in .toml)."""
    if name.endswith(".toml"):
        return Sweep.from_toml(Path(name))
    known = grids()
    if name in known:
        return Sweep.from_toml(known[name], where=f"grid {name}")
    hint = did_you_mean(name, known)
    if name in presets():
        hint = f"; {name!r} is a preset: write a .toml file with preset = {name!r} and a table [sweep.space]"
    raise BadInput(
        f"the grid {name!r} is not known; 'dura sweep --list' shows them, or give the path of a .toml file{hint}"
    )
