"""Result: the metrics of one evaluation, together with its protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dura.data.categories import relation_categories
from dura.data.graph import Graph
from dura.evaluation.metrics import HITS, Group, by, metrics
from dura.evaluation.ranking import rank
from dura.models import Model
from dura.text import printable
from dura.types import TIES, BadInput, Filter, IntArray, Metrics, Ranks, Split, Ties, __version__

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

HEADLINE: Ties = "realistic"
SHOWN = 40
"""How many lines of a breakdown a printed result shows; `to_frame` and `to_dict` have all."""


@dataclass(frozen=True, repr=False)
class Result:
    """The metrics of one split under each tie policy, with the protocol. Prints as a small table.

    `groups` holds the breakdowns by kind and name: `result.groups["side"]["head"].mrr`. `labels` are those of the relations in it,
    where they are not the names.
    """

    split: Split
    ties: dict[Ties, Metrics]
    protocol: dict[str, Any]
    groups: dict[Group, dict[str, Metrics]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def metrics(self) -> Metrics:
        """The headline: both sides, realistic ties."""
        return self.ties[HEADLINE]

    @property
    def mrr(self) -> float:
        """The headline's mean reciprocal rank."""
        return self.metrics.mrr

    @property
    def hits(self) -> dict[int, float]:
        """The headline's share of ranks up to 1, 3 and 10."""
        return self.metrics.hits

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON. The headline's metrics are at the top."""
        groups = {kind: {name: m.to_dict() for name, m in group.items()} for kind, group in self.groups.items()}
        return {
            "split": self.split,
            **self.metrics.to_dict(),
            "ties": {ties: m.to_dict() for ties, m in self.ties.items()},
            "protocol": self.protocol,
            **({"by": groups} if groups else {}),
            **({"labels": self.labels} if self.labels else {}),
        }

    def to_frame(self) -> pl.DataFrame:
        """A polars DataFrame: one row per tie policy, then one per group of the breakdowns."""
        import polars as pl

        return pl.DataFrame([{"by": kind, "name": name, **_numbers(m)} for kind, name, m in self._rows()])

    def to_pandas(self) -> pd.DataFrame:
        """The same rows as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError:
            raise BadInput("pandas is not installed; use to_frame(), or: pip install 'dura-kge[pandas]'") from None
        return pd.DataFrame(self.to_frame().to_dict(as_series=False))

    def __repr__(self) -> str:
        p, kinds = self.protocol, ("ties", *self.groups)
        lines = [f"{self.split} facts of {p['graph']}: {p['filter']}; {p['sides']} sides; {p['candidates']} ranked"]
        if p["unseen_entities"]["entities"]:
            lines += [
                "entities not seen in train: {entities:,}, in {ranked_facts:,} of the ranked facts".format(
                    **p["unseen_entities"]
                )
            ]
        for kind in kinds:
            rows = [(self._shown(kind, name), _numbers(m)) for k, name, m in self._rows() if k == kind]
            width = max(16, *(len(name) for name, _ in rows[:SHOWN])) if rows else 16
            lines += ["", f"{kind:<{width}}" + "".join(f"{title:>11}" for title in _numbers(self.metrics))]
            lines += [f"{name:<{width}}" + "".join(map(_cell, numbers.values())) for name, numbers in rows[:SHOWN]]
            if len(rows) > SHOWN:
                lines.append(f"… and {len(rows) - SHOWN:,} more")
        return printable("\n".join(lines))

    def _shown(self, kind: str, name: str) -> str:
        return f"{name} ({self.labels[name]})" if kind == "relation" and name in self.labels else name

    def _rows(self) -> Iterator[tuple[str, str, Metrics]]:
        yield from (("ties", name, m) for name, m in self.ties.items())
        yield from ((kind, name, m) for kind, group in self.groups.items() for name, m in group.items())


def _numbers(m: Metrics) -> dict[str, float | int]:
    hits = {f"hits@{k}": m.hits[k] for k in HITS}
    return {"mrr": m.mrr, **hits, "mean_rank": m.mean_rank, "amri": m.amri, "ranks": m.ranks}


def _cell(value: float) -> str:
    if isinstance(value, int):
        return f"{value:>11,}"
    return f"{value:>11.4f}" if abs(value) <= 1 else f"{value:>11,.1f}"


def evaluate(
    model: Model,
    graph: Graph,
    split: Split = "test",
    by: Group | Sequence[Group] | None = None,
    *,
    filter: Filter = "time-aware",  # noqa: A002
    block: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Rank both sides of every fact of a split among all entities, without the other known answers of all splits.

    `by` adds breakdowns: side, relation, category, category-side. If facts have times, the answers that are known at the fact's
    time are left out; with `filter="static"` those that are known at any time. See `rank` for `block` and `progress`.
    """
    facts = graph.asked(split)
    if filter not in ("time-aware", "static"):
        raise BadInput(f"the filter {filter!r} is not known; it is 'time-aware' or 'static'")
    if not len(facts):
        raise BadInput(f"the {split} split of the graph {graph.name!r} holds no facts, so there is nothing to evaluate")
    _check_sizes(model, graph)
    known = graph.known if graph.times is None or filter == "time-aware" else graph.known_ever
    ranks = rank(model, facts, known, len(graph.relations), block=block, progress=progress)
    kinds: Sequence[Group] = [by] if isinstance(by, str) else by or []
    groups = {kind: _breakdown(ranks, kind, graph) for kind in kinds}
    labels = {name: graph.relation_label(name) for name in groups.get("relation", ())}
    return Result(
        split=split,
        ties={ties: metrics(ranks, ties) for ties in TIES},
        protocol=_protocol(graph, facts, filter),
        groups=groups,
        labels={name: label for name, label in labels.items() if label != name},
    )


def _check_sizes(model: Model, graph: Graph) -> None:
    """Refuse a model of another graph. A static model may be ranked on dated facts: their times only choose the filter."""
    pairs = [("entities", model.sizes.entities, graph.sizes.entities)]
    if model.temporal:
        pairs.append(("times", model.sizes.times, graph.sizes.times))
    for what, mine, theirs in pairs:
        if mine != theirs:
            raise BadInput(
                f"the model has {mine:,} {what} and the graph {graph.name!r} has {theirs:,}; "
                "evaluate it on the graph it was trained on"
            )


def _breakdown(ranks: Ranks, kind: Group, graph: Graph) -> dict[str, Metrics]:
    categories = relation_categories(graph.train, len(graph.relations)) if kind.startswith("category") else None
    return by(ranks, kind, relations=list(graph.relations), categories=categories, ties=HEADLINE)


def _protocol(graph: Graph, facts: IntArray, filtered: Filter) -> dict[str, Any]:
    """How the metrics were obtained. Two results may be compared if their protocols agree."""
    dated = {
        "time-aware": "time-aware filter (answers at the fact's time)",
        "static": "static filter (answers at any time)",
    }
    unseen = np.zeros(len(graph.entities), dtype=bool)
    unseen[graph.unseen] = True
    return {
        "graph": graph.name,
        "data_digest": graph.digest,
        "filter": f"train+valid+test, {'filtered' if graph.times is None else dated[filtered]}",
        **({"times": "intervals at their begin" if graph.intervals else "points"} if graph.times is not None else {}),
        "sides": "both",
        "ties": HEADLINE,
        "candidates": f"all {len(graph.entities)} entities",
        "unseen_entities": {
            "entities": len(graph.unseen),
            "ranked_facts": int(np.count_nonzero(unseen[facts[:, 0]] | unseen[facts[:, 2]])),
        },
        "dura": __version__,
    }
