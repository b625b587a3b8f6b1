"""UMLS, Kinships and Nations: every model × regularizer, the weight tuned on valid, the test figures of the best.

python benchmarks/small_graphs.py --tune     # tries the weights, writes the presets (about half an hour on 2 cores)
python benchmarks/small_graphs.py            # runs the presets and prints docs/results' table
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import dura
from dura.config import preset
from dura.data.graph import Graph
from dura.experiments.api import choose
from dura.experiments.run import train

GRAPHS = ("umls", "kinships", "nations")
MODELS = {"cp": 100, "complex": 100, "rescal": 50}
WEIGHTS = {
    "none": (None,),
    "fro": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "n3": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "dura": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
}
PRESETS = Path(__file__).parent.parent / "src" / "dura" / "presets"
TABLE = Path(__file__).parent.parent / "docs" / "results" / "small_graphs.json"


def cells() -> list[tuple[str, str]]:
    return [
        (model, regularizer)
        for model in MODELS
        for regularizer in WEIGHTS
        if not (model == "rescal" and regularizer == "n3")
    ]


def tune(name: str, graph: Graph, model: str, regularizer: str) -> None:
    """Write the preset of one cell with the weight that is best on valid."""
    best: tuple[float, Any] = (-1.0, None)
    for weight in WEIGHTS[regularizer]:
        settings: dict[str, Any] = {"training.validate_every": 2}
        if weight is not None:
            settings["regularizer.weight"] = weight
        experiment = choose(
            None,
            graph=name,
            model=model,
            rank=MODELS[model],
            regularizer=regularizer,
            epochs=100,
            batch=100,
            settings=settings,
        )
        mrr = train(experiment, graph).evaluate("valid").mrr
        print(f"{name} {model} {regularizer} {weight}: valid MRR {mrr:.4f}", flush=True)
        if mrr > best[0]:
            best = (mrr, experiment)
    data = best[1].to_dict()
    del data["graph"]
    data["training"] = {key: data["training"][key] for key in ("epochs", "batch", "validate_every")}
    test = train(best[1], graph).evaluate("test")
    expected = {
        "mrr": round(test.mrr, 3),
        "source": f"one seed, the weight tuned on valid among {list(WEIGHTS[regularizer])}",
    }
    if regularizer == "none":
        expected["source"] = "one seed"
    write(PRESETS / name / f"{model}-{regularizer}.toml", {**data, "graph": {"source": name}, "expected": expected})


def write(path: Path, data: dict[str, Any]) -> None:
    import tomli_w

    order = ("version", "graph", "model", "regularizer", "objective", "optimizer", "training", "expected")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        tomli_w.dumps({key: data[key] for key in order if key in data and key not in ("objective", "optimizer")})
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tune", action="store_true", help="tune on valid and write the presets that are not there yet"
    )
    parser.add_argument("--graph", choices=GRAPHS, nargs="*", default=list(GRAPHS))
    arguments = parser.parse_args()
    rows = []
    for name in arguments.graph:
        graph = dura.load(name)
        for model, regularizer in cells():
            if arguments.tune and not (PRESETS / name / f"{model}-{regularizer}.toml").exists():
                tune(name, graph, model, regularizer)
            experiment = preset(f"{name}/{model}-{regularizer}")
            m = train(experiment, graph).evaluate("test").metrics
            weight = experiment.regularizer.options.get("weight", "")
            rows.append({"graph": name, "model": model, "regularizer": regularizer, "weight": weight, **m.to_dict()})
            figures = " | ".join(f"{value:.3f}" for value in (m.mrr, m.hits[1], m.hits[3], m.hits[10]))
            print(f"| {name} | {model} | {regularizer} | {weight} | {figures} |", flush=True)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
