"""Kinds: what each kind of record must say, and what several records say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from dura.records.schema import FIGURE, WHOLE, check
from dura.types import TIES, BadInput, Split, Ties

_SHARE, _SPENT = Annotated[float, 0, 1], Annotated[float, 0, 1e18]
_RANKS = {"mrr": _SHARE, "hits": {"1": _SHARE, "3": _SHARE, "10": _SHARE, "*": _SHARE}}
_RANKS |= {"mean_rank": Annotated[float, 0, 1e18], "amri": FIGURE, "ranks": WHOLE}
_BOTH = {"before": {"mrr": FIGURE, "*": FIGURE}, "after": {"mrr": FIGURE, "*": FIGURE}}
_BY = {"side", "relation", "category", "category-side"}

KINDS: dict[str, Any] = {
    "start": {"auto?": str},
    "resume": {"epoch?": WHOLE, "step?": WHOLE},
    "epoch": {
        "epoch": WHOLE,
        "loss": FIGURE,
        "penalty": FIGURE,
        "facts_per_second": FIGURE,
        "seconds": _SPENT,
        "valid?": {**dict.fromkeys(("mrr", "hits@1", "hits@3", "hits@10"), Annotated[float | None, 0, 1]), "*": FIGURE},
        "best?": bool,
    },
    "notice": {"text": str},
    "failure": {"text": str},
    "end": {"epoch": WHOLE, "best_epoch": WHOLE, "seconds": _SPENT},
    "export": {"format?": WHOLE, "dtype?": str, "sparse?": FIGURE, "threshold?": FIGURE},
    "measured": {
        "run?": str | None,
        "sparse?": FIGURE,
        "dtype?": str,
        "threshold?": FIGURE,
        "zeros?": FIGURE,
        "bytes?": {"*": {"before": int | None, "after": int | None}},
        "figures?": {"*": _BOTH},
    },
    "evaluation": {
        "split": Split,
        "epoch?": int | None,
        "ties": {f"{ties}?": _RANKS for ties in TIES},
        "protocol": {
            "ties": Ties,
            "filter": str,
            "times?": str,
            "unseen_entities?": {"entities": WHOLE, "ranked_facts": WHOLE},
        },
        "by?": {"*": {"*": _RANKS}},
    },
    "tracker": {"name": str, "id": str},
}
"""What the records of each kind say; other kinds are not looked at."""


def check_record(record: Mapping[str, Any]) -> None:
    """Refuse a record whose keys do not fit its kind.

    >>> check_record({"kind": "epoch", "epoch": -1})
    Traceback (most recent call last):
    dura.types.BadInput: epoch must be at least 0, not -1
    """
    kind = record.get("kind")
    if kind is not None and not isinstance(kind, str):
        raise BadInput("its kind is not text")
    if kind in KINDS:
        check(record, KINDS[kind])
    if kind == "export" and "format" in record and "dtype" not in record:
        raise BadInput("it has no dtype")
    if kind == "evaluation" and record["protocol"]["ties"] not in record["ties"]:
        raise BadInput("it has no figures under its own tie policy")
    if kind == "evaluation" and not _BY.issuperset(record.get("by", ())):
        raise BadInput(f"its breakdowns are not only by {', '.join(sorted(_BY))}")


def curve(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records of kind "epoch" by epoch; if a resume repeated an epoch, its last record counts.

    >>> curve([{"kind": "epoch", "epoch": 1, "loss": 2.0}, {"kind": "epoch", "epoch": 1, "loss": 1.0}])
    [{'kind': 'epoch', 'epoch': 1, 'loss': 1.0}]
    """
    last = {record["epoch"]: dict(record) for record in records if record.get("kind") == "epoch"}
    return [last[epoch] for epoch in sorted(last)]


def best_epoch(records: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The record of the epoch with the best valid MRR, the first of several; None if no epoch was validated.

    >>> valid = [{"kind": "epoch", "epoch": i, "valid": {"mrr": mrr}} for i, mrr in enumerate([0.2, 0.3, None, 0.3])]
    >>> best_epoch(valid)["epoch"]
    1
    """
    validated = [record for record in curve(records) if (record.get("valid") or {}).get("mrr") is not None]
    return max(validated, key=lambda record: record["valid"]["mrr"], default=None)


def exported_as(records: Iterable[Mapping[str, Any]]) -> str:
    """How the tables of an exported run are stored, in the few words that tell runs apart; empty if they are as trained.

    >>> exported_as([{"kind": "export", "format": 1, "dtype": "int8", "sparse": 0.7}]), exported_as([{"kind": "export"}])
    ('70 % zeros, int8', '')
    """
    made = [record for record in records if record.get("kind") == "export" and "format" in record]
    if not made:
        return ""
    dtype, zeros = made[-1]["dtype"], made[-1].get("sparse")
    sparse = [] if zeros is None else [f"{100 * zeros:.3g} % zeros"]
    # Packed tables with float32 entries are sparse, but a copy made by an older program does not say how much.
    small = [dtype] if dtype != "float32" else [] if sparse else ["sparse"]
    return ", ".join(sparse + small)
