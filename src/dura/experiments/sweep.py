"""Old name of `dura.sweeps.sweep`."""

from dura.experiments import moved
from dura.sweeps.sweep import sweep

__all__ = ["sweep"]

moved(__name__, "dura.sweeps.sweep")
