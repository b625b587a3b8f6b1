"""Old name of what is now `dura.studies.categories` and `dura.studies.projection`."""

from dura.experiments import moved
from dura.studies.categories import compute as categories
from dura.studies.projection import compute as projection

__all__ = ["categories", "projection"]

moved(__name__, "dura.studies")
