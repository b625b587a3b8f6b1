"""Names that the documents of version 0.1 gave still work, and say where they are now."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

import dura
from dura.runs.presets import preset
from dura.runs.trackers import TrackedRun, Tracker
from dura.studies.categories import compute as categories
from dura.studies.projection import compute as projection
from dura.sweeps.space import Sweep
from dura.sweeps.sweep import sweep

OLD: dict[str, dict[str, Any]] = {
    "tracking": {"Tracker": Tracker, "TrackedRun": TrackedRun},
    "presets": {"preset": preset},
    "space": {"Sweep": Sweep},
    "sweep": {"sweep": sweep},
    "studies": {"categories": categories, "projection": projection},
}


@pytest.mark.parametrize("module", OLD)
def test_an_old_name_is_the_new_thing_and_warns(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"dura.experiments.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match=rf"^{name} has moved to dura\.") as warned:
        found = importlib.import_module(name)
    assert {key: getattr(found, key) for key in OLD[module]} == OLD[module]
    assert "importlib" in warned[0].filename  # whoever imports it, here import_module
    new = str(warned[0].message).partition(" to ")[2].partition(";")[0]
    home = importlib.import_module(new)
    if module != "studies":  # its functions are now called `compute`, each in a module of the old function's name
        assert all(getattr(home, key) is value for key, value in OLD[module].items())


def test_the_warning_points_at_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "dura.experiments.tracking", raising=False)
    with pytest.warns(DeprecationWarning) as warned:
        from dura.experiments.tracking import Tracker as Old
    assert warned[0].filename == __file__
    assert Old is dura.Tracker
