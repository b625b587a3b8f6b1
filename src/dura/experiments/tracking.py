"""Old name of `dura.runs.trackers`."""

from dura.experiments import moved
from dura.runs.trackers import TRACKERS, TrackedRun, Tracker

__all__ = ["TRACKERS", "TrackedRun", "Tracker"]

moved(__name__, "dura.runs.trackers; Tracker is also dura.Tracker")
