"""Folding: take entities into a run that it does not know, without training it again.

Rows for the new entities are learned from their facts while everything else stays as it is. What comes out is a run like any other:
its graph holds the new entities and their facts.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dura import world
from dura.config import Experiment
from dura.data.adding import Added, with_facts
from dura.data.facts import GAPS, FileColumns, dated, facts_of
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.data.readers import ReadOptions, read_sheet
from dura.models import Model, adopt
from dura.models.combined import refuse_combined
from dura.regularizers import REGULARIZERS
from dura.runs.build import blank_model, build_objective, questions_of, torch_settings
from dura.runs.calibrations import again
from dura.runs.export import check_free, export
from dura.runs.shapes import rows_per_name
from dura.runs.trained import Trained, open_run
from dura.tables import Packed, Table
from dura.tables.partial import Partial
from dura.tables.table import flushing
from dura.training.progress import Plan
from dura.training.rows import Learned, RowTrainer, start_rows, touching
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.data.sheet import Sheet

Notify = Callable[[str], None]
NAMED = 5
"""How many of the new entities are named."""
COMPARED, NEAR = 200, 0.85
"""How many new names are compared with known ones, and from which likeness on two of them may be the same."""


@dataclass(frozen=True)
class Folded:
    """What was folded into a run, as plain values."""

    entities: int
    """New entities."""
    names: list[str]
    """The names of the first of them, at most five."""
    facts: int
    """Facts that were added to train."""
    among_known: int
    """Those of them that have no new entity. They are known from now on, but change no row."""
    repeated: int
    known: int
    """Facts that the run already had."""
    skipped: int
    """Bad lines that were left out."""
    bad: list[str]
    """The first of them, as "file:line: reason"."""
    epochs: int
    steps: int
    loss: dict[str, float]
    """The loss with its penalty in the first and in the last epoch."""
    seconds: float


@flushing()
def fold_in(
    trained: Trained,
    facts: str | Path | Iterable[Any],
    out: Path | None = None,
    *,
    options: ReadOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
    notify: Notify | None = None,
) -> tuple[Trained, Folded]:
    """The run with rows for the entities of these facts that it does not know, and what was done.

    `facts` is a file, a database, or rows in memory (see `dura.from_facts`). With `out` the new run is written into this folder.
    """
    world.alone("fold-in")
    refuse_combined(trained.model, "extended by new entities")
    if out is not None:
        check_free(out, trained.path, "to fold in to", "folded in to")
    tables = entity_rows(trained.model, trained.experiment)
    options = options or ReadOptions()
    added = with_facts(trained.graph, _read(facts, options, notify), skip_bad=options.skip_bad)
    added = _described(added, options, notify)
    if not len(added.new):
        raise BadInput(
            "every entity of these facts is already known to the run, so there is nothing to fold in; "
            "to learn from new facts about known entities, train again"
        )
    _tell(trained.graph, added, notify)
    began = time.perf_counter()
    model, learned = _learned(trained, added, tables, progress)
    counts = {name: int(getattr(added, name)) for name in ("among_known", "repeated", "known", "skipped")}
    done = Folded(
        entities=len(added.new),
        names=added.graph.entities.names(added.new[:NAMED]),
        facts=len(added.facts),
        **counts,
        bad=[str(line) for line in added.bad],
        epochs=learned.epochs,
        steps=learned.steps,
        loss={"first": learned.first, "last": learned.last},
        seconds=time.perf_counter() - began,
    )
    if notify is not None and (sentence := again(trained, out)):
        notify(sentence)
    if out is None:
        return Trained(model, added.graph, trained.experiment), done
    folder = export(model, added.graph, trained.experiment, out, source=trained.path)
    source = str(trained.path) if trained.path else None
    folder.append({"kind": "fold-in", "run": source, **asdict(done)})
    return open_run(out, str(trained.model.device)), done


def entity_rows(model: Model, experiment: Experiment) -> list[str]:
    """The names of the tables that have one row per entity. A model whose entities are more than such rows is refused."""
    name = experiment.model.name
    if any(isinstance(table, Packed) for table in model.entity_tables.values()):
        raise BadInput(
            "the tables of this run are packed, so no entity can be folded in; use the run that was exported"
        )
    if experiment.optimizer.name.lower() == "als":
        raise BadInput(
            "this run was trained by alternating least squares, which has no loss for single entities, so none can be folded in; "
            "train again"
        )
    growing, own = rows_per_name(model, experiment, "entities"), model.state_dict(keep_vars=True)
    for key, rows in growing.items():
        if rows != 1 or not isinstance(own[key], Table):
            raise BadInput(
                f"no entity can be folded into the model {name!r}: it keeps more about an entity than rows that are learned "
                f"({key}); train again"
            )
    if not growing:
        raise BadInput(f"no entity can be folded into the model {name!r}: it has no rows of entities; train again")
    return list(growing)


# -- facts --------------------------------------------------------------------------------------------------------------


def _read(facts: str | Path | Iterable[Any], options: ReadOptions, notify: Notify | None) -> FileColumns:
    """The columns of the facts, with times in the spelling that graphs keep."""
    read = facts_of(_sheet(facts, options), options, doubt=False, hold=True)
    parts, notes, warnings = dated({"train": read}, options, hold=True)
    read = parts["train"]
    for note in (*read.notes, *notes, *(f"warning: {text}" for text in (*read.warnings, *warnings))):
        if notify is not None:
            notify(note)
    return read


def _sheet(facts: str | Path | Iterable[Any], options: ReadOptions) -> Sheet:
    if not isinstance(facts, str | Path):
        from dura.data.sources.frames import sheet_of

        return sheet_of(facts, "the new facts")
    from dura.data.sources.databases import is_database, read_database

    if isinstance(facts, str) and is_database(facts):
        return read_database(facts, options)
    if Path(facts).is_dir():
        raise BadInput(f"{facts} is a folder, but new facts are one file, such as new.tsv")
    return read_sheet(Path(facts), options)


def _described(added: Added, options: ReadOptions, notify: Notify | None) -> Added:
    """With labels, types and descriptions from the files that the options name."""
    if options.entities is None and options.relations is None:
        return added
    from dura.data.describing import with_files

    graph, notes, warnings = with_files(added.graph, {}, options)
    for note in (*notes, *(f"warning: {text}" for text in warnings)):
        if notify is not None:
            notify(note)
    return replace(added, graph=graph)


def _tell(old: Graph, added: Added, notify: Notify | None) -> None:
    """Say what is not as one may think."""
    if notify is None:
        return
    if added.skipped:
        lines = "1 bad line" if added.skipped == 1 else f"{added.skipped:,} bad lines"
        more = [f"and {added.skipped - len(added.bad):,} more"] if added.skipped > len(added.bad) else []
        notify("\n  ".join([f"{lines} skipped:", *map(str, added.bad), *more]))
    if added.repeated:
        notify(f"{_facts(added.repeated)} repeated, counted once")
    if added.known:
        notify(f"{_facts(added.known)} already in the graph, not added again")
    if added.among_known:
        notify(f"{_facts(added.among_known)} between known entities: known from now on, but no row changes")
    called = (
        [(name, old.about_entities.called(name)) for name in added.graph.entities.names(added.new)]
        if old.labels
        else []
    )
    strange = [(name, known[0]) for name, known in called if known]
    if strange:
        name, known = strange[0]
        notify(
            f"warning: {len(strange):,} of the new names are labels of known entities, such as {name!r} for {known!r}; they count "
            "as new entities, so write the name if the known one is meant"
        )
    for text in _doubts(old, added.graph.entities.names(added.new)):
        notify(f"warning: {text}")


def _doubts(old: Graph, names: list[str]) -> list[str]:
    """Sentences about new names that may be no names, or slips of known ones."""
    odd = [name for name in names if name == "?" or name.lower() in GAPS]
    found = [f"the new entity {name!r} looks like a missing value; if it is one, delete its facts" for name in odd]
    pairs = [(name, _slip(old, name)) for name in names[:COMPARED] if name not in odd]
    near = [f"{name!r} for {known!r}" for name, known in pairs if known is not None]
    if near:
        one = len(near) == 1
        count = (
            "1 new name is very near to a known one" if one else f"{len(near):,} new names are very near to known ones"
        )
        so = "it counts as a new entity, so look for a slip" if one else "they count as new entities, so look for slips"
        more = f" and {len(near) - NAMED:,} more" if len(near) > NAMED else ""
        listed = ", ".join(near[:NAMED])
        found.append(f"{count}: {listed}{more}; {so}")
    return found


def _slip(old: Graph, name: str) -> str | None:
    """A known name that differs in case or in a letter or two. Codes with digits are all alike, so only case counts there."""
    folded = name.lower().strip()
    for known in old.entities.suggest(name, n=1):
        other = known.lower().strip()
        words = not any(letter.isdigit() for letter in folded + other)
        if folded == other or (words and difflib.SequenceMatcher(None, folded, other).ratio() >= NEAR):
            return known
    return None


def _facts(count: int) -> str:
    return "1 fact is" if count == 1 else f"{count:,} facts are"


# -- rows ---------------------------------------------------------------------------------------------------------------


def _learned(
    trained: Trained, added: Added, tables: list[str], progress: Callable[[int, int], None] | None
) -> tuple[Model, Learned]:
    """A model for the grown graph: rows of new entities as they were learned, all other numbers as they were."""
    experiment, device = trained.experiment, trained.model.device
    objective = build_objective(experiment)
    asked = _Asked(experiment, added, whole=objective.terms[0].candidates.kind != "negatives")
    state = _grown(trained.model.state(), added, tables, asked(0).distinct())
    model = blank_model(experiment, added.graph.sizes)
    adopt(model, state)
    partials = _set_partial(model.to(device), tables, torch.as_tensor(added.new).to(device))
    t = experiment.training
    trainer = RowTrainer(
        model,
        partials,
        objective,
        REGULARIZERS.build(experiment.regularizer.name, experiment.regularizer.options),
        questions_of(experiment, added.graph),
        Plan(batch=t.questions_a_step, seed=t.seed),
        added.graph.training_facts if added.graph.intervals else None,
    )
    with torch_settings(experiment, model):
        learned = trainer.learn(asked, progress)
    for (
        name,
        table,
    ) in partials.items():  # the other rows are copied from the run, so that no step can have changed them
        state[name][added.new] = table.detach()[table.learned].to(state[name].device)
    final = blank_model(experiment, added.graph.sizes)
    adopt(final, state)
    return final.to(device).eval(), learned


class _Asked:
    """The questions of each epoch. Facts of intervals are asked at newly drawn times."""

    def __init__(self, experiment: Experiment, added: Added, whole: bool) -> None:
        self.experiment, self.added, self.whole = experiment, added, whole
        self.once = None if added.graph.intervals else self._of(added.graph.questions)

    def __call__(self, epoch: int) -> Questions:
        if self.once is not None:
            return self.once
        rng = np.random.default_rng([self.experiment.training.seed, epoch, 1])
        graph = self.added.graph
        return self._of(Questions.of(graph.at_times(graph.train, rng), relations=len(graph.relations)))

    def _of(self, questions: Questions) -> Questions:
        found = touching(questions, self.added.new, len(self.added.graph.entities), whole=self.whole)
        return found.one_by_one() if self.experiment.training.batching == "facts" else found


def _grown(state: Mapping[str, Tensor], added: Added, tables: list[str], questions: Questions) -> dict[str, Tensor]:
    """The state for more entities: known rows at their new places, and new rows where they start."""
    rng, grown = torch.Generator().manual_seed(0), {name: tensor.cpu().clone() for name, tensor in state.items()}
    for name in tables:
        table = grown[name].new_zeros(len(added.graph.entities), *grown[name].shape[1:])
        table[torch.as_tensor(added.moved).long()] = grown[name]
        table[added.new] = start_rows(table, questions, added.new, rng)
        grown[name] = table
    return grown


def _set_partial(model: Model, tables: list[str], learned: Tensor) -> dict[str, Partial]:
    """Let the model learn these rows and nothing else."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    partials = {}
    for name in tables:
        path, _, key = name.rpartition(".")
        module = model.get_submodule(path)
        partials[name] = Partial.of(module._parameters[key].detach().clone(), learned)  # type: ignore[union-attr]
        module._parameters[key] = partials[name]
    return partials
