"""Compare the speed of dura, the paper's literal loop (reference.py), PyKEEN (rival.py) and the bare matrix products.

    python benchmarks/speed.py                       # the short form: about four minutes on two idle cores
    python benchmarks/speed.py --full                # every model, rank and size: about an hour
    python benchmarks/speed.py --parts training startup --out benchmarks/out

After a round that warms up, everything is measured in rounds, and each competitor has one turn per round. Results are medians with
their spread, (max - min) / median. Ratios are taken round by round. The graphs are FB15k-237 and WN18RR if they are on this machine
(DURA_DATA, or `dura data get`), otherwise synthetic graphs of the same shape.

Prints one table per part, writes speed.json and plots, and says at the end which bars (the speeds that we want) were reached. The
exit code is 0 in any case, because timings are noisy.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import dura
import measure
from dura.data.graph import Graph
from dura.data.questions import reciprocal
from dura.evaluation import metrics, rank
from dura.models import MODELS
from growth import RANKED, Row, dated, growth, memory, startup
from measure import Measured, Options, Work, console, fastest, interleaved, paced, ratio, show
from rival import Rival, load, version
from turns import (
    BOUND_BLOCKS,
    MISSING,
    STEPS,
    Shape,
    bare_turns,
    drawn_facts,
    facts_in,
    graph_of,
    one_product,
    stepping,
    trainer_of,
    training_turns,
)

LINES, RANKED_BY_PYKEEN = 1_000_000, 256
PYKEEN = version() or MISSING
BLOCKS = (64, 128, 256, 512)


def training(options: Options) -> list[Row]:
    """Facts per second; reciprocal facts are counted."""
    first, *others = graphs = [graph_of(name, options.scale) for name in options.data]
    cells = [(first, "complex", 200), (first, "complex", 500), (first, "rescal", 200)]
    cells += [(graph, "complex", 100) for graph in others]
    if options.full:
        sizes, models = (100, 200, 500, 1000), ("cp", "complex", "rescal")
        cells = [(g, model, size) for g in graphs for model in models for size in sizes]
    rows = [training_row(*cell, options) for cell in cells]
    chosen = [f"{row['graph']} {row['model']} {row['rank']}: {row['best of']}" for row in rows if "best of" in row]
    show(
        "training, facts per second (reciprocal facts are counted)",
        rows,
        [
            "dura: with DURA, the better of batches of 1000 and 2000 questions",
            "literal: the paper's loop in plain torch, with DURA, the better of batches of 500 and 1000 facts",
            f"PyKEEN: {PYKEEN}; LCWA, the best of its batches of 500, 1000 and 2000 questions, with its own regularizer (CP: none)",
            "bound: the three matrix products of a step alone, the better of the same batches",
            *(f"best of {line}" for line in chosen),
        ],
        hidden=("best of",),
    )
    measured = [row for row in rows if "× literal" in row]
    groups = {
        f"{row['graph']}\n{row['model']} {row['rank']}": {
            f"times {who}": row[f"× {who}"].median for who in ("literal", "PyKEEN") if row[f"× {who}"]
        }
        for row in measured
    }
    measure.draw_bars(
        options.out / "training.png", groups, "Training: facts per second of dura", "multiple of the other"
    )
    return rows


def training_row(graph: Graph, name: str, size: int, options: Options) -> Row:
    """All competitors train this model on this graph."""
    row: Row = {"graph": graph.name, "model": name, "rank": size}
    console.print(f"training {graph.name} {name} {size} …", style="dim", highlight=False)
    turns, absent = training_turns(graph, name, size)
    if "dura" in absent:
        return row | {"dura": absent["dura"]}
    paces = options.rounds(turns, 10)
    best = [fastest(paces, "dura")]
    mine = paces[best[0]]
    row["dura"] = Measured.of(mine)
    for who, unit, title in (("literal", 1.0, "× literal"), ("PyKEEN", 1.0, "× PyKEEN"), ("bound", 0.01, "% of bound")):
        winner = fastest(paces, who)
        row[who] = Measured.of(paces[winner]) if winner else absent[who]
        row[title] = ratio(mine, paces[winner], unit) if winner else None
        best += [winner] if winner else []
    del turns
    gc.collect()
    return row | {"best of": "; ".join(best)}


def blocks(options: Options) -> list[Row]:
    """The time of a step by block size, compared with the bound."""
    graph = graph_of(options.data[0], options.scale)
    facts = facts_in(graph.questions, 1)
    trainers = {"auto": None} | {str(block): block for block in BLOCKS}
    works = {
        name: paced(STEPS * facts, stepping(trainer_of("complex", graph.sizes, graph.questions, 200, block)))
        for name, block in trainers.items()
    }
    bare = bare_turns(graph, "complex", 200)
    paces = options.rounds(works | bare, 5)
    bound = paces[fastest(paces, "bound")]
    rows = [
        {
            "block": name,
            "ms a step": 1e3 * facts / Measured.of(paces[name]).median,
            "% of bound": ratio(paces[name], bound, 0.01),
        }
        for name in works
    ]
    show(f"time of a step by block size: {graph.name}, ComplEx, rank 200", rows)
    return rows


def evaluation(options: Options) -> list[Row]:
    """Filtered ranking, in questions per second."""
    sizes = (100, 200, 500, 1000) if options.full else (200,)
    graphs = [graph_of(name, options.scale) for name in options.data]
    rows = [evaluation_row(graph, size, options) for graph in graphs for size in sizes]
    show(
        "filtered evaluation, questions per second (two per fact), ComplEx",
        rows,
        [
            "bound: the product of the distinct questions with all entities, in blocks; all: the same for all questions",
            f"PyKEEN: {PYKEEN}; its best batch of 32, 128 and 256 facts, no slicing, {RANKED_BY_PYKEEN} facts per turn",
            *(
                f"{r['graph']} {r['rank']}: MRR of those facts {r['MRR']}, by PyKEEN {r['MRR of PyKEEN']}"
                for r in rows
                if r["MRR"]
            ),
        ],
        hidden=("MRR", "MRR of PyKEEN"),
    )
    return rows


def evaluation_row(graph: Graph, size: int, options: Options) -> Row:
    """dura, PyKEEN and the bare product on the same tables."""
    relations, rng = len(graph.relations), np.random.default_rng(0)
    facts = graph.test[rng.permutation(len(graph.test))[:RANKED]]
    some, others = facts[:RANKED_BY_PYKEEN], [graph.train, graph.valid, graph.test]
    console.print(f"evaluation {graph.name} complex {size} …", style="dim", highlight=False)
    rival = None if version() is None else Rival("complex", graph.sizes, graph.train, size)
    model = MODELS.build("complex", {"rank": size, "init_scale": 0.1}, graph.sizes) if rival is None else rival.tables()
    asked = np.concatenate([facts, reciprocal(facts, relations)])[:, :2]
    distinct, table = len(np.unique(asked, axis=0)), model.state()["entity"]
    row: Row = {"graph": graph.name, "rank": size, "questions": len(asked), "distinct": distinct}
    works: dict[str, Work] = {"dura": paced(len(asked), lambda: rank(model, facts, graph.known, relations))}
    for block in BOUND_BLOCKS:
        works[f"bound, blocks of {block}"] = paced(len(asked), one_product(distinct, table, block))
    works["all"] = paced(len(asked), one_product(len(asked), table, BOUND_BLOCKS[-1]))
    if rival is not None:
        batch = rival.ranking_batch(some, others)
        works["PyKEEN"] = lambda: rival.rank(some, others, batch)[0]
    paces = options.rounds(works, 8)
    bound = fastest(paces, "bound")
    row |= {"dura": Measured.of(paces["dura"]), "bound": Measured.of(paces[bound])}
    row |= {
        "% of bound": ratio(paces["dura"], paces[bound], 0.01),
        "% of all": ratio(paces["dura"], paces["all"], 0.01),
    }
    if rival is None:
        return row | {"PyKEEN": MISSING, "× PyKEEN": None, "MRR": None, "MRR of PyKEEN": None}
    theirs, ours = rival.rank(some, others, batch)[1], metrics(rank(model, some, graph.known, relations)).mrr
    row |= {"PyKEEN": Measured.of(paces["PyKEEN"]), "× PyKEEN": ratio(paces["dura"], paces["PyKEEN"])}
    return row | {"MRR": round(ours, 6), "MRR of PyKEEN": round(theirs, 6)}


def loading(options: Options) -> list[Row]:
    """Read a file of facts into arrays of ids."""
    lines = options.size(LINES)
    facts = drawn_facts(Shape(options.size(100_000), 200, (lines, 0, 0)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.tsv"
        with path.open("w", encoding="utf-8") as file:
            heads, names, tails = (facts[:, i].tolist() for i in range(3))
            file.writelines(f"entity/{h}\tis/{r}\tentity/{t}\n" for h, r, t in zip(heads, names, tails, strict=True))
        works = {"dura": paced(len(facts), lambda: dura.read(path, valid_share=0, test_share=0))}
        if version() is not None:
            works["PyKEEN"] = paced(len(facts), lambda: load(path))
        paces = interleaved(works, repeat=5 if options.full else 2, seconds=30, least=2)
    rows = [
        {"reader": name, "lines": len(facts), "lines a second": Measured.of(paces[name]),
         "dura is faster by": ratio(paces["dura"], paces[name])}
        for name in works
    ]  # fmt: skip
    show("loading: from a file of tab-separated names to arrays of ids", rows)
    return rows


PARTS: dict[str, Callable[[Options], list[Row]]] = {
    "training": training,
    "blocks": blocks,
    "evaluation": evaluation,
    "loading": loading,
    "memory": memory,
    "growth": growth,
    "dated": dated,
    "startup": startup,
}
LONG_ONLY = ("blocks", "dated")
"""Parts that the short form leaves out."""


def bars(parts: dict[str, list[Row]]) -> list[Row]:
    """The bars, which are the speeds that we want, each with the worst result among its rows."""
    trained = [row for row in parts.get("training", []) if isinstance(row["dura"], Measured)]
    ranked, started = parts.get("evaluation", []), parts.get("startup", [])
    fb = [row for row in trained if row["graph"].startswith("fb15k-237")]
    wide, wide_ranked = ([row for row in rows if row["rank"] >= 200] for rows in (trained, ranked))
    beyond = [beyond_tables(kind, parts.get("memory", [])) for kind in ("training", "evaluation") if "memory" in parts]
    wanted: list[tuple[str, float, list[Row], str, bool]] = [
        ("training × literal, FB15k-237, rank 200", 5, [r for r in fb if r["rank"] == 200], "× literal", True),
        ("training × literal, FB15k-237, rank 500", 5, [r for r in fb if r["rank"] == 500], "× literal", True),
        ("training × PyKEEN, ComplEx", 3, [r for r in trained if r["model"] == "complex"], "× PyKEEN", True),
        ("training, % of the bare products, rank ≥ 200", 80, wide, "% of bound", True),
        ("evaluation × PyKEEN", 8, ranked, "× PyKEEN", True),
        ("evaluation, % of the bare product, rank ≥ 200", 75, wide_ranked, "% of bound", True),
        ("import dura, seconds", 0.5, started[1:2], "seconds", False),
        ("dura --help, seconds", 0.5, started[2:3], "seconds", False),
        ("memory beyond the tables / (questions × entities)", 0.5, beyond, "share", False),
    ]
    return [bar(*one) for one in wanted]


def beyond_tables(kind: str, rows: list[Row]) -> Row:
    """Memory in addition to the tables, as a share of a matrix questions × entities; from fewest to most entities."""
    few, *_, many = (row for row in rows if row["work"] == kind)
    tables, held, matrix = (many[key] - few[key] for key in ("tables", "peak", "questions × entities"))
    return {"program": kind, "entities": many["entities"], "share": (held - tables) / matrix}


def bar(name: str, limit: float, rows: list[Row], key: str, at_least: bool) -> Row:
    """One bar with the worst of its results."""
    found = [(row, row[key]) for row in rows if row[key] is not None]
    results = [(value.median if isinstance(value, Measured) else value, row) for row, value in found]
    wanted = f"{'≥' if at_least else '≤'} {limit:g}"
    if not results:
        return {"bar": name, "wanted": wanted, "measured": None, "reached": "not measured", "worst of": ""}
    worst, row = (min if at_least else max)(results, key=lambda pair: pair[0])
    reached = worst >= limit if at_least else worst <= limit
    where = " ".join(str(row[key]) for key in ("graph", "model", "rank", "entities", "program") if key in row)
    rest = f"{where} ({len(results)} row{'s' if len(results) > 1 else ''})"
    return {"bar": name, "wanted": wanted, "measured": worst, "reached": "yes" if reached else "no", "worst of": rest}


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, help="which parts (default: all; blocks and dated in the long form only)"
    )
    parser.add_argument("--full", action="store_true", help="all ranks, models and sizes")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "out", help="folder for speed.json and plots"
    )
    parser.add_argument("--data", nargs="+", default=["fb15k-237", "wn18rr"], help="graphs by name")
    parser.add_argument("--scale", type=float, default=1.0, help="smaller synthetic graphs, to try the program itself")
    given = parser.parse_args()
    options = Options(given.full, given.scale, given.data, given.out)
    # As in `dura train`, but for all competitors. It must be set before torch starts its threads.
    torch.set_flush_denormal(True)
    facts = measure.machine()
    console.print(f"{facts['processor']}, {facts['threads']} threads, torch {facts['torch']}, load {facts['load']}\n")
    parts: dict[str, list[Row]] = {}
    for name in given.parts or [part for part in PARTS if options.full or part not in LONG_ONLY]:
        parts[name] = PARTS[name](options)
        document = {"full": options.full, "scale": options.scale, "parts": parts, "bars": bars(parts)}
        measure.write(options.out / "speed.json", document)  # after each part, because a run may be stopped
    show("bars: each with its worst row", bars(parts))


if __name__ == "__main__":
    main()
