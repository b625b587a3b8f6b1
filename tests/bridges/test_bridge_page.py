"""The code of docs/how-to/pykeen.md runs, block after block."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.filterwarnings("default")
def test_the_code_of_the_page_runs() -> None:
    pytest.importorskip("pykeen", reason="PyKEEN is not installed; `make bridge` has it")
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "pykeen.md").read_text("utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)).replace(
        '"num_epochs": 15', '"num_epochs": 1'
    )
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    mrr, *answers = printed.getvalue().splitlines()
    assert 0 < float(mrr) < 1
    assert answers
    assert names["factory"].num_triples == len(names["trained"].graph.train)
