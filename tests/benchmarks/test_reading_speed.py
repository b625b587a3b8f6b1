"""The measurement of reading runs on a few facts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "reading.py"


@pytest.mark.slow
def test_kinds_are_read(tmp_path: Path) -> None:
    kinds = ["parquet", "nt.gz"]
    order = [sys.executable, str(SCRIPT), "--scale", "0.001", "--out", str(tmp_path / "a.json"), "--only", *kinds]
    subprocess.run(order, check=True, capture_output=True)
    rows = json.loads((tmp_path / "a.json").read_text("utf-8"))["rows"]
    assert [row["kind"] for row in rows if row["work"] == "sheet"] == kinds
    assert all(row["lines_per_second"] > 0 and row["peak_mb"] >= 0 for row in rows)
