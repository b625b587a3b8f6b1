"""Reviews of a run: take in what people decided about its suggestions, and keep it in RUN/reviews.csv.

Lines are only added to this file. If there are several about a fact, the last one counts. `trained` marks those that the run
itself was trained with; `dura train --resume` needs them. `dura review` and `Trained.review` call `review`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from dura.data.graph import Graph
from dura.data.reviews import (
    ACCEPT,
    FILE,
    REJECT,
    WITHDRAW,
    Decision,
    Reviews,
    as_csv,
    as_ids,
    checked,
    latest,
    named,
    read_decisions,
    read_lines,
)
from dura.data.reviews import stop as report
from dura.records import Damage, InUse, Missing, RunFolder, read_bytes, write_atomic
from dura.text import shown
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.runs.exploring import Exploring

MOST = 1 << 30
"""The most bytes of reviews.csv."""


@dataclass(frozen=True)
class Reviewed:
    """What a file of decisions brought: new decisions, those that were there already, changed ones, and lines without any."""

    accepted: int
    rejected: int
    known: int
    changed: int
    undecided: int
    total: dict[str, int]
    """How many facts of the run are accepted and rejected now."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        changed = f", {self.changed:,} of them changed" if self.changed else ""
        undecided = "1 line has" if self.undecided == 1 else f"{self.undecided:,} lines have"
        facts = "fact" if self.total[REJECT] == 1 else "facts"
        return (
            f"{self.accepted:,} accepted and {self.rejected:,} rejected{changed}; {self.known:,} were known, "
            f"{undecided} no decision\nthe run has {self.total[ACCEPT]:,} accepted and "
            f"{self.total[REJECT]:,} rejected {facts} now"
        )


def review_run(trained: Exploring, file: str | Path, *, change: bool = False) -> Reviewed:
    """`review` of an opened run, which answers accordingly from then on."""
    folder = _folder(trained)
    if not isinstance(file, str | PathLike):
        raise BadInput(f"review takes the path of a file of decisions, not {shown(file)}")
    tally = review(folder, trained.graph, Path(file), change=change)
    trained.graph = trained.graph.reviewed(reviews_of(folder, trained.graph))
    trained.reviews_seal = seal(folder)
    return tally


def decide(trained: Exploring, decisions: Sequence[Decision], *, change: bool = False) -> Reviewed:
    """As `review_run`, with decisions of a caller instead of a file. All are checked before anything is written."""
    folder, given = RunFolder.open(_folder(trained)), dict[tuple[str, str, str, str], Decision]()
    for number, decision in enumerate(decisions, 1):
        try:
            own = checked(trained.graph, decision)
        except BadInput as error:
            raise BadInput(f"decision {number}: {error}") from None
        if given.setdefault(own.fact, own).decision != own.decision:
            raise BadInput(f"decision {number}: the same fact is accepted and rejected")
    for patience in (0.05, 0.1, 0.2, 0.4, 0.8, None):  # another worker may write just now
        try:
            tally = _take_in(folder, list(given.values()), undecided=0, change=change)
            break
        except InUse:
            if patience is None:
                raise
            sleep(patience)
    renew(trained)
    return tally


def decisions(trained: Exploring) -> list[Decision]:
    """What people decided about facts of this run, each fact once."""
    return [] if trained.path is None else latest(_log(trained.path))


def renew(trained: Exploring) -> None:
    """Read the decisions again if their file was changed, perhaps by another process."""
    if trained.path is None:
        return
    state = seal(trained.path)
    if state != trained.reviews_seal:
        trained.graph = trained.graph.reviewed(reviews_of(trained.path, trained.graph))
        trained.reviews_seal = state


def seal(run: Path) -> tuple[int, int, int] | None:
    """What changes whenever the file of decisions does; None if there is no such file."""
    try:
        found = (run / FILE).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _folder(trained: Exploring) -> Path:
    if trained.path is None:
        raise BadInput(
            "decisions are kept in a run folder, but this model is only in memory: train it with out=…, or save it"
        )
    return trained.path


def review_folder(run: Path, file: Path, *, change: bool = False) -> Reviewed:
    """`review` of a run folder, without its tables."""
    from dura.runs.store import read_graph

    return review(run, read_graph(RunFolder.open(run)), file, change=change)


def review(run: Path, graph: Graph, file: Path, *, change: bool = False) -> Reviewed:
    """Take in the decisions of a file. All lines are checked before anything is written. The same file twice changes nothing.

    A decision against an earlier one is an error unless `change` is true.
    """
    folder = RunFolder.open(run)
    if str(file) == "-":
        raise BadInput("decisions are read from a file (.csv, .tsv, .jsonl or .parquet), not from standard input")
    if not file.exists():
        raise BadInput(f"there is no file {file} of decisions")
    read = read_lines(file)
    return _take_in(folder, named(graph, file, read), undecided=read.undecided, change=change)


def _take_in(folder: RunFolder, given: list[Decision], *, undecided: int, change: bool) -> Reviewed:
    """Add checked decisions to the file of a run."""
    run = folder.path
    with folder.lock():
        log = _log(run)
        before = {decision.fact: decision for decision in latest(log)}
        stands = {fact: decision.decision for fact, decision in before.items()}
        fresh = [d for d in given if stands.get(d.fact, WITHDRAW) != d.decision]
        changed = [d for d in fresh if d.fact in before]
        against = [d for d in changed if d.decision != WITHDRAW]  # anyone may take a decision back
        if against and not change:
            report([_against(d, before[d.fact]) for d in against])
        now = datetime.now(UTC).isoformat(timespec="seconds")
        fresh = [replace(d, when=now, trained="") for d in fresh]
        if fresh:
            write_atomic(run / FILE, as_csv([*log, *fresh]))
    counted = {word: sum(d.decision == word for d in fresh) for word in (ACCEPT, REJECT)}
    every = latest([*log, *fresh])
    total = {word: sum(d.decision == word for d in every) for word in (ACCEPT, REJECT)}
    return Reviewed(counted[ACCEPT], counted[REJECT], len(given) - len(fresh), len(changed), undecided, total)


def _against(new: Decision, old: Decision) -> str:
    fact = ", ".join(part for part in new.fact if part)
    when = f" on {old.when[:10]}" if old.when else ""
    return f"({fact}) was {old.decision}ed{when} and is to be {new.decision}ed now; --change allows it"


def _log(run: Path) -> list[Decision]:
    """All lines of RUN/reviews.csv; none if there is no such file."""
    try:
        if not read_bytes(run, FILE, MOST).strip():
            return []
        return read_decisions(run / FILE, complete=True).decisions
    except Missing:
        return []
    except BadInput as error:  # it names the whole path
        raise Damage(f"{FILE} is damaged: {error}") from None


def reviews_of(run: Path, graph: Graph, *, trained: bool = False) -> Reviews | None:
    """What people decided about facts of this run, or only that which the run was trained with. None if there is nothing."""
    log = [decision for decision in _log(run) if decision.trained or not trained]
    if not log:
        return None
    try:
        return as_ids(graph, latest(log))
    except BadInput as error:
        raise Damage(f"{run / FILE} is damaged: {error}") from None


def write_reviews(run: Path, graph: Graph) -> None:
    """Write the decisions that a run is trained with into its folder."""
    if graph.reviews is not None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_atomic(run / FILE, as_csv(_by_names(graph, graph.reviews, now)))


def _by_names(graph: Graph, reviews: Reviews, now: str) -> Iterable[Decision]:
    for facts, word in ((reviews.accepted, ACCEPT), (reviews.rejected, REJECT)):
        for head, relation, tail, *time in facts.tolist():
            when = graph.times.name(time[0]) if graph.times is not None else ""
            names = graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail)
            yield Decision(*names, when, word, now, "yes")
