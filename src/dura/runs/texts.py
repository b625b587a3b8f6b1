"""Texts: encode the names and labels of a graph, once, and keep the vectors in a file. `dura text` calls this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dura.data.graph import Graph
from dura.encoders.vectors import KINDS, TextVectors, write_vectors
from dura.encoders.words import words
from dura.types import BadInput


def texts_of(graph: Graph, own: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """The text of each entity and each relation, by kind and name: `own`, or else the words of the label or of the name."""
    own = own or {}
    names = {"entities": list(graph.entities), "relations": list(graph.relations)}
    labels = {"entities": graph.label, "relations": graph.relation_label}
    return {kind: {name: own.get(name) or words(labels[kind](name)) for name in names[kind]} for kind in KINDS}


def encode_graph(
    graph: Graph,
    out: Path,
    encoder: Path | None = None,
    *,
    texts: Path | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> TextVectors:
    """Encode the texts of all entities and relations, and write their vectors to `out`.

    `encoder` is a folder with a sentence-transformers model; without it the installed one is used. `texts` is a file of lines with
    a name, a tab and a text, such as a description, which then replaces the label.
    """
    from dura.encoders.bert import own_folder, read_encoder

    if out.suffix != ".safetensors":
        raise BadInput(f"--out is {out}, but text vectors are kept in a file that ends in .safetensors")
    folder = own_folder() if encoder is None else encoder
    reader, found = read_encoder(folder), texts_of(graph, _read_texts(texts))
    # Equal texts are encoded once.
    distinct = list(dict.fromkeys(text for kind in KINDS for text in found[kind].values()))
    place = {text: at for at, text in enumerate(distinct)}
    every = reader.encode(distinct, progress)
    vectors = TextVectors(
        {kind: list(found[kind]) for kind in KINDS},
        {kind: every[[place[text] for text in found[kind].values()]] for kind in KINDS},
        folder.resolve().name if encoder is not None else "all-MiniLM-L6-v2",
    )
    write_vectors(out, vectors)
    return vectors


def _read_texts(path: Path | None) -> dict[str, str]:
    """The texts of a file, by name."""
    if path is None:
        return {}
    if not path.is_file():
        raise BadInput(f"there is no file {path} with texts")
    texts = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        name, tab, text = line.partition("\t")
        if not tab and line.strip():
            raise BadInput(f"{path}:{number}: a line has a name, a tab and a text")
        if text.strip():
            texts[name] = " ".join(text.split())
    return texts
