"""Store: graphs into the run folder and out of it again, and tables into a model.

The run keeps ids and names itself, so that it can be evaluated and queried where the original files are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dura.config import Experiment, GraphSettings
from dura.data.graph import Graph
from dura.data.loading import Shares, load_with_notes, tell
from dura.data.readers import ColumnChoice, ReadOptions
from dura.data.times import Times
from dura.data.vocabulary import Vocabulary
from dura.records import PLAIN, RunFolder, write_atomic
from dura.types import SPLITS, DuraError, IntArray


def load_graph(settings: GraphSettings, notify: Callable[[str], None] | None = None) -> Graph:
    """The graph that the settings name, read and split as they say."""
    return load_dated(settings, None, notify)[0]


def load_dated(
    settings: GraphSettings, time: int | ColumnChoice | None, notify: Callable[[str], None] | None = None
) -> tuple[Graph, GraphSettings]:
    """The graph that the settings name, with the columns of times that `time` names, and the settings with all its columns."""
    header = {"auto": None, "yes": True, "no": False}[settings.header]
    options = ReadOptions(settings.columns or None, header, settings.separator or None, settings.skip_bad, time)
    shares = Shares(
        valid=None if settings.valid_share == "auto" else settings.valid_share,
        test=None if settings.test_share == "auto" else settings.test_share,
        seed=settings.split_seed,
    )
    loaded = load_with_notes(settings.source, options, shares)
    tell(loaded.notes, notify)
    return loaded.graph, replace(settings, columns=loaded.columns or ())


def read_settings(folder: RunFolder) -> Experiment:
    """The settings that a run was started with."""
    return Experiment.from_toml(folder.settings(), where=str(folder.path / "settings.toml"))


def write_graph(folder: RunFolder, graph: Graph, version: int = PLAIN) -> None:
    """Write vocabularies, labels and facts, and what they are into run.json with the folder's format."""
    import safetensors.numpy

    write_atomic(folder.path / "entities.txt", graph.entities.text().encode())
    write_atomic(folder.path / "relations.txt", graph.relations.text().encode())
    if graph.times is not None:
        write_atomic(folder.path / "times.txt", graph.times.text().encode())
    if graph.labels:
        # A label is for reading only, so white space in it may become a blank; a name must stay what it is.
        lines = "".join(f"{name}\t{' '.join(label.split())}\n" for name, label in graph.labels.items())
        write_atomic(folder.path / "labels.tsv", lines.encode())
    facts: dict[str, IntArray] = {split: np.ascontiguousarray(graph.facts(split), dtype=np.int32) for split in SPLITS}
    write_atomic(folder.path / "facts.safetensors", safetensors.numpy.save(facts))
    folder.describe(
        graph={
            "name": graph.name,
            "digest": graph.digest,
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            **({"times": len(graph.times)} if graph.times is not None else {}),
            **{split: len(graph.facts(split)) for split in SPLITS},
        },
        version=version,
    )


def read_graph(folder: RunFolder) -> Graph:
    """The graph that a run was trained on; damage is noticed by its digest."""
    import safetensors
    import safetensors.numpy

    try:
        about = folder.about()["graph"]
        digest = str(about["digest"])
        facts = safetensors.numpy.load_file(folder.path / "facts.safetensors")
        graph = Graph(
            name=about["name"],
            entities=Vocabulary.read(folder.path / "entities.txt"),
            relations=Vocabulary.read(folder.path / "relations.txt"),
            labels=_labels(folder),
            times=Times.read(folder.path / "times.txt") if about.get("times") else None,
            train=facts["train"],
            valid=facts["valid"],
            test=facts["test"],
        )
    except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise DuraError(f"the graph in the run folder {folder.path} cannot be read: {error!r}") from None
    if graph.digest != digest:
        raise DuraError(
            f"the graph in the run folder {folder.path} was changed or damaged: its digest is not the one it was "
            "trained on; put back its names (entities.txt, relations.txt, times.txt) and facts.safetensors as they were"
        )
    return graph


def _labels(folder: RunFolder) -> dict[str, str]:
    path = folder.path / "labels.tsv"
    if not path.exists():
        return {}
    lines = path.read_bytes().decode().split("\n")[:-1]
    return dict(line.rsplit("\t", 1) for line in lines)
