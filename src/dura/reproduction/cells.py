"""Cells: the rows of the paper's result tables that dura can make, each a preset, with what they will cost here.

A preset belongs to tables by its `[expected]`: `tables`, `system`, then `mrr`, `hits@1`, `hits@10` and `source`. Where it carries
published settings these figures are the paper's. A laptop preset (`…-laptop`) has the figures that we measured with it, and the
paper's stand in the preset of the same name without the ending. `band = [low, high]` is where our MRR should lie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from dura.config import Experiment
from dura.data import catalog
from dura.registry import did_you_mean
from dura.runs.cost import cost, model_size
from dura.runs.presets import presets
from dura.types import BadInput, Sizes

TABLES = ("main", "regularizers", "temporal", "ablation", "p1", "small")
"""The paper's tables, and one of the bundled graphs that the paper does not have."""
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
"""Distinct questions of the train facts, both ways: an estimate must not read the graphs; twice the facts where one is missing."""
PROCESS_BYTES = 550 << 20
"""What a training process takes beside its tables: torch, the facts, known answers (601 MB in all on FB15k-237 at rank 200)."""

STEP_SECONDS, START_SECONDS = 3e-3, 10.0
"""What a step takes however small it is, and a process before its first step; small graphs cost nothing else."""
MATRIX_SECONDS, MATRIX_BYTES_A_SECOND = 1e-4, 1e9
"""What each relation matrix of a step takes beside its size (several small products), and how fast the rest of it goes."""
ROW_BYTES_A_SECOND = 1.6e8
"""How fast the rows of a sample are read, differentiated and updated: 23 ms a step beside its products for 2,048 of 400 numbers."""
_REGULARIZERS = ("none", "fro", "n3", "reg-p1", "dura-i", "dura-ii", "dura", "dura1", "dura2")
_MODELS = ("cp", "complex", "rescal", "tcomplex", "trescal")
"""The order of rows."""


@dataclass(frozen=True)
class Cell:
    """One row of a table on one graph."""

    preset: str
    experiment: Experiment
    paper: Mapping[str, float]
    """The paper's `mrr`, `hits@1` and `hits@10`, as far as it tells them."""

    @property
    def graph(self) -> str:
        """The graph's name in the catalog."""
        return self.experiment.graph.source

    @property
    def system(self) -> str:
        """The row's name in the paper, such as ComplEx-DURA."""
        return str(self.experiment.expected["system"])

    @property
    def tables(self) -> tuple[str, ...]:
        """Where the row stands."""
        return tuple(self.experiment.expected["tables"])

    @property
    def laptop(self) -> bool:
        """True where the settings are ours, for a laptop."""
        return self.preset.endswith(LAPTOP)

    @property
    def expected(self) -> float | None:
        """The MRR that we measured with this preset; None where it was not run or has published settings."""
        ours = self.laptop or not self.paper
        return self.experiment.expected.get("mrr") if ours else None

    @property
    def band(self) -> tuple[float, float] | None:
        """Where our MRR should lie, where that is known."""
        band = self.experiment.expected.get("band")
        return (float(band[0]), float(band[1])) if band else None

    @property
    def at_hand(self) -> bool:
        """True where the graph is on this machine."""
        listing = catalog.find(self.graph)
        return listing is not None and listing.path is not None

    @cached_property
    def _samples(self) -> int:
        """How many entities a step scores; 0 where it scores all."""
        from dura.objectives import OBJECTIVES, SampledCrossEntropy

        objective = OBJECTIVES.build(self.experiment.objective.name, self.experiment.objective.options)
        return objective.samples if isinstance(objective, SampledCrossEntropy) else 0

    def cost(self, speed: float) -> tuple[int, float]:
        """About how many bytes a process takes for this cell, and how many seconds in all."""
        entry, training = catalog.entries()[self.graph], self.experiment.training
        facts = 2 * entry.files["train"].facts
        questions = facts if training.batching == "facts" else QUESTIONS.get(self.graph, facts)
        sizes = Sizes(entry.entities, entry.relations, entry.timestamps)
        numbers, width, matrices = model_size(self.experiment.model, sizes)
        samples = self._samples
        took = cost(
            numbers=numbers,
            width=width,
            entities=samples or entry.entities,
            questions=questions,
            batch=training.questions_a_step,
            speed=speed,
        )
        steps = math.ceil(questions / training.questions_a_step)
        # Distinct matrices of a step, were all alike in frequency; of two tables each pair is one.
        kinds = math.prod(matrices) if matrices else 0
        distinct = kinds * -math.expm1(-training.questions_a_step / kinds) if kinds else 0.0
        step = STEP_SECONDS + distinct * (MATRIX_SECONDS + 4 * width * width / MATRIX_BYTES_A_SECOND)
        step += 4 * width * samples / ROW_BYTES_A_SECOND
        seconds = training.epochs * (took.seconds_an_epoch + steps * step)
        return PROCESS_BYTES + took.bytes, START_SECONDS + seconds


def cells(table: str = ALL, *, laptop: bool | None = None, only: Sequence[str] = ()) -> list[Cell]:
    """The cells of a table: with published settings, for a laptop, or (None) both; the small graphs have one form for all.

    `only` keeps those of some graphs, models, regularizers or presets: names of one kind add up, kinds narrow each other.

    >>> [cell.preset for cell in cells("p1", laptop=True, only=["wn18rr", "dura"])]
    ['wn18rr/complex-dura-laptop', 'wn18rr/rescal-dura-laptop']
    """
    if table not in (*TABLES, ALL):
        known = ", ".join((*TABLES, ALL))
        raise BadInput(f"the table {table!r} is not known; known are {known}{did_you_mean(table, (*TABLES, ALL))}")
    chosen = [
        cell
        for cell in _all_cells()
        if (table == ALL or table in cell.tables) and (laptop is None or not cell.paper or cell.laptop == laptop)
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
    return tuple(sorted((Cell(name, row, _paper(name, rows)) for name, row in rows.items()), key=_place))


def _place(cell: Cell) -> tuple[int, int, int, bool]:
    """Graphs as in the catalog, then models and regularizers as in the paper."""
    graph, model, regularizer, _ = _names(cell)
    return list(catalog.entries()).index(graph), _MODELS.index(model), _REGULARIZERS.index(regularizer), cell.laptop


def _paper(name: str, rows: Mapping[str, Experiment]) -> dict[str, float]:
    """The paper's figures: those of the preset with published settings; there are none for the small graphs."""
    published = rows[name.removesuffix(LAPTOP)].expected
    if "small" in published["tables"]:
        return {}
    return {figure: published[figure] for figure in ("mrr", "hits@1", "hits@10") if figure in published}


def _names(cell: Cell) -> tuple[str, str, str, str]:
    """What `--only` may name: graph, model, regularizer, preset."""
    return cell.graph, cell.experiment.model.name, cell.experiment.regularizer.name, cell.preset


def _kinds(among: Sequence[Cell], only: Sequence[str]) -> list[set[str]]:
    """The names asked for, by kind; a name that is none of them is an error."""
    known = [set(names) for names in zip(*map(_names, among), strict=True)]
    for name in only:
        if not any(name in names for names in known):
            listed = "; ".join(", ".join(sorted(names)) for names in known[:3])
            hint = did_you_mean(name, [n for names in known for n in names])
            raise BadInput(f"--only {name!r} is no graph, model, regularizer or preset of this table: {listed}{hint}")
    return [asked for names in known if (asked := names.intersection(only))]
