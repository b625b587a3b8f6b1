"""Indexing: the index in a run folder is built, measured, opened, and refused if it is damaged or of other tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import dura
from dura.config import Experiment
from dura.runs.run import train
from dura.runs.trained import Trained
from dura.types import BadInput, DuraError
from graphs import random_graph


@pytest.fixture
def trained(tmp_path: Path) -> Trained:
    model = {"name": "complex", "rank": 4}
    experiment = Experiment.from_dict({"model": model, "training": {"epochs": 2, "batch": 50}})
    return train(experiment, random_graph(entities=60, facts=300), tmp_path / "run")


def test_an_index_is_built_measured_and_used(trained: Trained, tmp_path: Path) -> None:
    done = trained.index(recall=1.0)
    assert (done.entities, done.links, done.recall, done.enough) == (60, 16, 1.0, True) and done.effort >= 10
    assert set(done.single_ms) == {"exact", "index"}
    about = json.loads((tmp_path / "run" / "index" / "index.json").read_text())
    assert (about["format"], about["metric"], about["links"], about["width"]) == (1, "dot", 16, 8)
    again = dura.open(tmp_path / "run")
    exact, found = (again.predict(head="e001", relation="r0", k=5, approximate=flag) for flag in (False, True))
    assert {a.entity for a in found} <= set(again.graph.entities) and len(found) == len(exact) == 5
    assert all(not answer.known for answer in found)
    scores = again.score([("e001", "r0", answer.entity) for answer in found])
    assert [answer.score for answer in found] == pytest.approx(scores, rel=1e-5)


def test_less_recall_needs_no_more_effort(trained: Trained) -> None:
    assert trained.index(recall=0.3, links=2).effort <= trained.index(recall=1.0, links=2).effort


def test_a_run_without_an_index_says_how_to_build_one(trained: Trained) -> None:
    with pytest.raises(BadInput, match=r"the run has no index of its entities; build it with: dura index .*run"):
        trained.predict(head="e001", relation="r0", approximate=True)


def test_settings_that_make_no_sense_are_refused(trained: Trained) -> None:
    with pytest.raises(BadInput, match="the recall is 1.5"):
        trained.index(recall=1.5)
    with pytest.raises(BadInput, match="the number of links is 1, but an entity has 2 to 256"):
        trained.index(links=1)
    with pytest.raises(BadInput, match="kept in the run folder, but this model has none"):
        Trained(trained.model, trained.graph, trained.experiment).index()


def test_an_index_of_other_tables_is_refused(trained: Trained, tmp_path: Path) -> None:
    trained.index()
    other = dura.open(tmp_path / "run")
    other.model.target_table.data[0] += 1  # type: ignore[union-attr]
    with pytest.raises(BadInput, match="was built for other tables; build it again with: dura index"):
        other.predict(head="e001", relation="r0", approximate=True)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda about: about | {"format": 9}, "has format 9, but this dura reads up to 1"),
        (lambda about: about | {"links": "many"}, "index.json is damaged"),
        (lambda about: about | {"links": 7}, "a link leads to no entity"),
        (lambda about: about | {"entry": 60}, "its entry is not in all levels"),
        (lambda about: about | {"entities": 2**30}, "its tables are not those that index.json describes"),
    ],
)
def test_a_damaged_description_is_refused(damage, message: str, trained: Trained, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    trained.index()
    file = tmp_path / "run" / "index" / "index.json"
    file.write_text(json.dumps(damage(json.loads(file.read_text()))))
    with pytest.raises(DuraError, match=message):
        dura.open(tmp_path / "run").predict(head="e001", relation="r0", approximate=True)


def test_links_that_lead_nowhere_are_refused(trained: Trained, tmp_path: Path) -> None:
    trained.index()
    again = f"build it again with: dura index {tmp_path / 'run'}$"
    file = tmp_path / "run" / "index" / "links.safetensors"
    tables = load_file(file)
    tables["neighbours"] = np.full_like(tables["neighbours"], 1_000_000)
    save_file(tables, file)
    with pytest.raises(DuraError, match=f"a link leads to no entity; {again}"):
        dura.open(tmp_path / "run").predict(head="e001", relation="r0", approximate=True)
    file.write_bytes(b"nothing")
    with pytest.raises(DuraError, match=f"links.safetensors.*; {again}"):
        dura.open(tmp_path / "run").predict(head="e001", relation="r0", approximate=True)
    file.unlink()
    with pytest.raises(DuraError, match=f"links.safetensors.*; {again}"):
        dura.open(tmp_path / "run").predict(head="e001", relation="r0", approximate=True)
    (file.parent / "index.json").write_text('{"format": 1')
    with pytest.raises(DuraError, match=f"index.json cannot be read.*; {again}"):
        dura.open(tmp_path / "run").predict(head="e001", relation="r0", approximate=True)
