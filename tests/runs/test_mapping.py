"""The map of a run: places of entities, kept in the run folder for its tables only."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dura
from dura.analysis.layout import framed, principal
from dura.data.entity_facts import fact_counts
from dura.runs import mapping
from dura.runs.mapping import FILE, find_map, most_facts
from dura.types import BadInput, DuraError, Notice


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "umls"
    dura.fit(dura.load("umls"), out=path, model="complex", rank=10, epochs=8, progress=False)
    return path


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


def test_components_are_those_of_the_singular_values() -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((500, 40)) * np.linspace(3, 0.3, 40)
    found = principal(lambda a, b: table[a:b], 500, 2, block=64)
    u, s, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    expected = u[:, :2] * s[:2]
    assert np.allclose(np.abs(found), np.abs(expected), atol=0.02 * s[0])


def test_few_dimensions_are_filled_with_zeros() -> None:
    table = np.arange(6.0)[:, None]
    assert principal(lambda a, b: table[a:b], 6, 3)[:, 1:].tolist() == [[0.0, 0.0]] * 6
    assert framed(np.zeros((3, 2))).tolist() == [[0.0, 0.0]] * 3  # a collapsed model


@pytest.mark.slow
def test_tsne_is_stored_and_found_again(copy: Path) -> None:
    told: list[tuple[int, int]] = []
    model = dura.open(copy)
    made = model.map(progress=lambda done, total: told.append((done, total)))
    assert (made.method, len(made), told[-1]) == ("tsne", 135, (750, 750))
    assert np.abs(np.concatenate([made.x, made.y])).max() == 1
    again = find_map(dura.open(copy))
    assert again.x.tolist() == made.x.tolist()
    # Entities that are near in embedding are nearer on the map than others are.
    places = np.stack([made.x, made.y], 1)
    names = {name: i for i, name in enumerate(model.graph.entities)}
    near = [
        np.linalg.norm(places[names[e]] - places[names[model.neighbours(e, 1)[0].entity]]) for e in list(names)[:40]
    ]
    far = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert np.median(near) < 0.35 * np.median(far)


def test_without_a_stored_map_there_is_a_pca(copy: Path) -> None:
    found = find_map(dura.open(copy))
    assert found.method == "pca"
    assert not (copy / FILE).exists()
    document = found.to_dict(dura.open(copy).graph)
    assert (document["labels"], document["types"], len(document["x"])) == (None, None, 135)
    assert document["facts"] == fact_counts(dura.open(copy).graph)[0].tolist()
    assert "left_out" not in document


def test_a_map_of_other_tables_is_not_used(copy: Path) -> None:
    dura.open(copy).map(method="pca")
    about = json.loads((copy / FILE).read_text())
    (copy / FILE).write_text(json.dumps({**about, "method": "tsne", "checkpoint": "0" * 64}))
    with pytest.warns(Notice, match="other tables.*dura map"):
        assert find_map(dura.open(copy)).method == "pca"


@pytest.mark.parametrize(
    "change",
    [{"x": [2.0]}, {"x": []}, {"method": "umap"}, {"entities": "all"}, {"entities": [0] * 135}, {"format": 9}],
    ids=["outside", "lengths", "method", "type", "twice", "format"],
)
def test_a_damaged_map_is_one_sentence(copy: Path, change: dict[str, object]) -> None:
    dura.open(copy).map(method="pca")
    about = json.loads((copy / FILE).read_text())
    (copy / FILE).write_text(json.dumps(about | change))
    with pytest.raises(DuraError, match=r"map\.json .*dura map"):
        find_map(dura.open(copy))


def test_large_graphs_keep_the_entities_with_most_facts(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = dura.open(copy)
    monkeypatch.setattr(mapping, "most_facts", lambda graph: most_facts(graph, 20))
    made = model.map(method="pca")
    counts = fact_counts(model.graph)[0]
    assert made.left_out == 115
    assert counts[made.entities].min() >= np.sort(counts)[-20]
    assert made.to_dict(model.graph)["left_out"] == 115


def test_wrong_wishes_are_refused(run: Path) -> None:
    model = dura.open(run)
    with pytest.raises(BadInput, match="tsne and pca"):
        model.map(method="umap")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="perplexity is 0"):
        model.map(perplexity=0)


def test_command_line(copy: Path) -> None:
    from dura.__main__ import app

    done = CliRunner().invoke(app, ["map", str(copy), "--method", "pca", "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["method"], told["entities"], told["left_out"]) == ("pca", 135, 0)
    assert Path(told["file"]).is_file()
    shown = CliRunner().invoke(app, ["map", str(copy), "--method", "pca"])
    assert "135 entities placed by pca" in shown.stdout
