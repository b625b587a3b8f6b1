"""Text vectors and tiny encoders for tests."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dura.data.graph import Graph
from dura.encoders.vectors import TextVectors, write_vectors
from dura.models import MODELS

WIDTH = 5
_FOLDER = tempfile.TemporaryDirectory(prefix="dura-texts-")


@cache
def vectors_for(graph_names: tuple[tuple[str, ...], tuple[str, ...]], width: int) -> str:
    """A file with a random vector for each of these entities and relations."""
    rng = np.random.default_rng(3)
    names = dict(zip(("entities", "relations"), map(list, graph_names), strict=True))
    rows = {kind: rng.normal(size=(len(own), width)).astype(np.float32) for kind, own in names.items()}
    path = Path(_FOLDER.name) / f"{abs(hash(graph_names))}-{width}.safetensors"
    write_vectors(path, TextVectors(names, rows, "random"))
    return str(path)


def options_of(name: str, graph: Graph, width: int = WIDTH) -> dict[str, Any]:
    """The settings that a model needs besides its rank, to be trained on this graph: a file of text vectors, or nothing."""
    if "vectors" not in MODELS.options(name):
        return {}
    return {"vectors": vectors_for((tuple(graph.entities), tuple(graph.relations)), width), "width": width}


def settings_of(name: str, graph: Graph) -> dict[str, Any]:
    """The same by path, as `dura.fit` takes them."""
    return {f"model.{key}": value for key, value in options_of(name, graph).items()}


WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "able",
    "cat",
    "dog",
    "eats",
    "mouse",
    "noun",
    "person",
    "runs",
    "the",
    "tree",
    "verb",
    ",",
    "1",
    "2",
    "##s",
]


def tiny_encoder(folder: Path, *, pooling: str = "mean", unit: bool = True, prefix: str = "", hidden: int = 16) -> Path:
    """A folder with a random BERT of two layers and a vocabulary of a few words, as sentence-transformers writes it."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    (folder / "1_Pooling").mkdir(parents=True)
    config = {
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": hidden, "num_attention_heads": 4, "num_hidden_layers": 2,
        "intermediate_size": 2 * hidden, "layer_norm_eps": 1e-12, "max_position_embeddings": 12, "vocab_size": len(WORDS),
        "pad_token_id": 0, "type_vocab_size": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8}))
    modes = {f"pooling_mode_{way}": way.startswith(pooling) for way in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    kinds = ["Transformer", "Pooling", *(["Normalize"] if unit else [])]
    modules = [{"idx": i, "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    tokenizer = Tokenizer(models.WordPiece({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(1)
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), hidden),
        "embeddings.position_embeddings.weight": (12, hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
        **_norm("embeddings.LayerNorm", hidden),
    }
    for number in range(2):
        layer = f"encoder.layer.{number}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _linear(f"{layer}.attention.{part}", hidden, hidden)
        shapes |= _norm(f"{layer}.attention.output.LayerNorm", hidden) | _norm(f"{layer}.output.LayerNorm", hidden)
        shapes |= _linear(f"{layer}.intermediate.dense", hidden, 2 * hidden)
        shapes |= _linear(f"{layer}.output.dense", 2 * hidden, hidden)
    save_file({prefix + name: torch.randn(shape) for name, shape in shapes.items()}, folder / "model.safetensors")
    return folder


def _linear(name: str, given: int, made: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (made, given), f"{name}.bias": (made,)}


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
