"""gensim reads what `dura export --format word2vec` writes, as text and as bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dura

models = pytest.importorskip("gensim.models")


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_the_vectors(binary: bool, tmp_path: Path) -> None:
    trained = dura.fit(dura.load("nations"), rank=8, epochs=2, progress=False)
    trained.export(tmp_path / "out", format="word2vec", binary=binary)
    found = {}
    for kind, table in (("entities", "entity"), ("relations", "relations")):
        file = tmp_path / "out" / f"{kind}.{'bin' if binary else 'txt'}"
        found[kind] = models.KeyedVectors.load_word2vec_format(str(file), binary=binary)
        assert np.array_equal(found[kind].vectors, trained.model.state()[table].numpy())
    assert found["entities"].index_to_key == list(trained.graph.entities)
    near = [name for name, _ in found["entities"].most_similar("usa", topn=5)]
    assert near == [one.entity for one in trained.neighbours("usa", 5)]
