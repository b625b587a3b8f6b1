"""dura: knowledge graph completion with the duality-induced regularizer.

>>> import dura
>>> graph = dura.load("umls")
>>> model = dura.fit(graph, model="complex", rank=100, regularizer="dura")  # doctest: +SKIP
>>> model.evaluate()  # doctest: +SKIP
>>> model.predict(head="steroid", relation="affects", k=3)  # doctest: +SKIP

The names below are public; importing `dura` imports neither torch nor polars.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dura.types import BadInput, DuraError, __version__

if TYPE_CHECKING:
    from dura.config import Experiment
    from dura.data.graph import Graph
    from dura.runs.api import fit, from_facts, load, open, read  # noqa: A004
    from dura.runs.combining import combine
    from dura.runs.trackers import Tracker
    from dura.runs.trained import Trained
    from dura.sweeps.timed import sweep

__all__ = [
    "BadInput",
    "DuraError",
    "Experiment",
    "Graph",
    "Tracker",
    "Trained",
    "__version__",
    "combine",
    "fit",
    "from_facts",
    "load",
    "open",
    "read",
    "sweep",
]

_HOMES = {
    "Experiment": "dura.config",
    "Graph": "dura.data.graph",
    "Tracker": "dura.runs.trackers",
    "Trained": "dura.runs.trained",
    "combine": "dura.runs.combining",
    "fit": "dura.runs.api",
    "from_facts": "dura.runs.api",
    "load": "dura.runs.api",
    "open": "dura.runs.api",
    "read": "dura.runs.api",
    "sweep": "dura.sweeps.timed",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dura' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
