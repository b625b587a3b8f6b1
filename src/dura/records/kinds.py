"""Kinds: the schema of each kind of record, and what several records say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from dura.records.schema import NUMBER, WHOLE, check
from dura.types import TIES, BadInput, Split, Ties

_SHARE, _SPENT = Annotated[float, 0, 1], Annotated[float, 0, 1e18]
_RANKS = {"mrr": _SHARE, "hits": {"1": _SHARE, "3": _SHARE, "10": _SHARE, "*": _SHARE}}
_RANKS |= {"mean_rank": Annotated[float, 0, 1e18], "amri": NUMBER, "ranks": WHOLE}
_BOTH = {"before": {"mrr": NUMBER, "*": NUMBER}, "after": {"mrr": NUMBER, "*": NUMBER}}
_BY = {"side", "relation", "category", "category-side"}

KINDS: dict[str, Any] = {
    "start": {"auto?": str, "job?": str},
    "resume": {"epoch?": WHOLE, "step?": WHOLE},
    "epoch": {
        "epoch": WHOLE,
        "loss": NUMBER,
        "penalty": NUMBER,
        "facts_per_second": NUMBER,
        "seconds": _SPENT,
        "valid?": {**dict.fromkeys(("mrr", "hits@1", "hits@3", "hits@10"), Annotated[float | None, 0, 1]), "*": NUMBER},
        "best?": bool,
    },
    "notice": {"text": str},
    "failure": {"text": str},
    "end": {"epoch": WHOLE, "best_epoch": WHOLE, "seconds": _SPENT},
    "export": {"format?": WHOLE, "dtype?": str, "sparse?": NUMBER, "threshold?": NUMBER},
    "fold-in": {
        "run?": str | None,
        **{f"{name}?": WHOLE for name in ("entities", "facts", "among_known", "repeated", "known", "epochs", "steps")},
        "loss?": {"first": NUMBER, "last": NUMBER},
        "seconds?": _SPENT,
    },
    "measured": {
        "run?": str | None,
        "sparse?": NUMBER,
        "dtype?": str,
        "threshold?": NUMBER,
        "zeros?": NUMBER,
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
        "labels?": {"*": str},
    },
    "tracker": {"name": str, "id": str},
}
"""The schema of each kind of record. Records of other kinds are not checked."""


def check_record(record: Mapping[str, Any]) -> None:
    """Refuse a record that does not fit the schema of its kind.

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
        raise BadInput("it has no metrics for the tie policy of its protocol")
    if kind == "evaluation" and not _BY.issuperset(record.get("by", ())):
        raise BadInput(f"it has a breakdown by something other than {', '.join(sorted(_BY))}")


def curve(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records of kind "epoch", sorted by epoch. If a resumed run repeated an epoch, its last record counts.

    >>> curve([{"kind": "epoch", "epoch": 1, "loss": 2.0}, {"kind": "epoch", "epoch": 1, "loss": 1.0}])
    [{'kind': 'epoch', 'epoch': 1, 'loss': 1.0}]
    """
    last = {record["epoch"]: dict(record) for record in records if record.get("kind") == "epoch"}
    return [last[epoch] for epoch in sorted(last)]


def best_epoch(records: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The record of the first epoch with the best valid MRR. None if no epoch was validated.

    >>> valid = [{"kind": "epoch", "epoch": i, "valid": {"mrr": mrr}} for i, mrr in enumerate([0.2, 0.3, None, 0.3])]
    >>> best_epoch(valid)["epoch"]
    1
    """
    validated = [record for record in curve(records) if (record.get("valid") or {}).get("mrr") is not None]
    return max(validated, key=lambda record: record["valid"]["mrr"], default=None)


def exported_as(records: Iterable[Mapping[str, Any]]) -> str:
    """How the tables of an exported run are stored, in a few words. Empty if they are as trained.

    >>> exported_as([{"kind": "export", "format": 1, "dtype": "int8", "sparse": 0.7}]), exported_as([{"kind": "export"}])
    ('70 % zeros, int8', '')
    """
    made = [record for record in records if record.get("kind") == "export" and "format" in record]
    if not made:
        return ""
    dtype, zeros = made[-1]["dtype"], made[-1].get("sparse")
    sparse = [] if zeros is None else [f"{100 * zeros:.3g} % zeros"]
    # Packed tables with float32 entries are sparse. Older programs did not record how sparse.
    small = [dtype] if dtype != "float32" else [] if sparse else ["sparse"]
    return ", ".join(sparse + small)
