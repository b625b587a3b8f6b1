"""Mapping: a place in the plane for each entity of a run, kept in RUN/map.json.

Entities with similar rows are near each other. `dura map` makes the map by t-SNE. Where there is none, or one of other tables, a
PCA is computed at once.
"""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
import torch

from dura import world
from dura.analysis.layout import BEFORE, Progress, framed, neighbour_map, principal
from dura.data.entity_facts import fact_counts
from dura.inference.neighbours import entity_rows, unit
from dura.inference.predict import check_finite
from dura.records import Damage, Missing, read_json, remedy, write_atomic
from dura.records.schema import WHOLE, check
from dura.types import BadInput, FloatArray, IntArray, Notice

if TYPE_CHECKING:
    from dura.data.graph import Graph
    from dura.models import Model
    from dura.runs.trained import Trained

FILE, FORMAT = "map.json", 1
MOST = 50_000
"""At most this many entities are on a map: those with most facts."""
PERPLEXITY = 30.0
DIGITS = 4
Method = Literal["tsne", "pca"]
_PLACE = Annotated[float, -1, 1]
_SCHEMA = {
    "format": Annotated[int, 1, FORMAT],
    "method": str,
    "checkpoint": str,
    "entities": [WHOLE],
    "x": [_PLACE],
    "y": [_PLACE],
}


@dataclass(frozen=True)
class Map:
    """Where entities are. Item i of each column belongs to the entity with the id `entities[i]`; ids ascend."""

    method: Method
    entities: IntArray
    x: FloatArray
    y: FloatArray
    left_out: int = 0
    """How many entities of the graph are not on the map."""
    seconds: float = 0.0
    path: Path | None = None
    """The file that holds the map; None if it was only computed."""

    def __len__(self) -> int:
        return len(self.entities)

    def to_dict(self, graph: Graph) -> dict[str, Any]:
        """Plain values, ready for JSON: names, labels, types, places and numbers of facts, in columns."""
        names = graph.entities.names(self.entities.tolist())
        left = {"left_out": self.left_out} if self.left_out else {}
        return {
            "method": self.method,
            "entities": names,
            "labels": [graph.label(name) for name in names] if graph.labels else None,
            "types": [next(iter(graph.types(name)), None) for name in names] if graph.entity_types else None,
            "x": self.x.tolist(),
            "y": self.y.tolist(),
            "facts": fact_counts(graph)[0][self.entities].tolist(),
            **left,
        }


def make_map(
    trained: Trained,
    *,
    method: Method = "tsne",
    perplexity: float = PERPLEXITY,
    seed: int = 0,
    progress: Progress | None = None,
) -> Map:
    """Compute the map of a run and keep it in its folder, if it has one."""
    world.alone("a map")
    if method not in get_args(Method):
        raise BadInput(f"the method {method!r} is not known; the methods are tsne and pca")
    if not perplexity > 0:
        raise BadInput(f"the perplexity is {perplexity:g}, but it is a number of neighbours above 0, such as 30")
    began = time.perf_counter()
    entities = most_facts(trained.graph)
    flat = method == "pca" or len(entities) < 5  # t-SNE needs some neighbours
    places = _components(trained.model, entities, 2 if flat else BEFORE, seed)
    if not flat:
        places = neighbour_map(places, perplexity, seed, progress)
    done = _map("pca" if flat else "tsne", entities, places, trained, time.perf_counter() - began)
    if trained.path is not None:
        _write(done, trained.path, trained.checkpoint)
    trained.__dict__["_map"] = done
    return done


def find_map(trained: Trained) -> Map:
    """The stored map of a run. If there is none, or one of other tables, a PCA, which is not stored."""
    found = None if trained.path is None else read_map(trained)
    if found is not None:
        return found
    entities = most_facts(trained.graph)
    return _map("pca", entities, _components(trained.model, entities, 2), trained)


def read_map(trained: Trained) -> Map | None:
    """The stored map. None if there is none, or one of other tables; then a `Notice` says so."""
    assert trained.path is not None
    path, entities = trained.path / FILE, len(trained.graph.entities)
    again = f"make it again with: dura map {trained.path}"
    with remedy(again):
        try:
            found = read_json(trained.path, FILE)
            check(found, _SCHEMA)
            _check_columns(found)
        except Missing:
            return None
        except BadInput as error:
            raise Damage(f"{path} is damaged: {error}") from None
    ids = np.array(found["entities"], dtype=np.int64)
    if found["checkpoint"] != trained.checkpoint or ids.max(initial=0) >= entities:
        warnings.warn(f"{path} was made for other tables than those of this run; {again}", Notice, stacklevel=2)
        return None
    x, y = (np.array(found[axis], dtype=np.float64) for axis in "xy")
    return Map(found["method"], ids, x, y, entities - len(ids), path=path)


def most_facts(graph: Graph, most: int = MOST) -> IntArray:
    """The ids of the entities with most facts, ascending: all of them if there are not too many."""
    if len(graph.entities) <= most:
        return np.arange(len(graph.entities))
    counts = fact_counts(graph)[0]
    return np.sort(np.argsort(-counts, kind="stable")[:most])


def _components(model: Model, entities: IntArray, wanted: int, seed: int = 0) -> FloatArray:
    """The principal components of the directions of the rows: only angles count, as for `dura neighbours`."""
    ids = torch.from_numpy(entities)

    def rows(first: int, last: int) -> FloatArray:
        found = unit(entity_rows(model, ids[first:last].to(model.device)))
        check_finite(found)
        own: FloatArray = found.cpu().numpy()
        return own

    with model.answering():
        return principal(rows, len(entities), wanted, seed)


def _map(method: Method, entities: IntArray, places: FloatArray, trained: Trained, seconds: float = 0.0) -> Map:
    x, y = framed(places).round(DIGITS).T + 0.0  # no -0.0
    left = len(trained.graph.entities) - len(entities)
    return Map(method, entities, x, y, left, seconds, None if trained.path is None else trained.path / FILE)


def _write(done: Map, run: Path, checkpoint: str) -> None:
    columns = {"entities": done.entities.tolist(), "x": done.x.tolist(), "y": done.y.tolist()}
    about = {"format": FORMAT, "method": done.method, "checkpoint": checkpoint}
    write_atomic(run / FILE, json.dumps(about | columns, allow_nan=False).encode())


def _check_columns(found: dict[str, Any]) -> None:
    """Compare what belongs together."""
    lengths = {len(found[name]) for name in ("entities", "x", "y")}
    if len(lengths) > 1 or lengths == {0}:
        raise BadInput("entities, x and y do not have the same length, or are empty")
    if found["method"] not in get_args(Method):
        raise BadInput(f"the method {found['method']!r} is not known")
    if any(b <= a for a, b in zip(found["entities"], found["entities"][1:], strict=False)):
        raise BadInput("the ids of entities do not ascend")
