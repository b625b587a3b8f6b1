"""Texts: encode the names and labels of a graph, once, and keep the vectors in a file.

`dura text` writes the file that the user names. Training a model that knows texts keeps one in the cache if the settings name none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from dura import world
from dura.config import Experiment
from dura.data.catalog import cache_folder
from dura.data.graph import Graph
from dura.encoders.vectors import KINDS, TextVectors, write_vectors
from dura.encoders.words import words
from dura.models import MODELS, Model
from dura.models.textual import StAR
from dura.types import BadInput, DuraError

OWN_ENCODER = "all-MiniLM-L6-v2"
"""The name of the encoder that the extra `text` installs."""


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
    if out.suffix != ".safetensors":
        raise BadInput(f"--out is {out}, but text vectors are kept in a file that ends in .safetensors")
    vectors = _encoded(texts_of(graph, _read_texts(texts)), encoder, progress)
    write_vectors(out, vectors)
    return vectors


def _encoded(
    found: Mapping[str, Mapping[str, str]], encoder: Path | None, progress: Callable[[int, int], None]
) -> TextVectors:
    from dura.encoders.bert import own_folder, read_encoder

    folder = own_folder() if encoder is None else encoder
    reader = read_encoder(folder)
    # Equal texts are encoded once.
    distinct = list(dict.fromkeys(text for kind in KINDS for text in found[kind].values()))
    place = {text: at for at, text in enumerate(distinct)}
    every = reader.encode(distinct, progress)
    return TextVectors(
        {kind: list(found[kind]) for kind in KINDS},
        {kind: every[[place[text] for text in found[kind].values()]] for kind in KINDS},
        folder.resolve().name if encoder is not None else OWN_ENCODER,
    )


def show_graph(model: Model, graph: Graph, notify: Callable[[str], None] = lambda _: None) -> None:
    """Let a model read the names of a graph and observe its train facts, before its first step or score.

    A model that knows texts gets a file of vectors first, if its settings name none.
    """
    if isinstance(model, StAR) and not model.vectors:
        model.vectors = str(world.together(lambda: kept_vectors(graph, notify)))
    model.read_names(graph.entities, graph.relations)
    model.observe(graph.train, list(graph.times or ()))


def encode_ahead(experiment: Experiment, graph: Graph, notify: Callable[[str], None]) -> None:
    """Encode the names of a graph before steps are measured, if the model needs that: it takes time, and a user should know why."""
    knows_texts = issubclass(MODELS.get(experiment.model.name), StAR)
    if knows_texts and not experiment.model.options.get("vectors"):
        kept_vectors(graph, notify)


def kept_vectors(graph: Graph, notify: Callable[[str], None] = lambda _: None) -> Path:
    """The file in the cache with the vectors of this graph by the installed encoder. It is made if it is not there."""
    import filelock

    found = texts_of(graph)
    digest = hashlib.sha256(json.dumps([OWN_ENCODER, found]).encode()).hexdigest()
    path = cache_folder() / "text" / f"{digest[:32]}.safetensors"
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                count = sum(map(len, found.values()))
                notify(f"the names of {count:,} entities and relations are encoded once and kept in {path}")
                write_vectors(path, _encoded(found, None, lambda *_: None))
    except OSError as error:
        raise DuraError(f"the cache {path.parent} cannot be written ({error.strerror}); set DURA_CACHE") from None
    return path


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
