from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dura
from dura.data import synth, synthesis
from dura.data.graph import Graph
from dura.data.patterns import KINDS, Communities, plan
from dura.types import SPLITS, BadInput


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return synth(tmp_path_factory.mktemp("dated") / "graph", entities=1000, relations=30, facts=9000, times=40, seed=3)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return synth(tmp_path_factory.mktemp("plain") / "graph", entities=3000, relations=24, facts=24_000)


@pytest.mark.parametrize("times", [0, 12])
def test_the_same_seed_makes_the_same_bytes(tmp_path: Path, times: int) -> None:
    for name, seed in (("a/graph", 1), ("b/graph", 1), ("c/graph", 2)):
        synth(tmp_path / name, entities=300, relations=9, facts=1500, times=times, seed=seed)
    first, again, other = (content(tmp_path / name / "graph") for name in "abc")
    assert first == again
    assert first["facts.safetensors"] != other["facts.safetensors"]


def test_the_counts_are_as_asked(plain: Graph, dated: Graph) -> None:
    assert (plain.sizes.entities, plain.sizes.relations, plain.sizes.times) == (3000, 24, 0)
    assert (dated.sizes.entities, dated.sizes.relations, dated.sizes.times) == (1000, 30, 40)
    assert [len(plain.facts(split)) for split in SPLITS] == [21_600, 1200, 1200]
    assert [len(dated.facts(split)) for split in SPLITS] == [8100, 450, 450]
    for graph in (plain, dated):
        every = np.concatenate([graph.facts(split) for split in SPLITS])
        assert len(np.unique(every, axis=0)) == len(every)
        assert (every[:, 0] != every[:, 2]).all()
        assert not len(graph.unseen)


def follows(graph: Graph, fact: tuple[int, ...]) -> bool:
    """The literal reading of the patterns: does a held-out fact follow from facts of train?"""
    train = {tuple(row) for row in graph.train.tolist()}
    head, relation, tail, *time = fact
    kind, number, _ = graph.relations.name(relation).split("-", 2)

    def named(role: str) -> int:
        return graph.relations.id(f"{kind}-{number}-{role}")

    if kind == "symmetric":
        return (tail, relation, head, *time) in train
    if kind == "inverse":
        return (tail, named("there"), head, *time) in train
    if kind == "composed":
        between = {t for h, r, t, *when in train if (h, r) == (head, named("first")) and when == time}
        return any((middle, named("second"), tail, *time) in train for middle in between)
    if kind == "hierarchical":
        parents = {t for h, r, t, *when in train if (h, r) == (head, named("parent")) and when == time}
        return any((parent, named("parent"), tail, *time) in train for parent in parents)
    near = [when[0] for h, r, t, *when in train if (h, r, t) == (head, relation, tail)]
    return any(when // 5 == time[0] // 5 for when in near)  # 40 times have 8 phases


@pytest.mark.parametrize("kind", KINDS)
def test_held_out_facts_follow_from_train(dated: Graph, kind: str) -> None:
    names = np.array([name.partition("-")[0] for name in dated.relations])
    held = np.concatenate([dated.valid, dated.test])
    mine = held[names[held[:, 1]] == kind][:25]
    assert len(mine) == 25
    assert all(follows(dated, tuple(fact)) for fact in mine.tolist())


def test_facts_without_times_follow_from_train(plain: Graph) -> None:
    assert all(follows(plain, tuple(fact)) for fact in plain.test[:40].tolist())


def test_the_type_of_a_temporal_tail_changes_with_time(dated: Graph) -> None:
    """A head has one tail per phase and relation."""
    names = [name.partition("-")[0] for name in dated.relations]
    facts = dated.train[np.array(names)[dated.train[:, 1]] == "temporal"]
    phases = np.unique(np.column_stack([facts[:, :2], facts[:, 3] // 5]), axis=0)
    tails = np.unique(np.column_stack([facts[:, :2], facts[:, 3] // 5, facts[:, 2]]), axis=0)
    assert len(phases) == len(tails) > 100


def test_degrees_follow_a_power_law(tmp_path: Path) -> None:
    graph = synth(tmp_path / "graph", entities=20_000, relations=80, facts=160_000)
    degrees = np.sort(np.bincount(graph.train[:, [0, 2]].ravel()))[::-1]
    assert degrees[0] > 40 * degrees[10_000]
    places = np.geomspace(1, 2000, 30).astype(int)
    slope = np.polyfit(np.log(places), np.log(degrees[places - 1]), 1)[0]
    assert -1.2 < slope < -0.4


def test_blocks_do_not_change_the_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis, "BLOCK", 200)
    graph = synth(tmp_path / "graph", entities=2000, relations=10, facts=12_000)
    assert len(graph.train) == 10_800 and not len(graph.unseen)
    assert all(follows(graph, tuple(fact)) for fact in graph.valid[:20].tolist())


def test_the_summary_says_what_was_planted(dated: Graph) -> None:
    assert dated.home is not None
    planted = json.loads((dated.home / "graph.json").read_text())["planted"]
    assert planted["seed"] == 3 and list(planted["patterns"]) == list(KINDS)
    assert sum(found["relations"] for found in planted["patterns"].values()) == 30
    assert sum(found["train"] for found in planted["patterns"].values()) == len(dated.train)


@pytest.mark.parametrize("relations", range(1, 20))
@pytest.mark.parametrize("times", [False, True])
def test_any_number_of_relations_can_be_planned(relations: int, times: bool) -> None:
    made = plan(relations, times, seed=0)
    assert sorted(made.relations[made.relations >= 0].tolist()) == list(range(relations))
    assert made.names == sorted(set(made.names)) and len(made.names) == relations
    assert set(made.domain) == set(range(made.types))


@pytest.mark.parametrize("entities", [64, 65, 100, 5000])
def test_communities_hold_every_entity(entities: int) -> None:
    homes = Communities.of(entities, 8, seed=0)
    assert homes.start[0] == 0 and homes.size.sum() == entities and homes.size.min() >= 32
    community = np.repeat(np.arange(len(homes.size)), homes.size)
    kinds = homes.type_of(np.arange(entities), community)
    first, count = homes.cell(community, kinds)
    assert ((first <= np.arange(entities)) & (np.arange(entities) < first + count)).all()
    assert count.min() >= 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"entities": 10}, "entities is 10, but it must be at least 64"),
        ({"relations": 0}, "relations is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"facts": 15_000}, "15,000 facts are too few for 10,000 entities"),
        ({"entities": 200, "relations": 1, "facts": 100_000}, "100,000 facts are too many .*, which have at most 200"),
        ({"entities": 200, "relations": 20, "facts": 4_000}, "3,600 facts do not fit"),
        ({"relations": 90_000}, "90,000 relations are too many for 80,000 facts"),
        ({"entities": 200, "facts": 2000, "held_out": 800}, "too few|only .* facts follow from others"),
        ({"entities": 2**29, "relations": 2**20, "times": 2**20, "facts": 2**31 - 1}, "is too large"),
    ],
)
def test_impossible_sizes_are_one_sentence(tmp_path: Path, asked: dict[str, int], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        synth(tmp_path / "graph", **asked)  # type: ignore[arg-type]
    assert not (tmp_path / "graph" / "graph.json").exists()


def test_the_patterns_are_learnt(tmp_path: Path) -> None:
    """A few seconds of training rank held-out facts far better than the most frequent tails of each relation would be."""
    graph = synth(tmp_path / "graph", entities=1000, relations=16, facts=8000)
    trained = dura.fit(graph, rank=32, epochs=12, batch=200, lr=0.2, progress=False)
    counts = np.zeros((graph.sizes.relations, graph.sizes.entities))
    np.add.at(counts, (graph.train[:, 1], graph.train[:, 2]), 1)
    ranks = 1 + (counts[graph.test[:, 1]] > counts[graph.test[:, 1], graph.test[:, 2]][:, None]).sum(axis=1)
    frequent = (1 / ranks).mean()
    assert trained.evaluate("test").ties["realistic"].mrr > max(0.4, 3 * frequent)
