"""Old name of `dura.runs.presets`."""

from dura.experiments import moved
from dura.runs.presets import preset, presets

__all__ = ["preset", "presets"]

moved(__name__, "dura.runs.presets")
