"""Time to quality: every system writes rising curves on its own clock, and a plot's JSON says when a target was reached."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from dura.models import MODELS
from graphs import random_graph

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = ["--rank", "20", "--batch", "100", "--threads", "1"]


@pytest.fixture
def quality(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    threads = torch.get_num_threads()
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("quality")
    torch.set_num_threads(threads)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(points: list[dict[str, Any]]) -> None:
    assert len(points) >= 2
    for key in ("seconds", "epoch"):
        assert all(a[key] < b[key] for a, b in pairwise(points))
    best = max(points, key=lambda point: float(point["test_mrr"]))
    assert points[0]["test_mrr"] < best["test_mrr"]
    assert best["test_mrr"] > 0.6 and abs(best["test_mrr"] - best["valid_mrr"]) < 0.06


@pytest.mark.parametrize("system", ["dura", "literal", "pykeen"])
def test_a_run_writes_what_it_is_and_then_rising_results(quality: Any, system: str, tmp_path: Path) -> None:
    if system == "pykeen" and find_spec("pykeen") is None:
        pytest.skip("PyKEEN is not installed")
    out = tmp_path / "run.jsonl"
    quality.main(["run", system, "umls", "--minutes", "0.015", "--points", "20", "--out", str(out), *SMALL])
    about, *points = lines(out)
    assert (about["system"], about["graph"], about["machine"]["threads"]) == (system, "umls", 1)
    check(points)
    assert points[0]["seconds"] >= 0.045 and points[-1]["seconds"] >= 0.9


def test_whole_commands_are_points_at_the_time_they_took(quality: Any, tmp_path: Path) -> None:
    out = tmp_path / "command.jsonl"
    quality.main(["command", "nations", "--minutes", "0.17", "0.2", "--out", str(out)])
    (run,) = quality.read([out], 0.5)
    assert [point["system"] for point in run["points"]] == ["command"] * 2
    assert all(point["seconds"] > 1 and point["test_mrr"] > 0.6 for point in run["points"])
    assert run["minutes_to_target"] == run["points"][0]["seconds"] / 60


def test_sampled_runs_stand_in_one_file(quality: Any, tmp_path: Path) -> None:
    out = tmp_path / "sampled.jsonl"
    quality.main(["sampled", "umls", "--samples", "0", "40", "--minutes", "0.01", "--out", str(out), *SMALL])
    whole, some = quality.read([out], None)
    assert (whole["label"], some["label"]) == ("1-vs-all", "40 samples, uniform")
    assert whole["settings"]["candidates"] == {"name": "all"}
    assert some["settings"]["candidates"] == {"name": "sample", "samples": 40, "draw": "uniform"}
    check(whole["points"])
    check(some["points"])


def test_the_clock_stands_still_during_evaluation(
    quality: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, now = random_graph(), [0.0]
    monkeypatch.setattr(quality.time, "perf_counter", lambda: now[0])

    def slow() -> Any:
        now[0] += 1000.0
        return MODELS.build("complex", {"rank": 2}, graph.sizes)

    curve = quality.Curve(tmp_path / "c.jsonl", "dura", graph, slow, seconds=10.0, points=4)
    now[0] = 77.0  # building takes time, too
    curve.start()
    with pytest.raises(quality.Spent):
        for done in range(1, 100):
            now[0] += 1.0
            curve.step(done / 5)
    assert [point["seconds"] for point in lines(tmp_path / "c.jsonl")] == [3.0, 6.0, 9.0, 12.0]
    assert [point["epoch"] for point in lines(tmp_path / "c.jsonl")] == [0.6, 1.2, 1.8, 2.4]


def test_a_plot_tells_when_the_target_was_reached(quality: Any, tmp_path: Path) -> None:
    files = []
    for label, rate in (("fast", 0.1), ("slow", 0.01)):
        about = {"label": label, "system": "dura", "graph": "umls", "minutes": 5, "machine": {}}
        points = [{"seconds": 60.0 * i, "epoch": i, "valid_mrr": 0.0, "test_mrr": i * rate} for i in range(1, 6)]
        files.append(tmp_path / f"{label}.jsonl")
        files[-1].write_text("".join(json.dumps(line) + "\n" for line in [about, *points]))
    png, document = tmp_path / "q.png", tmp_path / "q.json"
    quality.main(["plot", *map(str, files), "--target", ".35", "--out", str(png), "--json", str(document)])
    written = json.loads(document.read_text())
    assert written["machine"]["cores"] and written["target"] == 0.35
    assert [(run["label"], run["minutes_to_target"], len(run["points"])) for run in written["runs"]] == [
        ("fast", 4.0, 5),
        ("slow", None, 5),
    ]
    assert [quality.legend(run, 0.35) for run in written["runs"]] == ["fast: 4.0 min", "slow: not reached in 5 min"]
    assert png.exists() == (find_spec("matplotlib") is not None)


def test_what_is_wrong_is_one_sentence(quality: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "x.jsonl")
    with pytest.raises(SystemExit, match="quality: 'epochs' is not a setting; .*did you mean 'training.epochs'"):
        quality.main(["run", "dura", "umls", "--set", "epochs=3", "--minutes", "1", "--out", out])
    Path(out).write_text("")
    with pytest.raises(SystemExit, match="quality: these files hold no results yet"):
        quality.main(["plot", out, "--out", "q.png", "--json", "q.json"])
