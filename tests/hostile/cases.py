"""Cases: the list of changes to each kind of folder, the same in every run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dura.training.trainer import Progress
from dura.types import SPLITS
from folders import epoch
from hostile.changes import (
    LIES,
    Case,
    Change,
    facts,
    file_changes,
    flips,
    header,
    keys,
    line,
    put,
    retold,
    swapped,
    tensors,
    text,
)

GRAPH_KEYS = ["format", "graph", *(f"graph/{key}" for key in ("name", "digest", "entities", "relations", *SPLITS))]
PAIR_KEYS = ["format", "step", "file", "sha256", "bytes", "state"]
PROGRESS_KEYS = [f"state/progress/{field}" for field in Progress.__dataclass_fields__]
SETTINGS = [
    "x = " + "[" * 20_000,
    ".".join(["a"] * 20_000) + " = 1",
    "[expected]\n" + ".".join(["a"] * 20_000) + " = 1",
    "[expected]\nx = " + "{a = " * 300 + "1" + "}" * 300,
    f"version = 0x{'f' * 20_000}",
    "version = -1",
    "version = true",
    "version = 99",
    "[model]\nname = 'complex'\nrank = -4",
    "[model]\nname = 'complex'\nrank = 100000",
    "[model]\nname = 'rescal'\nrank = 100000",
    "[model]\nname = 'rescal'\nrank = 4",
    "[model]\nname = 'complex'\nrank = nan",
    "[model]\nname = 'complex'\nrank = 4\ninit_scale = inf",
    "[model]\nname = '\\u001b]0;x'",
    '[model]\nname = "\\u001b]0;owned\\u0007"\nrank = 4',
    "[model]\nname = ['complex']",
    "[training]\nseed = -1",
    "[training]\nthreads = 1000000",
    "[training]\ndevice = 'moon'",
    "[training]\nbatch = 9223372036854775807",
    "[optimizer]\nname = 'adagrad'\nlr = 1e308",
    "[optimizer]\nname = 'LBFGS'",
    "[graph]\nsource = 3",
    "unknown = 1",
    "\x00",
    "[regularizer]\nname = 'dura'\nweight = 1e300",
]
RECORDS: list[Any] = [
    {"kind": "epoch"},
    {"kind": "epoch", "epoch": 1},
    {"kind": "epoch", "epoch": 9},
    {**epoch(9), "seconds": None},
    {**epoch(9, 0.5), "facts_per_second": None},
    {**epoch(9), "valid": {"mrr": None}},
    {**epoch(9), "valid": {"mrr": 0.5}},
    {**epoch(9, 0.5), "loss": 1e308},
    {**epoch(9, 0.5), "loss": -1e99},
    {**epoch(10**18, 0.5), "seconds": 1e17},
    {**epoch(9, 0.5), "best": "yes"},
    {"kind": "epoch", "epoch": "1"},
    {"kind": "epoch", "epoch": [1]},
    {"kind": "epoch", "epoch": -1},
    {"kind": "epoch", "epoch": 1e308, "loss": 1},
    {"kind": "epoch", "epoch": 2, "loss": "low"},
    {"kind": "epoch", "epoch": 2, "valid": []},
    {"kind": "epoch", "epoch": 2, "valid": {}},
    {"kind": "epoch", "epoch": 2, "valid": {"mrr": None}},
    {"kind": "epoch", "epoch": 2, "valid": {"mrr": "high"}},
    {"kind": "epoch", "epoch": 10**18, "loss": 1e308, "seconds": 1e308, "valid": {"mrr": -1e308}},
    {"kind": ["epoch"]},
    {"kind": {}},
    {"kind": None},
    {"kind": "start", "auto": 3},
    {"kind": "notice", "text": "\x1b]0;owned\x07 \ud800 <script>"},
    {"kind": "notice"},
    {"kind": "failure", "text": ["x"]},
    {"kind": "resume", "epoch": {}},
    {"kind": "end", "seconds": "long"},
    {"kind": "export", "format": 1},
    {"kind": "export", "format": 1, "dtype": 3},
    {"kind": "export", "format": 1, "dtype": "int8", "sparse": "much"},
    {"kind": "export", "format": 1, "dtype": "int8", "sparse": 0.5},
    {"kind": "measured", "bytes": {"tables": 3}},
    {"kind": "measured", "bytes": {"tables": {"before": 1}}, "figures": {"valid": {}}},
    {"kind": "evaluation"},
    {"kind": "evaluation", "split": "test", "ties": {}, "protocol": {}},
    {"kind": "evaluation", "split": "moon", "ties": {}, "protocol": {"ties": "realistic", "filter": "x"}},
    {"kind": "evaluation", "split": "test", "ties": {}, "protocol": {"ties": "realistic", "filter": "x"}},
    {"kind": "evaluation", "split": "test", "ties": {"realistic": {"mrr": None}},
     "protocol": {"ties": "realistic", "filter": "x"}},
    {"kind": "tracker", "name": 3, "id": []},
    [1, 2],
    b'{"kind": "epoch", "epoch": ' + b"[" * 50_000 + b"\n",
    b'{"kind": "epoch", "epoch": 1' + b"0" * 10_000 + b"}\n",
    b'{"kind": "epoch", "epoch": 2, "loss": NaN}\n',
    b'{"kind": "epoch", "epoch": 2, "loss": 1e999}\n',
    b'{"kind": "notice", "text": "' + b"x" * (17 << 20) + b'"}\n',
    b"\xff\xfe{\x00}\x00\n",
]  # fmt: skip


def _instead(new: str, _: str) -> str:
    return new


def cases(kind: str) -> list[Case]:
    """The changes to a folder of this kind; the same in every run."""
    rng = random.Random(kind)
    best, step = "checkpoints/best.json", "checkpoints/step-*.json"
    found: list[Case] = []
    if kind == "static":
        for pattern, free in (("settings.toml", True), ("run.json", False), ("entities.txt", False),
                              ("relations.txt", False), ("facts.safetensors", False), ("records.jsonl", True),
                              (best, True), ("checkpoints/best-*.safetensors", False), (".lock", True)):  # fmt: skip
            found += file_changes(pattern, free)
            if pattern != ".lock":
                found += flips(pattern, free, rng)
        found += keys("run.json", GRAPH_KEYS, rng, count=5)
        found += keys(best, [*PAIR_KEYS, "state/epoch"], rng)
        found += [Case(f"settings: {toml[:40]!r}", settings(toml), True) for toml in SETTINGS]
        found += [
            Case(f"record: {record if isinstance(record, bytes) else json.dumps(record)!s:.60}", line(record), True)
            for record in RECORDS
        ]
        found += names_and_facts()
        found += tables("best", "checkpoints/best-*.safetensors", "entity")
        found.append(swapped("entities.txt", "relations.txt"))
        found.append(swapped("checkpoints/best-*.safetensors", "checkpoints/step-*.safetensors"))
        found.append(Case("checkpoints is a link", elsewhere))
    if kind == "stopped":
        for pattern in (step, "checkpoints/step-*.safetensors", "labels.tsv", "types.tsv", "relation-labels.tsv"):
            found += file_changes(pattern, True)
            found += flips(pattern, True, rng)
        found += keys(step, [*PAIR_KEYS, "state/progress", "state/threads", *PROGRESS_KEYS], rng, count=2)
        found += tables("step-*", "checkpoints/step-*.safetensors", "model.entity")
        found += slots("adam", ("exp_avg", "exp_avg_sq", "step"))
        found.append(Case("labels of strangers", text("labels.tsv", lambda old: old + "nobody\tx\n"), True))
        found.append(Case("labels twice", text("labels.tsv", lambda old: old + old), True))
        found.append(Case("labels without a tab", text("labels.tsv", lambda _: "e001 one\n"), True))
        found.append(Case("labels with controls", text("labels.tsv", lambda _: "e001\t\x1b]0;x\x07\n"), True))
        many = json.dumps(["t"] * 200)
        for types in ("odd", "{}", '["odd", 3]', "[" * 10_000, '["\\ud800"]', many):
            whole = f"e001\t{types}\n"
            found.append(Case(f"types: {types[:20]}", text("types.tsv", partial(_instead, whole)), True))
        found.append(Case("descriptions of strangers", text("descriptions.tsv", lambda old: f"{old}nobody\tx\n"), True))
        found.append(Case("labels of strange relations", text("relation-labels.tsv", lambda _: "e001\tx\n"), True))
        found.append(Case("a label for each relation twice", text("relation-labels.tsv", lambda old: 9 * old), True))
    if kind == "dated":
        found += file_changes("times.txt", False)
        found += flips("times.txt", False, rng)
        found += keys("run.json", ["graph/times"], rng, count=8)
        found += dates()
        found += slots("adagrad", ("sum", "step"))
    if kind in ("int8", "sparse"):
        found += keys(best, [*PAIR_KEYS, "state/packed", "state/packed/format", "state/packed/dtype"], rng)
        found += packed(kind)
    return found


def settings(toml: str) -> Change:
    return text("settings.toml", lambda _: toml)


def elsewhere(folder: Path) -> None:
    (folder / "checkpoints").rename(folder.parent / "elsewhere")
    (folder / "checkpoints").symlink_to(folder.parent / "elsewhere")


def names_and_facts() -> list[Case]:
    def twice(old: str) -> str:
        first, second, rest = old.split("\n", 2)
        return f"{first}\n{first}\n{rest}" if second else old

    def turned(old: str) -> str:
        first, second, rest = old.split("\n", 2)
        return f"{second}\n{first}\n{rest}"

    return [
        Case("an entity twice", text("entities.txt", twice)),
        Case("entities out of order", text("entities.txt", turned)),
        Case("one entity more", text("entities.txt", lambda old: old + "zz\n")),
        Case("one entity less", text("entities.txt", lambda old: old.split("\n", 1)[1])),
        Case("an entity without an end", text("entities.txt", lambda old: old[:-1])),
        Case("a long name", text("entities.txt", lambda old: "a" * (2 << 20) + "\n" + old.split("\n", 1)[1])),
        Case("controls in a name", text("entities.txt", lambda old: "\x1b]0;x\x07\n" + old.split("\n", 1)[1])),
        Case("names of Latin-1", lambda folder: (folder / "entities.txt").write_bytes(b"\xe4\n" * 20)),
        *(Case(f"{split} {column} {value}", put(split, column, value))
          for split in SPLITS for column in (0, 1, 2) for value in (-1, 20, 2**31 - 1)),
        Case("facts of int64", facts(lambda found: found.update(train=found["train"].astype(np.int64)))),
        Case("facts of float32", facts(lambda found: found.update(train=found["train"].astype(np.float32)))),
        Case("facts of two columns", facts(lambda found: found.update(test=found["test"][:, :2]))),
        Case("facts of four columns", facts(lambda found: found.update(test=np.zeros((12, 4), dtype=np.int32)))),
        Case("facts of one dimension", facts(lambda found: found.update(valid=found["valid"].reshape(-1)))),
        Case("facts of no column", facts(lambda found: found.update(valid=np.zeros((12, 0), dtype=np.int32)))),
        Case("no facts to train on", facts(lambda found: found.update(train=found["train"][:0]))),
        Case("no test facts", facts(lambda found: found.update(test=found["test"][:0]))),
        *(Case(f"facts, header {at}", header("facts.safetensors", edit)) for at, edit in enumerate(LIES)),
    ]  # fmt: skip


def tables(name: str, pattern: str, entity: str) -> list[Case]:
    """Tables of a checkpoint that are not those of the settings."""
    path = f"checkpoints/{name}.json"

    def edit(what: str, change: Callable[[dict[str, Any]], object]) -> Case:
        return Case(f"{name}: {what}", tensors(path, change))

    return [
        edit("NaN", lambda found: found[entity].fill(np.nan)),
        edit("infinite", lambda found: found[entity].fill(np.inf)),
        edit("huge", lambda found: found[entity].fill(3e38)),
        edit("float64", lambda found: found.update({entity: found[entity].astype(np.float64)})),
        edit("float16", lambda found: found.update({entity: found[entity].astype(np.float16)})),
        edit("int32", lambda found: found.update({entity: found[entity].view(np.int32)})),
        edit("turned", lambda found: found.update({entity: found[entity].T})),
        edit("flat", lambda found: found.update({entity: found[entity].reshape(-1)})),
        edit("one row more", lambda found: found.update({entity: np.concatenate([found[entity], found[entity][:1]])})),
        edit("missing", lambda found: found.pop(entity)),
        edit("one more", lambda found: found.update(more=np.zeros(3, dtype=np.float32))),
        edit("one much larger", lambda found: found.update({"optimizer.x.y": np.zeros(8 << 20, dtype=np.float32)})),
        edit(
            "empty", lambda found: [found.pop(name) for name in list(found)] + [found.update(x=np.zeros(1, np.float32))]
        ),
        *(Case(f"{name}: header {at}", header(pattern, lie)) for at, lie in enumerate(LIES)),
    ]


def slots(optimizer: str, names: tuple[str, ...]) -> list[Case]:
    """The optimizer's state changed."""
    found, path = [], "checkpoints/step-*.json"
    for name in names:
        key = f"optimizer.entity.{name}"
        for what, change in (
            ("missing", lambda t, key=key: t.pop(key)),
            ("of another shape", lambda t, key=key: t.update({key: np.zeros((2, 2), dtype=np.float32)})),
            ("of another type", lambda t, key=key: t.update({key: t[key].astype(np.float16)})),
            ("of whole numbers", lambda t, key=key: t.update({key: t[key].astype(np.int64)})),
            ("of no dimension", lambda t, key=key: t.update({key: np.zeros((), dtype=np.float64)})),
            ("under another name", lambda t, key=key: t.update({f"{key}x": t.pop(key)})),
            ("of another table", lambda t, key=key: t.update({key.replace("entity", "moon"): t.pop(key)})),
            ("of NaN", lambda t, key=key: t.update({key: np.full_like(t[key], np.nan)})),
        ):  # fmt: skip
            found.append(Case(f"{optimizer}: {name} {what}", tensors(path, change), free=what == "of NaN"))
    return found


def dates() -> list[Case]:
    none = 8  # the id of no time
    edits: list[tuple[str, int, int]] = [("train", 3, -1), ("train", 4, none + 1), ("test", 3, 2**31 - 1)]
    return [
        *(Case(f"dated: {split} {column} {value}", put(split, column, value)) for split, column, value in edits),
        Case("dated: ends before it begins", facts(lambda found: found["train"].__setitem__((1, slice(3, 5)), (5, 2)))),
        Case("dated: begins at no time", facts(lambda found: found["train"].__setitem__((1, slice(3, 5)), (none, 2)))),
        Case("dated: ends at no time", facts(lambda found: found["train"].__setitem__((1, slice(3, 5)), (2, none)))),
        Case("dated: points", facts(lambda found: found.update({k: v[:, :4] for k, v in found.items()})), free=True),
        Case("dated: no times", facts(lambda found: found.update({k: v[:, :3] for k, v in found.items()}))),
        Case(
            "dated: six columns",
            facts(lambda found: found.update({k: np.column_stack([v, v[:, 0]]) for k, v in found.items()})),
        ),
        Case("dated: no time but none", text("times.txt", lambda _: "\n")),
        Case("dated: a time twice", text("times.txt", lambda old: old.split("\n")[0] + "\n" + old)),
        Case(
            "dated: a time in two spellings", text("times.txt", lambda old: old.replace("2014-01-02", "2014-01-01-##"))
        ),
        Case("dated: controls in a time", text("times.txt", lambda old: old.replace("2014-01-08", "\x1b]0;x\x07"))),
    ]


def packed(kind: str) -> list[Case]:
    """Packed tables that do not hold together."""
    path = "checkpoints/best.json"

    def edit(what: str, change: Callable[[dict[str, Any]], object]) -> Case:
        return Case(f"{kind}: {what}", tensors(path, change))

    found = [
        edit("no data", lambda t: t.pop("entity.data")),
        edit("data of int64", lambda t: t.update({"entity.data": t["entity.data"].astype(np.int64)})),
        edit("data of bool", lambda t: t.update({"entity.data": t["entity.data"].astype(np.bool_)})),
        edit("data of another shape", lambda t: t.update({"entity.data": t["entity.data"].reshape(-1, 1)})),
        edit("data without end", lambda t: t.update({"entity.data": t["entity.data"][:0]})),
        edit("one table more", lambda t: t.update({"moon.data": np.zeros(3, dtype=np.float32)})),
        edit("a name without a table", lambda t: t.update({".": np.zeros(3, dtype=np.float32)})),
        *(Case(f"{kind}: packed.format {value!r:.20}", retold(path, ("state", "packed", "format"), value))
          for value in (0, -1, 99, "1", True, 1.0, 10**30)),
        *(Case(f"{kind}: header {at}", header("checkpoints/best-*.safetensors", lie)) for at, lie in enumerate(LIES)),
    ]  # fmt: skip
    if kind == "int8":
        found += [
            edit("no scale", lambda t: t.pop("entity.scale")),
            edit("a scale of NaN", lambda t: t["entity.scale"].fill(np.nan)),
            edit("a scale of float64", lambda t: t.update({"entity.scale": t["entity.scale"].astype(np.float64)})),
            edit("a scale of two dimensions", lambda t: t.update({"entity.scale": t["entity.scale"].reshape(1, -1)})),
            edit("a short scale", lambda t: t.update({"entity.scale": t["entity.scale"][:3]})),
            edit("no relations", lambda t: t.pop("relations.data")),
        ]
    else:
        found += [
            edit("a column outside", lambda t: t["entity.indices"].__setitem__(0, 200)),
            edit("columns of int8", lambda t: t.update({"entity.indices": t["entity.indices"].astype(np.int8)})),
            edit("no columns", lambda t: t.pop("entity.indices")),
            edit("rows turned", lambda t: t.update({"entity.indptr": t["entity.indptr"][::-1]})),
            edit("rows too few", lambda t: t.update({"entity.indptr": t["entity.indptr"][:-1]})),
            edit("rows of nothing", lambda t: t.update({"entity.indptr": t["entity.indptr"][:0]})),
            edit("rows too long", lambda t: t["entity.indptr"].__setitem__(-1, 127)),
            edit("rows of floats", lambda t: t.update({"entity.indptr": t["entity.indptr"].astype(np.float32)})),
            edit("data of NaN", lambda t: t["entity.data"].fill(np.nan)),
            edit("relations of float64", lambda t: t.update(relations=t["relations"].astype(np.float64))),
        ]
    return found
