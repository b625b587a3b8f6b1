"""Cells: the rows of the paper's result tables that dura has models for, one preset each, and what they cost here.

The `[expected]` table of a preset says to which `tables` it belongs and under which name (`system`). Its `mrr`, `hits@1`, `hits@10`
and `source` are the paper's if the preset has published settings. A laptop preset (`…-laptop`) has the numbers that we measured
with it; the paper's are in the preset of the same name without the ending. `band = [low, high]` is where our MRR should be.

A row of two runs that answer together is a table `[expected.ensemble]` in the preset of the first run: the same keys, and `with`,
the preset of the second run. Its own name is made of both: "wn18rr/star-laptop" with "wn18rr/rotate-laptop" is
"wn18rr/star-rotate-laptop".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from dura.config import Experiment
from dura.data import catalog
from dura.registry import did_you_mean
from dura.runs.build import complete
from dura.runs.cost import ModelSize, cost, model_size
from dura.runs.presets import presets
from dura.types import BadInput, DuraError, Sizes

TABLES = ("main", "regularizers", "temporal", "ablation", "p1", "systems", "small")
"""The paper's tables, one for related systems and one for the bundled graphs; the paper has neither."""
ALL = "all"
LAPTOP = "-laptop"
QUESTIONS = {
    "umls": 1_560,
    "kinships": 3_131,
    "nations": 909,
    "wn18rr": 103_509,
    "fb15k-237": 149_689,
    "icews14": 132_346,
    "icews05-15": 682_628,
    "yago15k": 83_578,
}
"""Distinct questions of the train facts in both directions, since an estimate must not read graphs; for others: twice the facts."""
PROCESS_BYTES = 550 << 20
"""What a worker needs besides its tables: torch, the facts, known answers (601 MB in all on FB15k-237 at rank 200)."""

STEP_SECONDS, START_SECONDS = 3e-3, 10.0
"""What even the smallest step takes, and what a worker takes before its first step; small graphs take hardly more."""
MATRIX_SECONDS, MATRIX_BYTES_A_SECOND = 1e-4, 1e9
"""What each relation matrix of a step takes at any size (several small products), and how fast its bytes are processed."""
ROW_BYTES_A_SECOND = 1.6e8
"""How fast the rows of a sample are read, differentiated and updated: 23 ms per step for 2,048 rows of 400 numbers."""


class Estimate(NamedTuple):
    """What a cell costs: bytes of memory of its worker and seconds in all; None if its graph or its model is not known here."""

    bytes: int | None
    seconds: float | None


@dataclass(frozen=True)
class Cell:
    """One row of a table on one graph."""

    preset: str
    experiment: Experiment
    paper: Mapping[str, float]
    """The paper's `mrr`, `hits@1` and `hits@10`, those of them that it has."""
    members: tuple[Cell, ...] = ()
    """The two cells whose runs answer together; none if the cell is one run."""

    @property
    def graph(self) -> str:
        """The graph's name in the catalog."""
        return self.experiment.graph.source

    @property
    def system(self) -> str:
        """The row's name in the paper, such as ComplEx-DURA."""
        return str(self.experiment.expected.get("system", self.preset))

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that have the row."""
        return tuple(self.experiment.expected["tables"])

    @property
    def laptop(self) -> bool:
        """True if the settings are ours, for a laptop."""
        return self.preset.endswith(LAPTOP)

    @property
    def expected(self) -> float | None:
        """The MRR that we measured with this preset; None if it was not run or has published settings."""
        ours = self.laptop or "small" in self.tables
        return self.experiment.expected.get("mrr") if ours else None

    @property
    def band(self) -> tuple[float, float] | None:
        """Where our MRR should be; None if that is not known."""
        band = self.experiment.expected.get("band")
        return (float(band[0]), float(band[1])) if band else None

    @property
    def at_hand(self) -> bool:
        """True if the graph is on this machine."""
        listing = catalog.find(self.graph)
        return listing is not None and listing.path is not None

    def cost(self, speed: float) -> Estimate:
        """About how much memory its worker needs and how long it takes, at `speed` operations per second."""
        if self.members:
            parts = [member.cost(speed) for member in self.members]
            memory, times = [part.bytes for part in parts], [part.seconds for part in parts]
            known = None not in memory and None not in times
            return Estimate(sum(map(int, memory)), sum(map(float, times))) if known else Estimate(None, None)  # type: ignore[arg-type]
        entry, training = catalog.entries().get(self.graph), self.experiment.training
        if entry is None:
            return Estimate(None, None)
        try:
            samples = samples_of(self.experiment)
            shape = model_size(self.experiment.model, Sizes(entry.entities, entry.relations, entry.timestamps))
        except DuraError:
            return Estimate(None, None)
        facts = 2 * entry.files["train"].facts
        questions = facts if training.batching == "facts" else QUESTIONS.get(self.graph, facts)
        took = cost(
            numbers=shape.numbers,
            width=shape.width,
            entities=samples or entry.entities,
            questions=questions,
            batch=training.questions_a_step,
            speed=speed,
        )
        steps = math.ceil(questions / training.questions_a_step)
        step = _step_seconds(shape, training.questions_a_step, samples)
        seconds = START_SECONDS + training.epochs * (took.seconds_an_epoch + steps * step)
        return Estimate(PROCESS_BYTES + took.bytes, seconds)


def samples_of(experiment: Experiment) -> int:
    """How many entities each step scores; 0 means all."""
    return int(str(complete(experiment).candidates.options.get("samples", 0)))


def _step_seconds(shape: ModelSize, questions: int, samples: int) -> float:
    """What a step takes besides the products of its questions with the entities."""
    # The number of distinct matrices in a step if all were equally frequent; with two tables each pair is one matrix.
    kinds = math.prod(shape.matrices) if shape.matrices else 0
    distinct = kinds * -math.expm1(-questions / kinds) if kinds else 0.0
    matrix = MATRIX_SECONDS + 4 * shape.width**2 / MATRIX_BYTES_A_SECOND
    return STEP_SECONDS + distinct * matrix + 4 * shape.width * samples / ROW_BYTES_A_SECOND


def cells(table: str = ALL, *, laptop: bool | None = None, only: Sequence[str] = ()) -> list[Cell]:
    """The cells of a table: with published settings, with laptop settings, or both (None). The small graphs have one form.

    `only` names graphs, models, regularizers or presets. A cell must match one of the names of each kind that is named.

    >>> [cell.preset for cell in cells("p1", laptop=True, only=["wn18rr", "dura"])]
    ['wn18rr/complex-dura-laptop', 'wn18rr/rescal-dura-laptop']
    """
    if table not in (*TABLES, ALL):
        known = ", ".join((*TABLES, ALL))
        raise BadInput(f"the table {table!r} is not known; known are {known}{did_you_mean(table, (*TABLES, ALL))}")
    chosen = [
        cell
        for cell in _all_cells()
        if (table == ALL or table in cell.tables)
        and (laptop is None or "small" in cell.tables or cell.laptop == laptop)
    ]
    for kind in _kinds(chosen, only):
        chosen = [cell for cell in chosen if not kind.isdisjoint(_names(cell))]
    if not chosen:
        form = " with laptop settings" if laptop else ""
        raise BadInput(
            f"the table {table!r} has no cell{form} for --only {' --only '.join(only)}; see: dura reproduce --list"
        )
    return chosen


@cache
def _all_cells() -> tuple[Cell, ...]:
    read = {name: Experiment.from_toml(file, where=f"preset {name}") for name, file in presets().items()}
    rows = {name: experiment for name, experiment in read.items() if "tables" in experiment.expected}
    found = {name: Cell(name, row, _paper(name, rows)) for name, row in rows.items()}
    pairs = {_together(cell): cell for cell in found.values() if "ensemble" in cell.experiment.expected}
    both = {
        name: replace(cell.experiment, expected=cell.experiment.expected["ensemble"]) for name, cell in pairs.items()
    }
    for name, row in both.items():
        found[name] = Cell(name, row, _paper(name, both), (pairs[name], found[row.expected["with"]]))
    return tuple(sorted(found.values(), key=_place))


def _together(cell: Cell) -> str:
    """The name of the ensemble that a cell is the first member of."""
    stem, second = cell.preset.removesuffix(LAPTOP), cell.experiment.expected["ensemble"]["with"].partition("/")[2]
    return f"{stem}-{second.removesuffix(LAPTOP)}{LAPTOP if cell.laptop else ''}"


def _place(cell: Cell) -> tuple[int, int, int, bool]:
    """Graphs in the order of the catalog, then models and regularizers in that of their registries; unknown ones last."""
    from dura.models import MODELS
    from dura.regularizers import REGULARIZERS

    graph, model, regularizer, _ = _names(cell)
    known = (list(catalog.entries()), graph), (MODELS.names(), model), (REGULARIZERS.names(), regularizer)
    first, second, third = (names.index(name) if name in names else len(names) for names, name in known)
    return first, second, third, cell.laptop


def _paper(name: str, rows: Mapping[str, Experiment]) -> dict[str, float]:
    """The paper's numbers, from the preset with published settings; none for the small graphs, or if there is no such preset."""
    published = rows.get(name.removesuffix(LAPTOP))
    if published is None or "small" in published.expected["tables"]:
        return {}
    return {key: published.expected[key] for key in ("mrr", "hits@1", "hits@10") if key in published.expected}


def _names(cell: Cell) -> tuple[str, str, str, str]:
    """What `--only` may name: graph, model, regularizer, preset."""
    return cell.graph, cell.experiment.model.name, cell.experiment.regularizer.name, cell.preset


def _kinds(among: Sequence[Cell], only: Sequence[str]) -> list[set[str]]:
    """The wanted names by kind; a name of no kind is an error."""
    known = [set(names) for names in zip(*map(_names, among), strict=True)]
    for name in only:
        if not any(name in names for names in known):
            listed = "; ".join(", ".join(sorted(names)) for names in known[:3])
            hint = did_you_mean(name, [n for names in known for n in names])
            raise BadInput(
                f"--only {name!r} is not a graph, model, regularizer or preset of this table: {listed}{hint}"
            )
    return [asked for names in known if (asked := names.intersection(only))]
