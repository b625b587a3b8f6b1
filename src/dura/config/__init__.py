"""Config: everything that decides the numbers of a run, as frozen values <-> TOML.

Holds `Experiment` (all settings), its sections and components, and how older versions are read. An unknown key or a wrong type is
an error with its path and the known names. The options of model, regularizer, loss, candidates and optimizer are only read here:
their constructors check them. May touch `registry`, `text` and `types`. To add a setting of a graph or of training, write a field
with its default and its range in `sections`; a setting of a component is a parameter of its constructor.
"""

from dura.config.experiment import Component, Experiment
from dura.config.sections import (
    GraphSettings,
    Header,
    Section,
    SmoothnessSettings,
    TermSettings,
    TrainingSettings,
    WorldSettings,
)
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
    "WorldSettings",
]
