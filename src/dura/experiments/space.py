"""Old name of `dura.sweeps.space`."""

from dura.experiments import moved
from dura.sweeps.space import Sweep

__all__ = ["Sweep"]

moved(__name__, "dura.sweeps.space")
