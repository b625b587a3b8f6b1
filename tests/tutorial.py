"""The tutorial's facts about cities, made by the program that the page shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.md"


def tutorial_facts(folder: Path) -> Path:
    """Write the tutorial's facts.tsv into a folder."""
    (program,) = [
        code for code in re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(), re.S) if "countries" in code
    ]
    (folder / "make_facts.py").write_text(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        runpy.run_path("make_facts.py")
    return folder / "facts.tsv"
