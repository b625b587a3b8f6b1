"""Config: everything that decides the numbers of a run, as frozen values <-> TOML.

Holds `Experiment` (all settings), its sections and components, and how older versions are read. An unknown key or a wrong type is
an error with its path and the known names. The options of model, regularizer, loss, candidates and optimizer are only read here:
their constructors check them. May touch `registry`, `text` and `types`.
"""

from dura.config.experiment import Component, Experiment
from dura.config.sections import GraphSettings, Header, Section, SmoothnessSettings, TermSettings, TrainingSettings
from dura.config.versions import VERSION

__all__ = [
    "VERSION",
    "Component",
    "Experiment",
    "GraphSettings",
    "Header",
    "Section",
    "SmoothnessSettings",
    "TermSettings",
    "TrainingSettings",
]
