"""Vectors: every format is read back by a reader that is not ours, with the same names and numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

import dura
from doubles import known, law_models
from dura.cli.main import app
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.runs.build import build_model
from dura.runs.trained import Trained
from dura.runs.vectors import export_vectors, named_tables
from dura.types import BadInput
from graphs import graph_for
from texts import options_of

STRANGE = ["Berlin", "New York", "New_York", "no\u00a0break", "ñandú"]


def untrained(name: str, graph: Graph | None = None) -> Trained:
    graph = graph_for(name) if graph is None else graph
    experiment = Experiment.from_dict({"model": {"name": name, "rank": 4, **options_of(name, graph)}})
    return Trained(build_model(experiment, graph.sizes, "cpu"), graph, experiment)


def strange() -> Graph:
    """Names with blanks, one of which collides with another when they are replaced, and a label."""
    facts = np.array([[0, 0, 1], [1, 0, 2], [2, 1, 3], [3, 1, 4]], dtype=np.int32)
    empty = facts[:0]
    labels = {"Berlin": "Hauptstadt"}
    return Graph("strange", Vocabulary(STRANGE), Vocabulary(["in", "near to"]), facts, empty, empty, labels=labels)


@pytest.mark.parametrize("name", law_models())
def test_every_tensor_of_every_model_is_written_once_and_rows_have_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = untrained(known(name, monkeypatch))
    state = trained.model.state()
    found = named_tables(trained)
    if name == "rtfe":  # it has a row per entity and span of time
        assert {one.kind for one in found} == {None}
        with pytest.raises(BadInput, match="parquet has one row per name, but the model 'rtfe' has no such table"):
            trained.export(tmp_path / "out", format="parquet")
        return
    assert sorted(one.table for one in found) == sorted(state)
    assert {one.kind for one in found} >= {"entities", "relations"}
    for one in found:
        assert np.array_equal(one.values, state[one.table].numpy())
        if one.kind is not None:
            assert len(one.names) == len(set(one.names)) == len(one.values)
    entities = next(one for one in found if one.kind == "entities")
    assert entities.names == list(trained.graph.entities)


def test_numpy(tmp_path: Path) -> None:
    trained = untrained("cp", strange())
    trained.export(tmp_path / "out", format="numpy")
    state = {name: tensor.numpy() for name, tensor in trained.model.state().items()}
    for file, table in (("entities", "entity"), ("entities.tail", "tail"), ("relations", "relations")):
        assert np.array_equal(np.load(tmp_path / "out" / f"{file}.npy", allow_pickle=False), state[table])
    assert (tmp_path / "out" / "entities.txt").read_text(encoding="utf-8").split("\n")[:-1] == STRANGE
    names = (tmp_path / "out" / "relations.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert names == ["in", "near to", "in^-1", "near to^-1"]
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert (about["format"], about["model"], about["written_as"]) == (1, "cp", "numpy")
    assert [one["file"] for one in about["files"]] == ["entities.npy", "entities.tail.npy", "relations.npy"]


def test_numpy_also_holds_the_weights_that_belong_to_no_name(tmp_path: Path) -> None:
    trained = untrained("tucker")
    trained.export(tmp_path / "out", format="numpy")
    core = np.load(tmp_path / "out" / "weights.core.npy", allow_pickle=False)
    assert np.array_equal(core, trained.model.state()["core"].numpy())


def test_parquet(tmp_path: Path) -> None:
    trained = untrained("complex", strange())
    trained.export(tmp_path / "out", format="parquet")
    table = pyarrow.parquet.read_table(tmp_path / "out" / "entities.parquet")
    assert table.column_names == ["name", "label", "vector"]
    assert table["name"].to_pylist() == STRANGE and table["label"].to_pylist()[0] == "Hauptstadt"
    assert pyarrow.types.is_fixed_size_list(table.schema.field("vector").type)
    assert np.array_equal(np.array(table["vector"].to_pylist(), dtype=np.float32), trained.model.state()["entity"])
    relations = pyarrow.parquet.read_table(tmp_path / "out" / "relations.parquet")
    assert relations.column_names == ["name", "vector"]


def test_safetensors(tmp_path: Path) -> None:
    trained = untrained("tcomplex")
    trained.export(tmp_path / "out", format="safetensors")
    tables = load_file(tmp_path / "out" / "tables.safetensors")
    state = trained.model.state()
    assert tables.keys() == state.keys()
    assert all(np.array_equal(tables[name], state[name].numpy()) for name in state)
    names = json.loads((tmp_path / "out" / "names.json").read_text())
    assert names["tables"]["entity"]["names"] == list(trained.graph.entities)
    assert names["tables"]["times"] == {"kind": "times", "names": list(trained.graph.times or ()), "labels": None}


def _text(path: Path) -> dict[str, np.ndarray]:
    """As gensim reads the text: the line is split at blanks, and must have one field more than the header's width."""
    lines = path.read_text(encoding="utf-8").split("\n")
    count, width = map(int, lines[0].split())
    found = {}
    for line in lines[1 : count + 1]:
        name, *numbers = line.rstrip().split(" ")
        assert len(numbers) == width
        found[name] = np.array([np.float32(number) for number in numbers])
    return found


def _binary(path: Path) -> dict[str, np.ndarray]:
    """As gensim reads bytes: a name ends at a blank, then come the numbers; line breaks before a name are ignored."""
    with path.open("rb") as file:
        count, width = map(int, file.readline().split())
        found = {}
        for _ in range(count):
            name = b""
            while (byte := file.read(1)) != b" ":
                name += byte if byte != b"\n" else b""
            found[name.decode()] = np.frombuffer(file.read(4 * width), dtype="<f4")
    return found


@pytest.mark.parametrize("binary", [False, True])
def test_word2vec(binary: bool, tmp_path: Path) -> None:
    """Blanks become _, and a name that is there already stays what it is."""
    trained = untrained("complex", strange())
    said: list[str] = []
    export_vectors(trained, tmp_path / "out", "word2vec", binary=binary, notify=said.append)
    read = _binary if binary else _text
    found = read(tmp_path / "out" / ("entities.bin" if binary else "entities.txt"))
    assert list(found) == ["Berlin", "New_York_", "New_York", "no_break", "ñandú"]
    assert np.array_equal(np.stack(list(found.values())), trained.model.state()["entity"].numpy())
    assert said == ["word2vec separates by blanks, so blanks in 4 names became _, such as 'New_York_' for 'New York'"]


def test_matrices_and_weights_without_names_are_said(tmp_path: Path) -> None:
    said: list[str] = []
    export_vectors(untrained("rescal"), tmp_path / "rescal", "parquet", notify=said.append)
    export_vectors(untrained("tucker"), tmp_path / "tucker", "word2vec", notify=said.append)
    assert "the matrices of relations are written row by row" in said[0]
    assert "these weights are left out: core" in said[1]
    table = pyarrow.parquet.read_table(tmp_path / "rescal" / "relations.parquet")
    assert table.schema.field("vector").type.list_size == 16


def test_packed_tables_are_written_as_numbers(tmp_path: Path) -> None:
    trained = untrained("complex")
    trained.export(tmp_path / "small", dtype="int8")
    small = dura.open(tmp_path / "small")
    small.export(tmp_path / "out", format="numpy")
    values = np.load(tmp_path / "out" / "entities.npy", allow_pickle=False)
    assert values.dtype == np.float32
    assert np.abs(values - trained.model.state()["entity"].numpy()).max() < 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "csv"}, "the format 'csv' is not known; known are numpy, parquet, word2vec, safetensors"),
        ({"format": "numpy", "binary": True}, "binary is a form of word2vec"),
        ({"format": "numpy", "sparse": 0.5}, "leave sparse, dtype and test out"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        untrained("complex").export(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_another_format_with_a_sentence(tmp_path: Path) -> None:
    untrained("complex").export(tmp_path / "run")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), str(tmp_path / "out"), "--format", "csv"])
    assert isinstance(done.exception, BadInput)
    assert str(done.exception) == "the format 'csv' is not known; known are numpy, parquet, word2vec, safetensors"
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_is_never_overwritten_and_a_failure_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(BadInput, match="exists and is not an empty folder"):
        untrained("complex").export(tmp_path / "mine", format="numpy")

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(KeyboardInterrupt):
        untrained("complex").export(tmp_path / "out", format="numpy")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
