"""Full size: record runs of headline presets, with their curves, and draw them.

    dura reproduce headline --only icews14 --out reproduce
    python benchmarks/headline.py reproduce/runs/*
    python benchmarks/headline.py --figure docs/results/headline.png
    python benchmarks/headline.py --sheet

A run must have ended and been evaluated on test. It becomes a line of docs/results/headline.csv, from which the bands of presets
follow, and a curve in docs/results/headline.json: minutes of steps and valid MRR. A run whose settings are not those of its preset
is only recorded as a curve, with what it changed. `--sheet` prints the table of docs/results/full-size.md.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path
from typing import Any

from dura.records import RunFolder, write_atomic
from dura.runs.build import complete
from dura.runs.presets import preset, presets
from dura.runs.store import read_settings
from dura.sheets.figures import GREY, curves, panels, save
from dura.types import BadInput

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
NAMES = {
    "fb15k-237": "FB15k-237",
    "wn18rr": "WN18RR",
    "icews14": "ICEWS14",
    "icews05-15": "ICEWS05-15",
    "yago15k": "YAGO15k",
}
COLUMNS = ("preset", "seed", "mrr", "hits@1", "hits@10", "valid_mrr", "epochs", "minutes")
FREE = tuple(
    f"training.{key}" for key in ("seed", "device", "threads", "validate_every", "checkpoint_every", "precision")
)
"""Settings that a run may change without becoming another row. The precision of a preset is that of the machine."""


def recorded(path: Path) -> dict[str, Any]:
    """What is kept of one run."""
    folder = RunFolder.open(path)
    settings, records = read_settings(folder).by_path(), list(folder.records())
    name = f"{settings['graph.source']}/{settings['model.name']}-{settings['regularizer.name']}-headline"
    if name not in presets():
        raise BadInput(f"{path} is no run of a headline preset: there is no {name}")
    tests = [r for r in records if r["kind"] == "evaluation" and r["split"] == "test"]
    if not tests or not any(r["kind"] == "end" for r in records):
        raise BadInput(f"{path} has not ended, or was not evaluated; run dura train --resume, then dura evaluate")
    own = complete(preset(name)).by_path()
    changed = {key: value for key, value in settings.items() if key in own and own[key] != value and key not in FREE}
    validated = [r for r in records if r["kind"] == "epoch" and "valid" in r]
    test, best = tests[-1], max(validated, key=lambda r: r["valid"]["mrr"])
    return {
        "preset": name,
        "changed": {key: value for key, value in changed.items() if not key.startswith(("graph.", "expected."))},
        "seed": settings["training.seed"],
        "mrr": round(test["mrr"], 4),
        "hits@1": round(test["hits"]["1"], 4),
        "hits@10": round(test["hits"]["10"], 4),
        "valid_mrr": round(best["valid"]["mrr"], 4),
        "epochs": settings["training.epochs"],
        "minutes": round(max(r["seconds"] for r in records if r["kind"] == "end") / 60),
        "curve": [[r["epoch"], round(r["seconds"] / 60, 1), round(r["valid"]["mrr"], 4)] for r in validated],
    }


def add(runs: list[Path]) -> None:
    """Write the runs into the record and the table. A run of the same preset, changes and seed replaces the one before."""
    file, table = RESULTS / "headline.json", RESULTS / "headline.csv"
    kept = {_key(row): row for row in (json.loads(file.read_text("utf-8")) if file.exists() else [])}
    rows = {(row["preset"], row["seed"]): row for row in csv.DictReader(table.read_text("utf-8").splitlines())}
    for path in runs:
        row = recorded(path)
        kept[_key(row)] = row
        if not row["changed"]:
            rows[row["preset"], str(row["seed"])] = {name: str(row[name]) for name in COLUMNS}
        print({name: value for name, value in row.items() if name != "curve"}, flush=True)
    write_atomic(file, (json.dumps([kept[key] for key in sorted(kept)], indent=1) + "\n").encode())
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[key] for key in sorted(rows))
    write_atomic(table, text.getvalue().encode())


def _key(row: dict[str, Any]) -> str:
    return json.dumps([row["preset"], row["changed"], row["seed"]])


def draw(out: Path) -> Path:
    """Valid MRR against minutes, one panel per graph. On the right of the curves are the paper's test MRRs of their rows."""
    rows = json.loads((RESULTS / "headline.json").read_text("utf-8"))
    graphs = [graph for graph in NAMES if any(row["preset"].startswith(f"{graph}/") for row in rows)]
    with panels(len(graphs), height=4.6) as (drawn, places):
        for panel, graph in zip(places, graphs, strict=True):
            own = [row for row in rows if row["preset"].startswith(f"{graph}/")]
            lines = {_title(row): ([m for _, m, _ in row["curve"]], [mrr for *_, mrr in row["curve"]]) for row in own}
            curves(panel, lines, x="minutes of steps, one thread", y="valid MRR", title=NAMES[graph])
            end = 1.08 * max(minutes[-1] for minutes, _ in lines.values())
            colours = [line.get_color() for line in panel.get_lines()]
            for i, (row, colour) in enumerate(zip(own, colours, strict=True)):
                published = preset(row["preset"].removesuffix("-headline")).expected["mrr"]
                at = end * (1 + 0.04 * i)  # one next to the other: equal numbers would hide each other
                panel.plot([at], [published], marker="_", markersize=8, markeredgewidth=2, color=colour)
            panel.plot([], [], marker="_", markersize=8, ls="none", color=GREY, label="the paper, on test")
            panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.16), frameon=False)
        return save(drawn, out)


def _title(row: dict[str, Any]) -> str:
    changed = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in row["changed"].items())
    cell = preset(row["preset"]).expected
    name = str(cell["system"])
    name = f"{name}, no regularizer" if "-" not in name else name.replace("-", ", ")
    return f"{name}, {changed}" if changed else name


def sheet() -> str:
    """The rows in Markdown, the best of each model first, next to those of the paper."""
    kept = csv.DictReader((RESULTS / "headline.csv").read_text("utf-8").splitlines())
    rows = [(preset(row["preset"]), row) for row in kept if row["seed"] == "0"]
    order = list(NAMES), ["complex", "cp", "rescal", "tcomplex", "trescal"]
    rows.sort(key=lambda r: (order[0].index(r[0].graph.source), order[1].index(r[0].model.name), -float(r[1]["mrr"])))
    titles = (
        "graph | model | regularizer | rank | epochs | minutes | valid MRR | MRR | Hits@1 | Hits@10 "
        "| the paper's MRR | difference | command"
    )
    lines = [f"| {titles} |", "|---" * (titles.count("|") + 1) + "|"]
    for one, row in rows:
        system, _, regularizer = str(one.expected["system"]).partition("-")
        paper = float(preset(row["preset"].removesuffix("-headline")).expected["mrr"])
        hits = " | ".join(f"{float(row[key]):.4f}" for key in ("valid_mrr", "mrr", "hits@1", "hits@10"))
        cells = (
            NAMES[one.graph.source],
            system,
            regularizer or "none",
            str(one.model.options["rank"]),
            row["epochs"],
            row["minutes"],
            hits,
            f"{paper:.{2 if one.smoothness.weight else 3}f}".lstrip("0"),  # as the paper has it
            f"{float(row['mrr']) - paper:+.3f}".replace("0.", "."),
            f"`dura train {row['preset']}`",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Record, then draw, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--sheet", action="store_true")
    given = parser.parse_args()
    if given.runs:
        add(given.runs)
    if given.figure:
        draw(given.figure)
    if given.sheet:
        print(sheet())


if __name__ == "__main__":
    main()
