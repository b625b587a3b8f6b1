"""Nearest: the best answers from an index, without a look at every entity.

The index of faiss is a graph of neighbours (HNSW): each entity is linked to similar ones, and a query walks along the links to
the targets that fit it best. What it finds is scored by the model's own comparator, so scores are those of an exact answer. Only
the choice of the answers is approximate. Only the links are kept on disk, as plain numbers that are checked; the rows are the
model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dura.data.graph import Graph
from dura.models import Dot, Model, SquaredL2
from dura.models.comparators import L2
from dura.tables import Packed, Table
from dura.types import BadInput, IntArray

Floats = NDArray[np.float32]
LINKS = 16
"""How many links an entity has to similar ones; twice as many in the level that holds all entities."""
CARE = 80
"""How many candidates are kept while a link is looked for. More take longer and find better links."""
MOST_LEVELS = 64
"""More levels than this are never read from a file. How many there may be depends on the links."""
MOST_ASKED = 2048
"""A question with more known answers than this is answered exactly: the index would have to find all of them first."""


def library() -> ModuleType:
    """faiss, or a sentence that says how to install it."""
    try:
        import faiss
    except ImportError:
        raise BadInput("an index needs faiss, which is not installed: pip install 'dura-kge[index]'") from None
    module: ModuleType = faiss
    return module


def metric(model: Model) -> str:
    """How queries and targets meet: "dot" or "l2". Models that meet in another way are refused."""
    plain = isinstance(model.target_table, Table) and type(model).targets is Model.targets and not model.grouped_by
    kind = type(model.comparator)
    if isinstance(model.target_table, Packed):
        raise BadInput(
            "the tables of this run are packed, and an index needs them as they were; index the run that was exported"
        )
    if not plain or kind not in (Dot, SquaredL2, L2):
        raise BadInput(
            f"an index is for models that score by inner products or by L2 distances to fixed rows, and {type(model).__name__} "
            "does not; ask it without an index"
        )
    return "dot" if kind is Dot else "l2"


@dataclass(frozen=True)
class Links:
    """The links of all entities, as faiss keeps them.

    Entity i is in `levels[i]` levels. In `neighbours` it has 2·links places for the level that holds all entities, then `links`
    places for each further level; -1 is a free place. A search begins at `entry`, which is in all levels.
    """

    neighbours: IntArray
    levels: IntArray
    entry: int
    links: int

    @classmethod
    def of(cls, rows: Floats, how: str, links: int = LINKS) -> Links:
        """Link rows to similar ones."""
        faiss = library()
        index = _blank(faiss, rows.shape[1], how, links)
        index.hnsw.efConstruction = CARE
        index.add(rows)
        neighbours, levels = (faiss.vector_to_array(vector) for vector in (index.hnsw.neighbors, index.hnsw.levels))
        return cls(neighbours, levels, int(index.hnsw.entry_point), links)

    @property
    def offsets(self) -> IntArray:
        """Where the places of each entity begin."""
        return np.concatenate([[0], np.cumsum(self.links * (self.levels.astype(np.int64) + 1))])

    def damage(self, entities: int) -> str:
        """What is wrong with the links; empty if nothing is. faiss trusts them, so each must lead to an entity of its level."""
        levels, neighbours = self.levels, self.neighbours
        most = _blank(library(), 1, "dot", self.links).hnsw.cum_nneighbor_per_level.size() - 1
        if len(levels) != entities or levels.min() < 1 or levels.max() > most:
            return "its levels are not those of the entities"
        if len(neighbours) != self.offsets[-1] or neighbours.min() < -1 or neighbours.max() >= entities:
            return "a link leads to no entity"
        if not 0 <= self.entry < entities or levels[self.entry] != levels.max():
            return "its entry is not in all levels"
        for level in range(1, int(levels.max())):
            here = np.flatnonzero(levels > level)
            begin = self.offsets[here] + self.links * (level + 1)
            led = neighbours[begin[:, None] + np.arange(self.links)]
            if (levels[led[led >= 0]] <= level).any():
                return "a link leads out of its level"
        return ""


def _blank(faiss: Any, width: int, how: str, links: int) -> Any:
    """An index without rows."""
    return faiss.IndexHNSWFlat(width, links, faiss.METRIC_INNER_PRODUCT if how == "dot" else faiss.METRIC_L2)


class Nearest:
    """An index of a model's targets. `effort` is how many candidates a search keeps: more find more and take longer."""

    def __init__(self, model: Model, links: Links, effort: int) -> None:
        faiss, table = library(), model.target_table
        assert isinstance(table, Table)
        rows = np.ascontiguousarray(table.rows.cpu().numpy(), dtype=np.float32)
        self._index = _blank(faiss, rows.shape[1], metric(model), links.links)
        self._index.storage.add(rows)
        self._index.ntotal = len(rows)
        graph = self._index.hnsw
        for vector, array, dtype in (
            (graph.levels, links.levels, np.int32),
            (graph.offsets, links.offsets, np.uint64),
            (graph.neighbors, links.neighbours, np.int32),
        ):
            faiss.copy_array_to_vector(np.ascontiguousarray(array, dtype=dtype), vector)
        graph.entry_point, graph.max_level = links.entry, int(links.levels.max()) - 1
        self.model, self.links, self.effort = model, links.links, effort

    def search(self, query: Tensor, k: int) -> Tensor:
        """The ids of about the k best targets of each query [m, k], in no order; -1 where fewer were found."""
        self._index.hnsw.efSearch = max(k, self.effort)
        _, ids = self._index.search(np.ascontiguousarray(query.detach().cpu().numpy(), dtype=np.float32), k)
        return torch.from_numpy(ids).to(query.device)

    def best(self, head: Tensor, relation: Tensor, time: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
        """Scores and ids [m, k] of about the k best answers, best first; the score −inf stands for no answer."""
        query = self.model.query(head, relation, time)
        ids = self.search(query, k)
        rows = self.model.targets(ids.clamp(min=0).flatten())
        assert isinstance(rows, Tensor)
        scores = self.model.comparator.pairs(query[:, None], rows.view(*ids.shape, -1))
        scores = scores.masked_fill(ids < 0, -torch.inf)
        best, at = scores.sort(dim=1, descending=True)
        return best, ids.gather(1, at)

    def answers(self, graph: Graph, ids: IntArray, k: int, *, known: bool) -> tuple[Tensor, Tensor, Tensor, IntArray]:
        """Scores, entities and whether each is known [m, k], for questions (head, relation, time) by ids.

        The last value holds the positions of questions that must be answered exactly: too many of their answers are known, or too
        few others were found.
        """
        times = None if graph.times is None else ids[:, 2]
        facts = graph.answered(ids[:, 0], ids[:, 1], times)
        counts = np.zeros(len(ids), dtype=np.int64) if known else facts.counts
        usual = counts <= MOST_ASKED
        wanted = min(self.model.sizes.entities, k + int(counts[usual].max(initial=0)))
        head, relation, time = torch.from_numpy(ids.T.copy()).to(self.model.device)
        scores, entity = self.best(head, relation, None if times is None else time, wanted)
        is_known = _among(entity, facts.question, facts.answers, self.model.sizes.entities)
        if not known:
            scores = scores.masked_fill(is_known, -torch.inf)
        best, at = scores.topk(min(k, scores.shape[1]), dim=1)
        possible = np.minimum(k, self.model.sizes.entities - counts)
        found = (best > -torch.inf).sum(1).cpu().numpy()
        exact: IntArray = np.flatnonzero(~usual | (found < possible))
        return best, entity.gather(1, at), is_known.gather(1, at), exact


def _among(entity: Tensor, question: IntArray, answers: IntArray, entities: int) -> Tensor:
    """Which of these entities [m, n] are known answers of their questions."""
    row = torch.arange(len(entity), device=entity.device)[:, None]
    keys = torch.as_tensor(question.astype(np.int64) * entities + answers).to(entity.device)
    return torch.isin(row * entities + entity.clamp(min=0), keys) & (entity >= 0)


def recall(exact: Sequence[Sequence[int]], found: Sequence[Sequence[int]]) -> float:
    """The share of the exact answers that were found.

    >>> recall([[1, 2], [3, 4]], [[2, 1], [4, 5]])
    0.75
    """
    hits = sum(len(set(one) & set(other)) for one, other in zip(exact, found, strict=True))
    return hits / max(1, sum(map(len, exact)))
