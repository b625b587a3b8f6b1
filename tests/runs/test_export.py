"""Exported runs: opened, ranked and asked like any other, by their small tables as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dura
from doubles import packable
from dura.analysis.sparsity import entity_tables, thresholds, zeroed
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.evaluation import rank
from dura.models import MODELS, Model
from dura.records import RunFolder
from dura.runs.run import resume
from dura.runs.smaller import export_and_measure
from dura.runs.trained import Trained
from dura.tables.packed import Csr, NumberType, Packed
from dura.training.checkpoint import Checkpoints
from dura.types import BadInput, DuraError, Ranks
from graphs import graph_for, random_graph
from oracles import SEMANTIC
from texts import options_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
DAY = "2014-01-03"


def trained(model: str = "complex", rows: float = 1.0, **chosen: str) -> Trained:
    """A model with tables far from zero; three entities have tiny rows, which a sparse export makes equal."""
    graph = graph_for(model)
    options: dict[str, Any] = {"graph": {"source": graph.name}, "model": {"name": model, "rank": 6, **chosen}}
    if graph.times is not None:
        options["regularizer"] = {"name": "none"}
    torch.manual_seed(4)
    built = MODELS.build(model, {"rank": 6, **chosen}, graph.sizes)
    for table in built.parameters():
        torch.nn.init.normal_(table, std=rows)
    for table in entity_tables(built).values():
        table.data[[3, 8, 17]] *= 1e-4
    return Trained(built, graph, Experiment.from_dict(options))


@pytest.mark.parametrize("name", sorted(set(MODELS.names()) - set(packable())))
def test_a_model_without_tables_of_entities_is_copied_but_not_made_small(name: str, tmp_path: Path) -> None:
    graph = graph_for(name)
    options = {"name": name, "rank": 6, **options_of(name, graph)}
    built = MODELS.build(name, {key: value for key, value in options.items() if key != "name"}, graph.sizes)
    built.read_names(graph.entities, graph.relations)
    whole = Trained(built, graph, Experiment.from_dict({"model": options}))
    opened = dura.open(whole.export(tmp_path / "copy"))
    assert same(ranks(opened.model, graph), ranks(built, graph))
    for small in ({"sparse": 0.5}, {"dtype": "int8"}):
        with pytest.raises(BadInput, match="does not list its tables of entities, so none can be made small"):
            whole.export(tmp_path / "small", **small)


def ranks(model: Model, graph: Graph) -> Ranks:
    return rank(model, graph.asked("test"), graph.known, len(graph.relations))


def same(one: Ranks, other: Ranks) -> bool:
    return all(np.array_equal(getattr(one, key), getattr(other, key)) for key in ("greater", "equal", "candidates"))


def packed_tables(model: Model) -> list[Packed]:
    return [table for table in vars(model).values() if isinstance(table, Packed)]


@pytest.mark.parametrize("name", packable())
def test_a_sparse_model_ranks_as_the_dense_one_with_its_entries_zero(name: str, tmp_path: Path) -> None:
    whole = trained(name)
    whole.export(tmp_path / "sparse", sparse=0.6)
    small = dura.open(tmp_path / "sparse")
    assert all(isinstance(table, Csr) for table in packed_tables(small.model))
    assert len(packed_tables(small.model)) == len(entity_tables(whole.model))
    with zeroed(whole.model, thresholds(whole.model, [0.6])[0]):
        expected = ranks(whole.model, whole.graph)
        score = whole.score([("e001", "r1", "e004", None if whole.graph.times is None else DAY)])
        answers = whole.predict(head="e001", relation="r0", time=None if whole.graph.times is None else DAY, k=4)
    found = ranks(small.model, small.graph)
    assert same(found, expected)
    assert found.equal.max() >= (2 if name in SEMANTIC else 1)  # the entities whose rows are zero
    facts = [("e001", "r1", "e004", None if whole.graph.times is None else DAY)]
    assert small.score(facts) == pytest.approx(score, abs=1e-5)
    asked = small.predict(head="e001", relation="r0", time=None if whole.graph.times is None else DAY, k=4)
    assert [a.entity for a in asked] == [a.entity for a in answers]
    if whole.graph.times is not None:
        assert len(small.when(head="e001", relation="r0", tail="e002", k=3)) == 3


@pytest.mark.parametrize("name", ["cp", "complex", "rescal", "tcomplex", "trescal"])
def test_the_dual_of_a_model_is_exported_as_a_dual(name: str, tmp_path: Path) -> None:
    whole = trained(name, comparator="distance")
    time = None if whole.graph.times is None else DAY
    small = dura.open(whole.export(tmp_path / "sparse", sparse=0.6))
    with zeroed(whole.model, thresholds(whole.model, [0.6])[0]):
        assert same(ranks(small.model, small.graph), ranks(whole.model, whole.graph))
        fact = [("e001", "r1", "e004", time)]
        assert small.score(fact) == pytest.approx(whole.score(fact), rel=1e-5)
    assert small.score(fact)[0] < 0  # a distance
    rough = dura.open(whole.export(tmp_path / "int8", dtype="int8"))
    asked = rough.predict(head="e001", relation="r0", time=time, k=1, known=True)[0]
    assert asked.score == pytest.approx(rough.score([("e001", "r0", asked.entity, time)])[0], rel=1e-4)
    if time is not None:
        first, *_ = small.when(head="e001", relation="r0", tail="e002", k=3)
        assert first.score == pytest.approx(small.score([("e001", "r0", "e002", first.time)])[0], rel=1e-5)


@pytest.mark.parametrize("name", packable())
def test_sparse_zero_is_the_model_itself(name: str, tmp_path: Path) -> None:
    whole = trained(name)
    small = dura.open(whole.export(tmp_path / "all", sparse=0.0))
    assert same(ranks(small.model, small.graph), ranks(whole.model, whole.graph))
    for ours, theirs in zip(packed_tables(small.model), entity_tables(whole.model).values(), strict=True):
        assert torch.equal(ours.unpacked(), theirs)
    for key, table in small.model.named_parameters():
        assert torch.equal(table, dict(whole.model.named_parameters())[key])


@pytest.mark.parametrize("name", packable())
@pytest.mark.parametrize(("dtype", "sparse"), [("int8", None), ("float16", None), ("int8", 0.5), ("float16", 0.5)])
def test_small_numbers_lose_what_they_may(name: str, dtype: NumberType, sparse: float | None, tmp_path: Path) -> None:
    whole = trained(name)
    small = dura.open(whole.export(tmp_path / "small", dtype=dtype, sparse=sparse))
    threshold = 0.0 if sparse is None else thresholds(whole.model, [sparse])[0]
    pairs = [
        (ours.unpacked(), torch.where(theirs.abs() < threshold, 0, theirs))
        for ours, theirs in zip(packed_tables(small.model), entity_tables(whole.model).values(), strict=True)
    ]
    own = dict(whole.model.named_parameters())
    pairs += [(table, own[key]) for key, table in small.model.named_parameters()]
    assert len(pairs) == len(own)
    for ours, theirs in pairs:
        largest = theirs.abs().amax(dim=-1, keepdim=True)
        bound = largest / 127 / 2 if dtype == "int8" else theirs.abs() * 2**-11 + 2**-25
        assert ours.shape == theirs.shape
        assert bool(((ours - theirs).abs() <= bound * 1.0001).all())
        assert torch.equal(ours, theirs) == (theirs.ndim == 1)  # vectors stay as they are
    assert [table.number_type for table in packed_tables(small.model)] == [dtype] * len(packed_tables(small.model))


@pytest.mark.parametrize(("dtype", "sparse"), [("float32", None), ("float32", 0.6), ("int8", 0.6), ("float16", None)])
def test_opened_and_written_again_it_is_the_same(dtype: NumberType, sparse: float | None, tmp_path: Path) -> None:
    first = dura.open(trained("cp").export(tmp_path / "one", sparse=sparse, dtype=dtype))
    again = dura.open(first.save(tmp_path / "two"))
    assert again.evaluate().to_dict() == first.evaluate().to_dict()
    facts = [(f"e{i:03d}", "r0", f"e{i + 3:03d}") for i in range(10)]
    assert again.score(facts) == pytest.approx(first.score(facts), rel=1e-6)
    sizes = [(tmp_path / name / "checkpoints" / "best-000000000.safetensors").stat().st_size for name in ("one", "two")]
    assert sizes[0] == sizes[1]
    report = export_and_measure(first, tmp_path / "four", splits=())
    assert report["dtype"] == dtype
    tables = report["bytes"]["tables"]
    assert tables["after"] - 2000 < tables["before"] <= tables["after"]  # the file has a header too
    if packed_tables(first.model):
        with pytest.raises(BadInput, match="packed already; use the run that it was exported from"):
            first.export(tmp_path / "three", dtype="float16")
        assert not (tmp_path / "three").exists()


def test_formats_say_who_can_read_them(tmp_path: Path) -> None:
    whole = trained()
    plain, packed = whole.export(tmp_path / "plain"), whole.export(tmp_path / "packed", dtype="int8")
    assert RunFolder.open(plain).about()["format"] == 1
    assert RunFolder.open(packed).about()["format"] == 2
    tensors, state = Checkpoints(packed / "checkpoints").best() or ({}, {})
    assert sorted(tensors) == ["entity.data", "entity.scale", "relations.data", "relations.scale"]
    assert state == {"packed": {"format": 1, "dtype": "int8", "sparse": None, "threshold": None}}
    Checkpoints(packed / "checkpoints").save_best(0, tensors, {"packed": {**state["packed"], "format": 2}})
    with pytest.raises(DuraError, match="packed format 2, but this dura reads up to 1; update dura"):
        dura.open(packed)


def test_nothing_of_training_is_left_and_resuming_says_so(tmp_path: Path) -> None:
    graph = random_graph()
    run = dura.fit(graph, rank=4, epochs=2, out=tmp_path / "run", progress=False)
    for name, sparse in (("copy", None), ("sparse", 0.5)):
        out = dura.open(tmp_path / "run").export(tmp_path / name, sparse=sparse)
        assert not list((out / "checkpoints").glob("step-*"))
        with pytest.raises(BadInput, match="without the state of its training, so it cannot be continued"):
            resume(out)
    assert dura.open(tmp_path / "copy").evaluate().to_dict() == run.evaluate().to_dict()


def test_the_report_is_what_the_exported_run_itself_gives(tmp_path: Path) -> None:
    whole, calls = trained("rescal"), list[tuple[int, int]]()
    report = export_and_measure(
        whole, tmp_path / "out", sparse=0.5, dtype="int8", splits=("valid", "test"), progress=lambda *n: calls.append(n)
    )
    small = dura.open(tmp_path / "out")
    for split in ("valid", "test"):
        assert report["figures"][split]["after"]["mrr"] == small.evaluate(split).mrr
        assert report["figures"][split]["before"]["mrr"] == whole.evaluate(split).mrr
    assert calls
    assert report["threshold"] == thresholds(whole.model, [0.5])[0]
    assert 0.5 <= report["zeros"] < 0.6  # entries that int8 rounds to zero are not stored either
    tables = report["bytes"]["tables"]
    assert tables["before"] == 4 * (20 * 6 + 6 * 36)
    entity = packed_tables(small.model)[0]
    assert (
        entity.bytes + 6 * 36 + 4 * 6 * 6
        < tables["after"]
        == sum(file.stat().st_size for file in (tmp_path / "out" / "checkpoints").glob("best-*"))
    )
    assert report["bytes"]["folder"]["before"] is None
    records = RunFolder.open(tmp_path / "out").records()
    assert [r["kind"] for r in records] == ["export", "measured"]
    assert records[1]["figures"] == report["figures"]


def test_wrong_wishes_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    whole = trained()
    with pytest.raises(BadInput, match="at least 0 and below 1, not 1"):
        whole.export(tmp_path / "out", sparse=1.0)
    with pytest.raises(BadInput, match="dtype is 'int4', but it must be one of float32, float16, int8"):
        whole.export(tmp_path / "out", dtype="int4")  # type: ignore[call-overload]
    assert not (tmp_path / "out").exists()
    whole.export(tmp_path / "out", dtype="int8")
    with pytest.raises(BadInput, match="not an empty folder; name a new folder to export to"):
        whole.export(tmp_path / "out", dtype="int8")
    with pytest.raises(BadInput, match="used on the CPU, not on 'meta'"):
        dura.open(tmp_path / "out", device="meta")


@pytest.mark.parametrize("place", ["dura.runs.export.write_graph", "dura.records.folder.RunFolder.describe"])
def test_an_export_that_is_cut_off_does_not_block_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    model = trained()

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(place, die)
        with pytest.raises(KeyboardInterrupt):
            model.export(tmp_path / "small", dtype="int8")
    assert any((tmp_path / "small" / "checkpoints").iterdir()) and not (tmp_path / "small" / "run.json").exists()
    assert dura.open(model.export(tmp_path / "small", dtype="int8")).describe()["tables"]["dtype"] == "int8"
    with pytest.raises(BadInput, match="is not an empty folder"):
        model.export(tmp_path / "small")


def test_a_table_that_is_missing_is_a_sentence(tmp_path: Path) -> None:
    out = trained().export(tmp_path / "out", sparse=0.5)
    tensors, state = Checkpoints(out / "checkpoints").best() or ({}, {})
    for missing, sentence in (("entity.data", "it has no 'data'"), ("relations", "it has no 'data'")):
        rest = {key: tensor for key, tensor in tensors.items() if key != missing}
        Checkpoints(out / "checkpoints").save_best(0, rest, state)
        with pytest.raises(DuraError, match=rf"out/checkpoints/best\.json: .*{sentence}"):
            dura.open(out)


MEASURE = """
import json, sys
import dura
from dura.runs.store import read_graph
from dura.records import RunFolder
from pathlib import Path

def status(key):
    return next(1024 * int(l.split()[1]) for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(key))

warm = dura.open(sys.argv[1])  # whatever is loaded by the first use of torch
warm.evaluate(), warm.predict(head="e000", relation="r0", k=3)
graph = read_graph(RunFolder.open(Path(sys.argv[2])))
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before = status("VmRSS")
trained = dura.open(sys.argv[2])
mrr = trained.evaluate("test").mrr
trained.predict(head="e0", relation="r0", k=3)
print(json.dumps({"peak": status("VmHWM") - before, "mrr": mrr}))
"""


@linux
@pytest.mark.slow
def test_memory_stays_far_below_the_dense_table(tmp_path: Path) -> None:
    """100,000 rows of 400 numbers are 160 MB dense; with a tenth of them kept, opening, ranking and asking take a fraction."""
    entities = 100_000
    facts = np.stack([np.arange(60) * 7, np.zeros(60, int), np.arange(60) * 11 + 1], axis=1).astype(np.int32)
    graph = Graph(
        "wide", Vocabulary(f"e{i}" for i in range(entities)), Vocabulary(["r0"]), facts[:40], facts[40:50], facts[50:]
    )
    torch.manual_seed(0)
    experiment = Experiment.from_dict({"graph": {"source": "wide"}, "model": {"name": "complex", "rank": 200}})
    whole = Trained(MODELS.build("complex", {"rank": 200, "init_scale": 1.0}, graph.sizes), graph, experiment)
    whole.export(tmp_path / "dense")
    whole.export(tmp_path / "sparse", sparse=0.9)
    trained().export(tmp_path / "warm", sparse=0.5)
    found = {}
    for name in ("dense", "sparse"):
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(tmp_path / "warm"), str(tmp_path / name)],
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout)
    dense = 4 * entities * 400
    assert found["dense"]["peak"] > dense  # the measure sees a dense table
    assert found["sparse"]["peak"] < dense / 3
