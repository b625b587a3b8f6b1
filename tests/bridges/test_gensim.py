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
    for kind, names in (("entities", list(trained.graph.entities)), ("relations", None)):
        file = tmp_path / "out" / f"{kind}.{'bin' if binary else 'txt'}"
        read = models.KeyedVectors.load_word2vec_format(str(file), binary=binary)
        table = next(one for name, one in trained.model.state().items() if name.startswith(kind[:6]))
        assert np.array_equal(read.vectors, table.numpy())
        assert names is None or read.index_to_key == names
    near = [name for name, _ in models.KeyedVectors.load_word2vec_format(
        str(tmp_path / "out" / f"entities.{'bin' if binary else 'txt'}"), binary=binary).most_similar("usa", topn=5)]  # fmt: skip
    assert near == [one.entity for one in trained.neighbours("usa", 5)]
