"""`dura text`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import JsonOption, QuietOption, counting_bar, print_json


def text(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A catalog name, a folder, or a file of facts.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write; it ends in .safetensors.")],
    encoder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A folder with a sentence-transformers model. Default: the installed one."),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Lines of a name, a tab and a text that replaces the label."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Encode the names and labels of a graph as text vectors, once, for the model 'star'.

    Examples:

        dura text wn18rr --out wn18rr.safetensors

        dura train --graph wn18rr --model star --set model.vectors=wn18rr.safetensors

        dura text facts.tsv --texts descriptions.tsv --encoder models/mine --out facts.safetensors
    """
    from dura.runs.api import load
    from dura.runs.texts import encode_graph

    loaded = load(graph)
    with counting_bar("encoding", quiet) as progress:
        vectors = encode_graph(loaded, out, encoder, texts=texts, progress=progress)
    counts = {kind: len(names) for kind, names in vectors.names.items()}
    if as_json:
        print_json({"out": str(out), "encoder": vectors.encoder, "width": vectors.width, **counts})
        return
    typer.echo(
        f"{counts['entities']:,} entities and {counts['relations']:,} relations as vectors of {vectors.width} numbers by "
        f"{vectors.encoder}: {out}"
    )
