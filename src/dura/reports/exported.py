"""Exported: what `dura export` left in the records of a run, in words and as a sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dura.reports.blocks import Block, Terms, Text
from dura.sheets.sheet import Plain, Sheet


@dataclass(frozen=True)
class Export:
    """The form of the exported tables and, if it was measured, what that saves and costs."""

    packed: bool
    """False if the tables are as trained."""
    dtype: str = "float32"
    zeros: float | None = None
    """The share of the entities' entries that are zero, if the records say it."""
    threshold: float | None = None
    source: str | None = None
    """The run folder that was exported, if the records name it."""
    bytes: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Mapping[str, float | None]]] = field(default_factory=dict)
    """By split, before and after the export."""

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Export | None:
        """What the records of the kinds "export" and "measured" say together; None for a run that was trained."""
        made, measured = (
            next((record for record in reversed(records) if record.get("kind") == kind), None)
            for kind in ("export", "measured")
        )
        if made is None:
            return None
        known = {**made, **{key: value for key, value in (measured or {}).items() if value is not None}}
        return cls(
            "format" in made,
            known.get("dtype", "float32"),
            known.get("zeros", known.get("sparse")),
            known.get("threshold"),
            known.get("run"),
            known.get("bytes", {}),
            known.get("figures", {}),
        )

    @property
    def form(self) -> str:
        """How the tables are stored, in words."""
        if not self.packed:
            return "as trained"
        if self.zeros is None:
            return f"sparse, {self.dtype}" if self.dtype == "float32" else self.dtype
        below = "" if self.threshold is None else f" (|x| < {self.threshold:.4g})"
        return f"sparse, {self.zeros:.1%} of the entities' entries zero{below}, {self.dtype}"

    def tiles(self) -> list[tuple[str, str, str]]:
        """The measured MRR of each split, and what it was before."""
        return [
            (f"{split} MRR, exported", f"{after:.4f}", f"{before:.4f} before, {after - before:+.4f}")
            for split, both in self.metrics.items()
            if (before := both["before"]["mrr"]) is not None and (after := both["after"]["mrr"]) is not None
        ]

    def mrr(self, split: str) -> float | None:
        """The MRR of a split that was measured with the exported tables."""
        return self.metrics[split]["after"]["mrr"] if split in self.metrics else None


def export_blocks(export: Export) -> list[Block]:
    """What was exported, in which form, and the bytes and metrics before and after."""
    source = [] if export.source is None else [("exported from", export.source)]
    rows = [*map(_sizes, export.bytes.items()), *_metrics(export)]
    measured: list[Block] = [Sheet("", rows)] if rows else [Text("What the export costs was not measured.")]
    return [
        Terms([*source, ("tables", export.form)]),
        *measured,
        Text("The settings are those with which the tables were trained."),
    ]


def _sizes(item: tuple[str, Mapping[str, int | None]]) -> dict[str, Plain]:
    what, size = item
    before, after = (None if size[key] is None else f"{(size[key] or 0) / 1e6:,.2f} MB" for key in ("before", "after"))
    change = f"{size['after'] / size['before'] - 1:+.1%}" if size["after"] and size["before"] else None
    return {"": f"bytes of the {what}", "before": before, "after": after, "change": change}


def _metrics(export: Export) -> list[dict[str, Plain]]:
    rows: list[dict[str, Plain]] = []
    for split, both in export.metrics.items():
        for key in both["after"]:
            before, after = both["before"].get(key), both["after"][key]
            change = None if before is None or after is None else f"{after - before:+.4f}"
            texts = [None if value is None else f"{value:.4f}" for value in (before, after)]
            name = "MRR" if key == "mrr" else key.capitalize()
            rows.append({"": f"{split} {name}", "before": texts[0], "after": texts[1], "change": change})
    return rows
