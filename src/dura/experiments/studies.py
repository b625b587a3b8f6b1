"""Old name of `dura.studies.studies`."""

from dura.experiments import moved
from dura.studies.studies import categories, projection

__all__ = ["categories", "projection"]

moved(__name__, "dura.studies.studies")
