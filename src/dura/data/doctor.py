"""Doctor: what is wrong with a graph, or what one should know before trusting results on it.

`check` changes nothing. A finding is `ok`, a `notice` (good to know), a `warning` (results may mislead) or an `error` (the graph
cannot be used as it is). To add a check: a function Loaded -> Finding, and its name in CHECKS. Rooms above add their own
findings with `further`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from dura.data.assembly import Loaded, Shares
from dura.data.categories import CATEGORIES, relation_categories
from dura.data.graph import Graph, common, frame
from dura.data.leaks import Leak
from dura.data.loading import load_with_notes
from dura.data.readers import ReadOptions
from dura.data.readoff import ADVICE, MUCH, read_off
from dura.data.times import Times
from dura.text import printable
from dura.types import SPLITS, IntArray, Split

Severity = Literal["ok", "notice", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("ok", "notice", "warning", "error")
LISTED = 10
"""How many names a finding lists."""
MOST_SPELLINGS = 2_000_000
"""How many names are compared by their spelling."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found: a sentence, and the numbers behind it."""

    severity: Severity
    topic: str
    text: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """What the doctor found about a graph."""

    name: str
    entities: int
    relations: int
    facts: dict[str, int]
    findings: list[Finding]

    @property
    def worst(self) -> Severity:
        """The highest severity among the findings."""
        return max((finding.severity for finding in self.findings), key=SEVERITIES.index, default="ok")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "worst": self.worst}

    def lines(self) -> list[str]:
        """The report as lines of text; details are indented."""
        facts = ", ".join(f"{count:,} {part}" for part, count in self.facts.items())
        lines = [f"{self.name}: {self.entities:,} entities, {self.relations:,} relations, facts: {facts}"]
        for finding in self.findings:
            lines.append(f"{finding.severity:<8}{finding.topic}: {finding.text}")
            lines += [f"          {line}" for line in finding.details.get("lines", [])]
        return [printable(line, lines=False) for line in lines]


def check(
    source: Graph | str | Path,
    options: ReadOptions | None = None,
    shares: Shares | None = None,
    *,
    further: Sequence[Callable[[Graph], Finding]] = (),
) -> Report:
    """Examine a graph, or any source that `load` takes. Bad lines are reported and are not an error.

    `further` are functions of the rooms above that add one finding each.
    """
    if isinstance(source, Graph):
        loaded = Loaded(source)
    else:
        loaded = load_with_notes(source, replace(options or ReadOptions(), skip_bad=True), shares)
    graph = loaded.graph
    if not loaded.repeated:  # it was not read from files of names, so nobody has counted yet
        twice: dict[Split, int] = {part: len(facts) - frame(facts).n_unique() for part, facts in _splits(graph)}
        loaded = replace(loaded, repeated=twice)
    findings = [examine(loaded) for examine in CHECKS]
    if graph.times is not None:
        findings.append(_times(graph, graph.times))
    findings += [examine(graph) for examine in further]
    counts: dict[str, int] = {part: len(graph.facts(part)) for part in SPLITS}
    return Report(graph.name, len(graph.entities), len(graph.relations), counts, findings)


def _splits(graph: Graph) -> list[tuple[Split, IntArray]]:
    return [(part, graph.facts(part)) for part in SPLITS]


def _lines(loaded: Loaded) -> Finding:
    if not loaded.skipped:
        return Finding("ok", "lines", "every line is a fact")
    shown = [str(bad) for bad in loaded.bad[:LISTED]]
    more = [f"and {loaded.skipped - len(shown):,} more"] if loaded.skipped > len(shown) else []
    text = f"{_count(loaded.skipped, 'line')} bad; reading stops there unless bad lines are skipped"
    return Finding("error", "lines", text, {"bad": loaded.skipped, "lines": [*shown, *more]})


def _reading(loaded: Loaded) -> Finding:
    if loaded.warnings:
        text = "what was read looks wrong" if len(loaded.warnings) == 1 else f"{len(loaded.warnings)} things look wrong"
        return Finding("warning", "reading", text, {"lines": [*loaded.warnings, *loaded.reading]})
    if not loaded.reading:
        return Finding("ok", "reading", "nothing to note")
    return Finding("notice", "reading", "noted while reading", {"lines": loaded.reading})


def _repeated(loaded: Loaded) -> Finding:
    counts = {part: count for part, count in loaded.repeated.items() if count}
    if not counts:
        return Finding("ok", "repeated", "no fact is in a split twice")
    text = ", ".join(f"{_count(count, 'repeated fact')} in {part}" for part, count in counts.items())
    return Finding("notice", "repeated", f"{text} (each counts once)", {"repeated": counts})


def _overlap(loaded: Loaded) -> Finding:
    graph = loaded.graph
    couples = (("train", "valid"), ("train", "test"), ("valid", "test"))
    counts = {f"{a} and {b}": len(common(getattr(graph, b), getattr(graph, a))) for a, b in couples}
    counts = {couple: count for couple, count in counts.items() if count}
    if not counts:
        return Finding("ok", "overlap", "no fact is in two splits")
    text = ", ".join(f"{_count(count, 'fact')} in both {couple}" for couple, count in counts.items())
    return Finding("warning", "overlap", f"{text}: results will look better than they are", {"facts": counts})


def _evaluation(loaded: Loaded) -> Finding:
    empty = [part for part in ("valid", "test") if not len(getattr(loaded.graph, part))]
    if not empty:
        return Finding("ok", "evaluation", "valid and test hold facts")
    text = f"{' and '.join(empty)} hold no facts, so there is nothing to evaluate on"
    return Finding("warning", "evaluation", text, {"empty": empty})


def _unseen_entities(loaded: Loaded) -> Finding:
    graph = loaded.graph
    unseen = graph.unseen
    if not len(unseen):
        return Finding("ok", "entities", "train knows every entity")
    touched = {part: _with_any(graph.facts(part), unseen) for part in SPLITS[1:]}
    severity: Severity = "warning" if touched["test"] > MUCH * len(graph.test) else "notice"
    entities, valid = _count(len(unseen), "entity", "entities"), _count(touched["valid"], "valid fact")
    test = _count(touched["test"], "test fact")
    text = f"{entities} only in valid or test; {valid} and {test} have one and can only be guessed"
    shown = [graph.about_entities.shown(name) for name in graph.entities.names(unseen[:LISTED])]
    return Finding(severity, "entities", text, {"unseen": len(unseen), "facts": touched, "lines": shown})


def _with_any(facts: IntArray, entities: IntArray) -> int:
    """How many facts have one of these entities."""
    return int(np.isin(facts[:, [0, 2]], entities).any(axis=1).sum())


def _unseen_relations(loaded: Loaded) -> Finding:
    graph = loaded.graph
    unseen = np.setdiff1d(np.arange(len(graph.relations)), graph.train[:, 1])
    if not len(unseen):
        return Finding("ok", "relations", "train knows every relation")
    names = [graph.about_relations.shown(name) for name in graph.relations.names(unseen[:LISTED])]
    text = f"{_count(len(unseen), 'relation')} only in valid or test, so nothing can be learnt about them"
    return Finding("warning", "relations", text, {"unseen": len(unseen), "lines": names})


def _leaks(loaded: Loaded) -> Finding:
    graph = loaded.graph
    off = read_off(graph.train, graph.valid, graph.test)
    found = off.leaks.found
    figures = f"; {off.figures}" if off.test else ""
    details: dict[str, Any] = {"answered": off.leaks.answered, "share": off.answered_share}
    details |= {"linked": off.linked, "linked_share": off.linked_share}
    if not found:
        return Finding("ok", "leaks", f"no relation nearly repeats or inverts another or itself{figures}", details)
    symmetric = sum(leak.symmetric for leak in found)
    alone, couples = _count(symmetric, "symmetric relation"), _count(len(found) - symmetric, "pair")
    text = f"{alone}, {couples} of relations that repeat or invert{figures}"
    shown = [_leak(graph, leak) for leak in found[:LISTED]]
    shown += [f"and {len(found) - LISTED:,} more"] if len(found) > LISTED else []
    shown += [f"if all facts are in one file, {ADVICE}"] if off.much else []
    names = graph.relations.name
    listed = [{**asdict(leak), "giver": names(leak.giver), "given": names(leak.given)} for leak in found]
    return Finding("warning" if off.much else "notice", "leaks", text, {**details, "found": listed, "lines": shown})


def _leak(graph: Graph, leak: Leak) -> str:
    giver, given = (graph.about_relations.shown(graph.relations.name(each)) for each in (leak.giver, leak.given))
    how = "is symmetric in" if leak.symmetric else f"{'inverts' if leak.inverse else 'repeats'} {given} in"
    facts, answered = _count(leak.facts, "fact"), _count(leak.answered, "test fact")
    return f"{giver} {how} {leak.share:.0%} of its {facts}; gives away {answered}"


def _spellings(loaded: Loaded) -> Finding:
    """Names that may mean the same: they differ only in case, blanks, - and _, or forms of the same letters."""
    shown, counts = list[str](), dict[str, int]()
    for kind, names in (("entities", loaded.graph.entities), ("relations", loaded.graph.relations)):
        frame = pl.DataFrame({"name": names.column(np.arange(min(len(names), MOST_SPELLINGS)))})
        groups = frame.group_by(plain=_plain(pl.col("name")), maintain_order=True).agg("name")
        alike = groups.filter(pl.col("name").list.len() > 1)["name"]
        counts[kind] = len(alike)
        shown += [" and ".join(map(repr, same[:3])) for same in alike.head(LISTED // 2).to_list()]
    if not any(counts.values()):
        return Finding("ok", "spelling", "no two names differ only in case, blanks or the form of letters")
    many = " and ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    severity: Severity = "warning" if counts["entities"] > MUCH * len(loaded.graph.entities) else "notice"
    text = f"{many} share their name with another one except for case, blanks, - and _, or the form of letters; they stay apart"
    return Finding(severity, "spelling", text, {"groups": counts, "lines": shown})


def _plain(name: pl.Expr) -> pl.Expr:
    return name.str.normalize("NFKC").str.to_lowercase().str.replace_all(r"[\s_-]+", " ").str.strip_chars(" ")


def _loops(loaded: Loaded) -> Finding:
    graph = loaded.graph
    counts = {part: int((graph.facts(part)[:, 0] == graph.facts(part)[:, 2]).sum()) for part in SPLITS}
    if not sum(counts.values()):
        return Finding("ok", "self loops", "no fact has the same head and tail")
    text = ", ".join(f"{_count(count, 'fact')} in {part}" for part, count in counts.items() if count)
    return Finding("notice", "self loops", f"head and tail are the same in {text}", {"facts": counts})


def _categories(loaded: Loaded) -> Finding:
    graph = loaded.graph
    categories = relation_categories(graph.train, len(graph.relations))
    of_fact = categories[graph.train[:, 1]]
    counts = {
        name: {"relations": int((categories == name).sum()), "facts": int((of_fact == name).sum())}
        for name in CATEGORIES
    }
    text = ", ".join(f"{_count(each['relations'], 'relation')} {name}" for name, each in counts.items())
    return Finding("ok", "categories", text, {"categories": counts})


def _times(graph: Graph, times: Times) -> Finding:
    """The times and their span, facts without a time, times that are not in train, test facts that train has at any time."""
    first, last = times.span
    stamped = {part: graph.facts(part)[:, 3:] for part in SPLITS}
    untimed = {part: int((ids == len(times.positions)).all(axis=1).sum()) for part, ids in stamped.items()}
    seen = np.unique(graph.at_all_times(graph.train)[:, 3])
    unseen = np.setdiff1d(np.arange(len(times)), seen)
    again = len(common(graph.test[:, :3], graph.train[:, :3]))
    text = (
        f"{_count(len(times.positions), times.kind)} from {first} to {last}; "
        f"{_count(sum(untimed.values()), 'fact')} without a time; {_count(len(unseen), 'time')} not in train; "
        f"{_count(again, 'test fact')} also in train at some time"
    )
    details: dict[str, Any] = {
        "times": len(times.positions),
        "kind": times.kind,
        "first": first,
        "last": last,
        "untimed": untimed,
    }
    details |= {"unseen": len(unseen), "known_at_some_time": again, "lines": times.names(unseen[:LISTED])}
    return Finding("notice" if len(unseen) else "ok", "times", text, details)


CHECKS: tuple[Callable[[Loaded], Finding], ...] = (
    _lines,
    _reading,
    _repeated,
    _overlap,
    _evaluation,
    _unseen_entities,
    _unseen_relations,
    _leaks,
    _spellings,
    _loops,
    _categories,
)


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
