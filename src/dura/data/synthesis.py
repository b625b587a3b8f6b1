"""Synthesis: make a stored graph of any size from a seed, with planted patterns and degrees by Zipf's law.

Held-out facts follow by their pattern from facts of train (see `patterns`), so a good model finds them, whatever the size of the
graph. The structure around an entity does not depend on the number of entities: a small graph with as many facts per entity is a
control for a large one. Communities are made block by block, so memory does not grow with the number of facts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dura.data.graph import Graph
from dura.data.patterns import KINDS, Communities, Plan, draw, plan
from dura.data.stored import about_graph, finish, new_folder, read_files, read_stored
from dura.data.times import Times
from dura.data.vocabulary import Vocabulary
from dura.records import disk_error, write_atomic
from dura.records.tensors import Pieces, serialized
from dura.types import SPLITS, BadInput, IntArray

BLOCK = 1 << 18
"""About how many entities are made at a time."""
HELD_OUT = 10_000
"""The most facts of valid, and of test, if no number is given."""
FACTORS = (1.3, 1.8, 2.6, 5.0, 10.0, 20.0)
"""How many more facts than wanted are planted. Draws repeat each other, so the next factor is tried if they are too few."""
ROUNDS = 4
"""How often facts to hold out are chosen, if some of those chosen before depend on each other."""
ACTIVE, MOST, MEAN = 1.3, 512, 3.66
"""The exponent of the power law of draws per entity, its largest value and its mean."""

Progress = Callable[[int, int], None]


def synth(
    out: str | Path,
    *,
    entities: int = 10_000,
    relations: int = 40,
    facts: int = 80_000,
    times: int = 0,
    seed: int = 0,
    held_out: int | None = None,
    progress: Progress | None = None,
) -> Graph:
    """Make a graph with planted patterns and store it in a new folder. The same arguments give the same bytes.

    `facts` counts the facts of all splits together. Valid has `held_out` facts and test has as many; None is 5 % of all, at most
    10,000. With `times` every fact has one of that many times. `progress` is called with the numbers of finished and of all
    entities.

    >>> synth("stored/control", entities=25_000, relations=500, facts=200_000, held_out=2000)  # doctest: +SKIP
    """
    held = min(facts // 20, HELD_OUT) if held_out is None else held_out
    _check(entities, relations, facts, times, seed, held)
    folder, patterns = new_folder(Path(out)), plan(relations, times > 0, seed)
    maker = _Maker(patterns, Communities.of(entities, patterns.types, seed), entities, facts - 2 * held, times, seed)
    try:
        with tempfile.TemporaryFile(dir=folder) as train:
            rest = np.concatenate(list(_written(maker, train, 2 * held, progress)))
            if len(rest) < 2 * held:
                raise BadInput(
                    f"held_out is {held:,}, but only {len(rest) // 2:,} facts follow from others; hold out fewer facts"
                )
            rest = np.random.default_rng([seed, 5]).permutation(rest)[: 2 * held]
            _write_facts(folder, train, facts - 2 * held, rest[:held], rest[held:])
    except OSError as error:
        raise disk_error(error, folder / "facts.safetensors", "make room, or name another folder with --out") from error
    except (BadInput, MemoryError, KeyboardInterrupt):
        with suppress(OSError):
            folder.rmdir()  # nothing is in it yet
        raise
    _write_names(folder, entities, patterns.names, times)
    counts = {"train": facts - 2 * held, "valid": held, "test": held}
    about = {"name": folder.resolve().name, "entities": entities, "relations": relations, "times": times, **counts}
    graph = read_files(folder, about, "this call")
    finish(folder, about_graph(graph), _summary(graph, maker))
    return read_stored(folder)


def _check(entities: int, relations: int, facts: int, times: int, seed: int, held: int) -> None:
    """Refuse sizes for which there is no such graph."""
    for name, number, least in (
        ("entities", entities, 64),
        ("relations", relations, 1),
        ("times", times, 0),
        ("seed", seed, 0),
        ("held_out", held, 0),
        ("facts", facts, 1),
    ):
        if not least <= number < 2**31:
            raise BadInput(f"{name} is {number:,}, but it must be at least {least} and below {2**31:,}")
    if facts - 2 * held < 2 * entities:
        raise BadInput(
            f"{facts:,} facts are too few for {entities:,} entities: without the held-out facts there must be at least "
            f"{2 * entities:,}"
        )
    if relations > facts:
        raise BadInput(f"{relations:,} relations are too many for {facts:,} facts; ask for fewer")
    if facts > (most := entities * relations * max(1, times)):
        raise BadInput(
            f"{facts:,} facts are too many for {entities:,} entities and {relations:,} relations, which have at most "
            f"{most:,}; ask for fewer facts, or for more entities"
        )
    if 2 * BLOCK * relations * entities * max(1, times) >= 2**63:
        raise BadInput("entities · relations · times is too large; ask for fewer of them")


@dataclass(frozen=True)
class _Maker:
    """Makes the facts of one block of communities after the other."""

    plan: Plan
    homes: Communities
    entities: int
    facts: int
    times: int
    seed: int

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """The number, first and last entity of each block. Blocks end where communities end."""
        ends = self.homes.start + self.homes.size
        wanted = np.arange(BLOCK, self.entities + BLOCK, BLOCK)
        cuts = np.unique(ends[np.minimum(np.searchsorted(ends, wanted), len(ends) - 1)]).tolist()
        return zip(range(len(cuts)), [0, *cuts[:-1]], cuts, strict=True)

    def facts_of(self, number: int, low: int, high: int, held: int) -> tuple[IntArray, IntArray]:
        """The facts of train with heads from `low` to `high`, and at least `held` facts to hold out if there are as many."""
        wanted = self.facts * high // self.entities - self.facts * low // self.entities
        for factor in FACTORS:
            rng = np.random.default_rng([self.seed, 3, number])
            active = (1 - rng.random(high - low) * (1 - MOST**-ACTIVE)) ** (-1 / ACTIVE)
            draws = active * (factor * wanted / (high - low) / 2 / MEAN) + rng.random(high - low)
            entity = np.repeat(np.arange(low, high), np.maximum(1, draws.astype(np.int64)))
            planted = draw(self.plan, self.homes, entity, self.times, rng)
            keys = [self.keys(rows, low) for rows in (planted.first, planted.second, planted.conclusion)]
            every = _once(np.concatenate(keys))
            out, needed = _held(keys, entity, held, rng)
            pool = every[(every >= 0) & ~_among(every, out)]
            if len(pool) >= wanted >= len(needed):
                rest = pool[~_among(pool, needed)]
                train = np.concatenate([needed, rng.choice(rest, wanted - len(needed), replace=False, shuffle=False)])
                return self.rows(np.sort(train), low), self.rows(out, low)
        raise BadInput(
            f"{self.facts:,} facts do not fit: {self.entities:,} entities and {len(self.plan.names):,} relations have "
            "too few different links; ask for fewer facts, or for more entities or relations"
        )

    def keys(self, rows: IntArray, low: int) -> IntArray:
        """One number per fact; -1 if there is none."""
        head, relation, tail, time = rows.T
        key = ((head - low) * len(self.plan.names) + relation) * self.entities + tail
        return np.where(tail < 0, -1, key * max(1, self.times) + time)

    def rows(self, keys: IntArray, low: int) -> IntArray:
        """The facts of keys."""
        rest, time = np.divmod(keys, max(1, self.times))
        rest, tail = np.divmod(rest, self.entities)
        head, relation = np.divmod(rest, len(self.plan.names))
        columns = [head + low, relation, tail, *([time] if self.times else [])]
        return np.stack(columns, axis=1)


def _held(keys: list[IntArray], entity: IntArray, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """About `count` conclusions to hold out, and the facts that must stay: what they follow from, and a fact of each entity."""
    first, second, conclusion = keys
    out, needed = first[:0], _once(first[np.append(True, entity[1:] != entity[:-1])])
    every = np.flatnonzero(conclusion >= 0)
    for _ in range(ROUNDS):
        may = rng.choice(every, min(len(every), 2 * (count - len(out))), replace=False)
        free = ~_among(conclusion[may], needed) & ~_among(conclusion[may], out)
        may = may[free & ~_among(first[may], out) & ~_among(second[may], out)][: count - len(out)]
        mine = _once(conclusion[may])
        may = may[
            ~_among(first[may], mine) & ~_among(second[may], mine)
        ]  # a fact stays if a held-out one follows from it
        out = _once(np.concatenate([out, conclusion[may]]))
        needed = _once(np.concatenate([needed, first[may], second[may][second[may] >= 0]]))
    return out, needed


def _once(keys: IntArray) -> IntArray:
    """The keys in order, each once. This is much faster than np.unique, which uses a hash table."""
    keys = np.sort(keys)
    distinct: IntArray = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
    return distinct


def _among(keys: IntArray, some: IntArray) -> NDArray[np.bool_]:
    """True for each key that is among some keys, which are in order."""
    if not len(some):
        return np.zeros(len(keys), dtype=bool)
    found: NDArray[np.bool_] = some[np.minimum(np.searchsorted(some, keys), len(some) - 1)] == keys
    return found


def _written(maker: _Maker, train: BinaryIO, held: int, progress: Progress | None) -> Iterator[IntArray]:
    """Write the train facts of each block, and yield the facts to hold out. Ids are in random order, so that ids say nothing."""
    ids = np.random.default_rng([maker.seed, 4]).permutation(maker.entities).astype(np.int32)
    for number, low, high in maker.blocks():
        parts = maker.facts_of(number, low, high, round(1.1 * held * (high - low) / maker.entities) + 8 * (held > 0))
        for rows in parts:
            rows[:, 0], rows[:, 2] = ids[rows[:, 0]], ids[rows[:, 2]]
        train.write(parts[0].astype("<i4").data)
        if progress is not None:
            progress(high, maker.entities)
        yield parts[1].astype(np.int32)


def _write_facts(folder: Path, train: BinaryIO, count: int, valid: IntArray, test: IntArray) -> None:
    train.seek(0)
    pieces = Pieces("I32", (count, valid.shape[1]), iter(lambda: train.read(1 << 24), b""))
    content = {"train": pieces, "valid": Pieces.of(valid), "test": Pieces.of(test)}
    write_atomic(folder / "facts.safetensors", serialized(content))


def _write_names(folder: Path, entities: int, relations: list[str], times: int) -> None:
    """The entities are called e0000000, e0000001 and so on."""
    width = len(str(entities - 1))
    tens = 10 ** np.arange(width - 1, -1, -1)

    def lines() -> Iterator[bytes]:
        for low in range(0, entities, BLOCK):
            numbers = np.arange(low, min(entities, low + BLOCK))[:, None]
            text = np.full((len(numbers), width + 2), ord("\n"), dtype=np.uint8)
            text[:, 0], text[:, 1:-1] = ord("e"), numbers // tens % 10 + ord("0")
            yield text.tobytes()

    write_atomic(folder / "entities.txt", lines())
    write_atomic(folder / "relations.txt", Vocabulary(relations).pieces())
    if times:
        write_atomic(folder / "times.txt", Times(map(str, range(times))).pieces())


def _summary(graph: Graph, maker: _Maker) -> dict[str, Any]:
    """What was planted: the seed, the communities, and the relations and facts of each pattern."""
    kinds, names = maker.plan.kind_of_relation(), list(KINDS)
    relations = np.bincount(kinds, minlength=len(names)).tolist()
    counts = {
        split: np.bincount(
            kinds, weights=np.bincount(graph.facts(split)[:, 1], minlength=len(kinds)), minlength=len(names)
        )
        for split in SPLITS
    }
    patterns = {
        name: {"relations": relations[at], **{split: int(found[at]) for split, found in counts.items()}}
        for at, name in enumerate(names)
        if relations[at]
    }
    return {"seed": maker.seed, "communities": len(maker.homes.start), "types": maker.plan.types, "patterns": patterns}
