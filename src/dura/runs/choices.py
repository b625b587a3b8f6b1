"""Choices: turn what a user chose into settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dura.config import Experiment, GraphSettings
from dura.data.readers import ColumnChoice, ReadOptions
from dura.runs.presets import preset as read_preset

_BY_TIMES = ("model", "regularizer", "smoothness")
"""The tables whose defaults depend on whether facts have times."""


class Choices:
    """What a user chose, on top of a preset or the defaults. None means "not chosen".

    `start` holds the choices that do not depend on the graph, so a wrong one is refused before a graph is read. `experiment` adds
    the choices of model, regularizer and smoothness, because facts with times have other defaults for these.
    """

    def __init__(
        self,
        preset: str | None = None,
        *,
        graph: str | None = None,
        model: str | None = None,
        rank: int | None = None,
        regularizer: str | None = None,
        epochs: int | None = None,
        batch: int | str | None = None,
        lr: float | None = None,
        seed: int | None = None,
        device: str | None = None,
        columns: ColumnChoice | None = None,
        skip_bad: bool | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        given = {
            "model.name": model,
            "regularizer.name": regularizer,
            "graph.source": graph,
            "graph.columns": ReadOptions(columns).chosen,
            "graph.skip_bad": skip_bad,
            "model.rank": rank,
            "training.epochs": epochs,
            "training.batch": batch,
            "optimizer.lr": lr,
            "training.seed": seed,
            "training.device": device,
            **(settings or {}),
        }
        self._chosen = {path: value for path, value in given.items() if value is not None}
        self._late = {path: value for path, value in self._chosen.items() if path.partition(".")[0] in _BY_TIMES}
        self._base = read_preset(preset) if preset else None
        early = {path: value for path, value in self._chosen.items() if path not in self._late}
        self.start = (self._base or Experiment()).with_values(early)

    def experiment(self, *, dated: bool, graph: GraphSettings | None = None) -> Experiment:
        """All settings. `dated` says whether facts have times. `graph` replaces the chosen settings of the graph."""
        experiment = self.start if graph is None else replace(self.start, graph=graph)
        if dated and self._base is None:
            default = Experiment.of_dated_facts()
            experiment = replace(experiment, **{table: getattr(default, table) for table in _BY_TIMES})
        experiment = self._for_optimizer(self._for_model(experiment).with_values(self._late))
        # The expected results of a preset hold only if nothing in it is changed.
        return experiment if experiment == self._base else replace(experiment, expected={})

    @property
    def chosen(self) -> frozenset[str]:
        """The paths of all settings that were chosen."""
        return frozenset(self._chosen)

    @property
    def preset(self) -> bool:
        """Whether the choices start from a preset."""
        return self._base is not None

    def text(self) -> str:
        """All that was chosen, as one text."""
        return repr((sorted(self.start.by_path().items()), sorted(self._late.items())))

    def _for_model(self, experiment: Experiment) -> Experiment:
        """The settings that suit the chosen model, if it is not that of the preset or the default: see `Model.defaults`.

        They replace whole tables, but never what was chosen. A model that is trained as the one before it, except for the
        smoothness, gets its rank.
        """
        name, rank = self._late.get("model.name"), experiment.model.options.get("rank")
        if name is None or name == experiment.model.name:
            return experiment
        from dura.models import MODELS

        suits = {table: dict(values) for table, values in MODELS.get(name).defaults.items()}
        same = (
            {"rank": rank}
            if not suits.keys() - {"model", "smoothness"} and rank is not None and "rank" in MODELS.options(name)
            else {}
        )
        suits["model"] = {"name": name, **same, **suits.get("model", {})}
        for table, values in suits.items():
            if table in ("loss", "candidates", "regularizer", "optimizer") and f"{table}.name" in self._chosen:
                continue
            mine = {path: value for path, value in self._chosen.items() if path.startswith(f"{table}.")}
            experiment = experiment.with_values({f"{table}.{key}": value for key, value in values.items()} | mine)
        return experiment

    def _for_optimizer(self, experiment: Experiment) -> Experiment:
        """Alternating least squares allows no penalty but its own: choosing it turns the others off, unless they were chosen."""
        if str(self._chosen.get("optimizer.name", "")).lower() != "als":
            return experiment
        if not any(path.startswith("regularizer.") for path in self._chosen):
            experiment = experiment.with_value("regularizer.name", "none")
        return experiment if "smoothness.weight" in self._chosen else experiment.with_value("smoothness.weight", 0.0)


def choose(preset: str | None, *, dated: bool = False, **chosen: Any) -> Experiment:
    """The settings that these choices make. `chosen` are the arguments of `Choices`.

    >>> choose("umls/complex-dura", rank=50).model.options["rank"]
    50
    """
    return Choices(preset, **chosen).experiment(dated=dated)
