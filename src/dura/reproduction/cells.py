"""Cells: the rows of the paper's result tables that dura has models for, one preset each, and what they cost here.

The `[expected]` table of a preset says to which `tables` it belongs and under which name (`system`). Its `mrr`, `hits@1`, `hits@10`
and `source` are the paper's if the preset has published settings. Presets with our settings have the numbers that we measured with
them; the paper's are in the preset of the same name without the ending. `band = [low, high]` is where our MRR should be. Our
settings are those for a laptop (`…-laptop`, a small rank) and those of the headline table (`…-headline`, the paper's rank with
steps that two cores can afford).

A row of two runs that answer together is a table `[expected.ensemble]` in the preset of the first run: the same keys, and `with`,
the preset of the second run. Its own name is made of both: "wn18rr/star-laptop" with "wn18rr/rotate-laptop" is
"wn18rr/star-rotate-laptop".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from dura.config import Experiment
from dura.data import catalog
from dura.registry import did_you_mean
from dura.reproduction.estimates import Estimate, estimate
from dura.runs.presets import presets
from dura.types import BadInput

HEADLINE_TABLE = "headline"
TABLES = ("main", "regularizers", "temporal", "ablation", "p1", HEADLINE_TABLE, "systems", "small")
"""The paper's tables, its main rows at full size, one for related systems and one for the bundled graphs."""
ALL = "all"
LAPTOP, HEADLINE = "-laptop", "-headline"


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
    def headline(self) -> bool:
        """True if the settings are ours, with the paper's rank."""
        return self.preset.endswith(HEADLINE)

    @property
    def expected(self) -> float | None:
        """The MRR that we measured with this preset; None if it was not run or has published settings."""
        ours = self.laptop or self.headline or "small" in self.tables
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
        return estimate(self.experiment, speed)


def cells(table: str = ALL, *, laptop: bool | None = None, only: Sequence[str] = ()) -> list[Cell]:
    """The cells of a table: with published settings, with laptop settings, or both (None).

    The small graphs have one form, which is used for both. So has the headline table, which has no laptop settings.

    `only` names graphs, models, regularizers or presets. A cell must match one of the names of each kind that is named.

    >>> [cell.preset for cell in cells("p1", laptop=True, only=["wn18rr", "dura"])]
    ['wn18rr/complex-dura-laptop', 'wn18rr/rescal-dura-laptop']
    """
    if table not in (*TABLES, ALL):
        known = ", ".join((*TABLES, ALL))
        raise BadInput(f"the table {table!r} is not known; known are {known}{did_you_mean(table, (*TABLES, ALL))}")
    if table == HEADLINE_TABLE and laptop:
        raise BadInput(
            f"the table {table!r} has the paper's rank and no laptop settings: leave out --laptop, or name another table"
        )
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


def _place(cell: Cell) -> tuple[int, int, int, bool, bool]:
    """Graphs in the order of the catalog, then models and regularizers in that of their registries; unknown ones last."""
    from dura.models import MODELS
    from dura.regularizers import REGULARIZERS

    graph, model, regularizer, _ = _names(cell)
    known = (list(catalog.entries()), graph), (MODELS.names(), model), (REGULARIZERS.names(), regularizer)
    first, second, third = (names.index(name) if name in names else len(names) for names, name in known)
    return first, second, third, cell.laptop, cell.headline


def _paper(name: str, rows: Mapping[str, Experiment]) -> dict[str, float]:
    """The paper's numbers, from the preset with published settings; none for the small graphs, or if there is no such preset."""
    published = rows.get(name.removesuffix(LAPTOP).removesuffix(HEADLINE))
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
