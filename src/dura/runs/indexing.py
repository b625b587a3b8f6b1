"""Indexing: build the index of a run's entities, measure it, keep it in the run folder and open it again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from torch import Tensor

from dura import world
from dura.data.graph import Graph
from dura.inference.nearest import LINKS, MOST_LEVELS, Links, Nearest, metric, recall
from dura.inference.predict import BLOCK
from dura.models import Model
from dura.records import Damage, read_json, remedy, write_atomic
from dura.records.reading import MOST_JSON, open_file
from dura.records.schema import WHOLE, check
from dura.records.tensors import Pieces, read_header, read_integers, serialized
from dura.tables import Table
from dura.types import BadInput, DuraError, IntArray

if TYPE_CHECKING:
    from dura.runs.exploring import Exploring
    from dura.runs.trained import Trained

FORMAT = 1
FOLDER, FILE = "index", "links.safetensors"
MOST_LINKS, MOST_EFFORT = 256, 4096
SAMPLE, TOP = 256, 10
"""How many questions of the training facts measure the recall, and among how many best answers."""
SINGLE = 16
"""How many of them are asked one by one."""
Asked = tuple[Tensor, Tensor, Tensor | None]
"""The heads, relations and times of questions."""
_SHARE, _COUNT = Annotated[float, 0, 1], Annotated[int, 1, 2**31]
_SCHEMA = {
    "format": Annotated[int, 1, FORMAT],
    "metric": str,
    "entities": _COUNT,
    "width": _COUNT,
    "links": Annotated[int, 2, MOST_LINKS],
    "entry": WHOLE,
    "effort": _COUNT,
    "tables": str,
    "recall": _SHARE,
}


@dataclass(frozen=True)
class Indexed:
    """What an index is like, as plain values. Times are milliseconds per question."""

    entities: int
    links: int
    effort: int
    recall: float
    """The share of the ten best answers that it finds, for questions of the training facts."""
    exact_ms: float
    index_ms: float
    single_ms: dict[str, float]
    """The same for questions that are asked one by one: "exact" and "index"."""
    seconds: float

    enough: bool
    """Whether the recall is as wanted."""

    @property
    def pays(self) -> bool:
        """True if a question of many takes at most half as long with the index, at the recall that was wanted."""
        return self.enough and 2 * self.index_ms <= self.exact_ms


def build_index(trained: Trained, *, links: int = LINKS, wanted: float = 0.95) -> Indexed:
    """Build the index of a run and keep it in its folder. A search takes as little effort as gives the wanted recall."""
    world.alone("an index")
    if not 0 < wanted <= 1:
        raise BadInput(f"the recall is {wanted}, but it is a share above 0 and at most 1")
    if trained.path is None:
        raise BadInput("an index is kept in the run folder, but this model has none: save it first")
    how, table = metric(trained.model), trained.model.target_table
    assert isinstance(table, Table)
    if not 2 <= links <= MOST_LINKS:
        raise BadInput(f"the number of links is {links}, but an entity has 2 to {MOST_LINKS} of them")
    began = time.perf_counter()
    made = Links.of(np.ascontiguousarray(table.rows.cpu().numpy(), dtype=np.float32), how, links)
    seconds = time.perf_counter() - began
    done = measure(trained.model, trained.graph, Nearest(trained.model, made, TOP), wanted, seconds)
    about = {
        "format": FORMAT,
        "metric": how,
        "entities": len(table),
        "width": int(table.shape[1]),
        "tables": fingerprint(trained.model),
        "entry": made.entry,
        **{key: value for key, value in asdict(done).items() if key != "entities"},
    }
    _write(trained.path / FOLDER, made, about)
    return done


def measure(model: Model, graph: Graph, index: Nearest, wanted: float, seconds: float) -> Indexed:
    """Take more and more effort until the recall is as wanted, and compare the speed with that of exact answers."""
    asked, top = sample_questions(graph), min(TOP, model.sizes.entities)

    def exactly(head: Tensor, relation: Tensor, moment: Tensor | None) -> list[list[int]]:
        found: list[list[int]] = model.score_all(head, relation, moment).topk(top, dim=1).indices.tolist()
        return found

    def by_index(head: Tensor, relation: Tensor, moment: Tensor | None) -> list[list[int]]:
        found: list[list[int]] = index.best(head, relation, moment, top)[1].tolist()
        return found

    with model.answering():
        exact, exact_ms = _timed(exactly, asked, BLOCK)
        while True:
            found, index_ms = _timed(by_index, asked, BLOCK)
            share = recall(exact, found)
            if share >= wanted or index.effort >= min(MOST_EFFORT, model.sizes.entities):
                break
            index.effort *= 2
        few: Asked = tuple(None if ids is None else ids[:SINGLE] for ids in asked)  # type: ignore[assignment]
        single = {"exact": _timed(exactly, few, 1)[1], "index": _timed(by_index, few, 1)[1]}
    links = index.links
    return Indexed(
        model.sizes.entities, links, index.effort, share, exact_ms, index_ms, single, seconds, share >= wanted
    )


def _timed(work: Callable[..., list[list[int]]], asked: Asked, block: int) -> tuple[list[list[int]], float]:
    """The answers to all questions, block by block, and the milliseconds per question."""
    began, found = time.perf_counter(), list[list[int]]()
    for at in range(0, len(asked[0]), block):
        found += work(*(None if ids is None else ids[at : at + block] for ids in asked))
    return found, 1000 * (time.perf_counter() - began) / len(found)


def sample_questions(graph: Graph) -> Asked:
    """Questions of the training facts for tails and heads, drawn from a seed."""
    rng = np.random.default_rng(0)
    facts: IntArray = graph.asked("train")[np.sort(rng.integers(len(graph.train), size=SAMPLE))]
    back = rng.integers(2, size=SAMPLE).astype(bool)
    head = torch.from_numpy(np.where(back, facts[:, 2], facts[:, 0]).astype(np.int64))
    relation = torch.from_numpy(facts[:, 1].astype(np.int64) + len(graph.relations) * back)
    return head, relation, torch.from_numpy(facts[:, 3].astype(np.int64)) if facts.shape[1] > 3 else None


def fingerprint(model: Model) -> str:
    """SHA-256 of the shape and of a thousand rows of the targets. It tells whether an index belongs to a model."""
    table = model.target_table
    assert isinstance(table, Table)
    rows = table.rows[:: max(1, len(table) // 1000)].cpu().contiguous().numpy()
    return hashlib.sha256(f"{tuple(table.shape)}".encode() + rows.tobytes()).hexdigest()


def _write(folder: Path, links: Links, about: dict[str, Any]) -> None:
    """index.json comes last: without it there is no index."""
    folder.mkdir(exist_ok=True)
    (folder / "index.json").unlink(missing_ok=True)
    tensors = {"neighbours": Pieces.of(links.neighbours), "levels": Pieces.of(links.levels)}
    write_atomic(folder / FILE, serialized(tensors))
    write_atomic(folder / "index.json", (json.dumps(about, indent=2) + "\n").encode())


def open_index(trained: Exploring) -> Nearest:
    """The index of a run. A missing or damaged one, and one of other tables, is an error."""
    folder = None if trained.path is None else trained.path / FOLDER
    if folder is None or not (folder / "index.json").is_file():
        raise BadInput(f"the run has no index of its entities; build it with: dura index {trained.path}")
    again = f"build it again with: dura index {trained.path}"
    with remedy(again):
        about = read_json(folder, "index.json")
    if type(about.get("format")) is int and about["format"] > FORMAT:
        raise DuraError(
            f"the index in {folder} has format {about['format']}, but this dura reads up to {FORMAT}; update dura"
        )
    try:
        check(about, _SCHEMA)
    except BadInput as error:
        raise Damage(f"{folder / 'index.json'} is damaged: {error}; {again}") from None
    how = metric(trained.model)
    if (about["metric"], about["tables"]) != (how, fingerprint(trained.model)):
        raise BadInput(f"the index in {folder} was built for other tables; {again}")
    with remedy(again, missing=True):
        return Nearest(trained.model, _links(folder, about), about["effort"])


def _links(folder: Path, about: dict[str, Any]) -> Links:
    """The links, checked before faiss sees them."""
    path, entities, links = folder / FILE, about["entities"], about["links"]
    with open_file(folder, FILE, MOST_JSON + 4 * entities * (1 + links * (MOST_LEVELS + 1))) as (file, size):
        stored = read_header(file, size, path)
        forms = {name: (tensor.dtype, len(tensor.shape)) for name, tensor in stored.items()}
        if forms != {"levels": ("I32", 1), "neighbours": ("I32", 1)} or stored["levels"].shape != (entities,):
            raise Damage(f"{path} is damaged: its tables are not those that index.json describes")
        neighbours, levels = (read_integers(file, stored[name]) for name in ("neighbours", "levels"))
    found = Links(neighbours, levels, about["entry"], links)
    if wrong := found.damage(entities):
        raise Damage(f"{path} is damaged: {wrong}")
    return found
