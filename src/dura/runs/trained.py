"""Trained: a trained model with its graph, which can be evaluated, asked, saved and opened again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from dura.config import Experiment
from dura.data.graph import Graph
from dura.records import RunFolder
from dura.runs.answering import Answering
from dura.runs.store import check_checkpoints, read_graph, read_settings
from dura.text import shown
from dura.types import BadInput, DuraError, Filter, Split

if TYPE_CHECKING:
    from dura.data.readers import ReadOptions
    from dura.evaluation import Group, Result
    from dura.models import Model
    from dura.runs.calibrations import Calibrated
    from dura.runs.indexing import Indexed
    from dura.runs.mapping import Map, Method
    from dura.runs.vectors import Form
    from dura.tables.packed import NumberType


class Trained(Answering):
    """What `dura.fit` and `dura.open` return.

    >>> import dura
    >>> model = dura.fit(dura.load("nations"), model="complex", rank=20, epochs=5)  # doctest: +SKIP
    >>> model.evaluate().mrr, model.predict(head="usa", relation="embassy", k=3)  # doctest: +SKIP
    """

    def __init__(self, model: Model, graph: Graph, experiment: Experiment, path: Path | None = None) -> None:
        self.model, self.graph, self.experiment, self.path = model.eval(), graph, experiment, path
        from dura.training.checkpoint import Checkpoints

        # Which tables these are: another process may replace them in the folder.
        self.checkpoint = "" if path is None else Checkpoints(path / "checkpoints").digest()

    def __repr__(self) -> str:
        e = self.experiment
        return f"Trained({e.model.name} of rank {self.model.rank} with {e.regularizer.name} on {self.graph!r})"

    def evaluate(
        self,
        split: Split = "test",
        by: Group | Sequence[Group] | None = None,
        *,
        filter: Filter = "time-aware",  # noqa: A002
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Filtered ranking of both sides over a split; `by` adds metrics by side, relation or relation category.

        If facts have times, `filter="static"` leaves out what is known at any time instead of at the fact's own time.
        `progress` is called with the number of questions ranked so far and the number of all questions.
        """
        from dura.evaluation import evaluate

        return evaluate(self.model, self.graph, split, by, filter=filter, progress=progress)

    def calibrate(
        self, *, figure: str | Path | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Calibrated:
        """Fit probabilities on valid facts and measure them on test facts. From then on answers have probabilities.

        They are kept in the run folder, if there is one. `figure` is a file for the reliability diagram (.png, .svg or .pdf).
        """
        from dura.runs.calibrations import calibrate

        return calibrate(self, figure=figure, progress=progress)

    def save(self, path: str | Path) -> Path:
        """Write a run folder with settings, graph and tables; `dura.open` reads it."""
        return self.export(path)

    @overload
    def export(
        self,
        path: str | Path,
        *,
        sparse: float | None = None,
        dtype: NumberType = "float32",
        format: Form | None = None,
        binary: bool = False,
        details: Literal[False] = False,
        test: bool = False,
        progress: Callable[[int, int], None] | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Path: ...

    @overload
    def export(
        self,
        path: str | Path,
        *,
        sparse: float | None = None,
        dtype: NumberType = "float32",
        format: Form | None = None,
        binary: bool = False,
        details: Literal[True],
        test: bool = False,
        progress: Callable[[int, int], None] | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> dict[str, Any]: ...

    def export(
        self,
        path: str | Path,
        *,
        sparse: float | None = None,
        dtype: NumberType = "float32",
        format: Form | None = None,  # noqa: A002
        binary: bool = False,
        details: bool = False,
        test: bool = False,
        progress: Callable[[int, int], None] | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Path | dict[str, Any]:
        """Write a run folder with small tables, or with `format` the tables and their names for other programs.

        `sparse` is the share of the entities' entries to make zero. `dtype` is "float32", "float16" or "int8". `dura.open` reads
        the folder; the model it returns evaluates and predicts with the small tables as they are. `format` is "numpy", "parquet",
        "word2vec" (`binary` or as text) or "safetensors"; the tables are then written as they are.

        Returns the folder. With `details` it returns what `dura export` prints: the bytes that were saved and the metrics on valid
        facts before and after, with `test` also on test facts; or the files of a `format`. `progress` is called with the number of
        questions ranked so far and of all, `notify` with a sentence for each thing worth knowing.

        >>> model.export("runs/small", sparse=0.7, dtype="int8")  # doctest: +SKIP
        >>> model.export("vectors", format="parquet")  # doctest: +SKIP
        >>> model.export("runs/tiny", dtype="int8", details=True)["bytes"]  # doctest: +SKIP
        """
        from dura import world
        from dura.runs.smaller import export_and_measure, export_run

        world.alone("save and export")
        out = Path(path)
        splits: Sequence[Split] = ("valid", "test") if test else ("valid",)
        if test and not details:
            raise BadInput("test=True measures what is lost, which is returned with details=True: give both or none")
        if format is not None:
            from dura.runs.vectors import export_vectors

            if sparse is not None or dtype != "float32" or test:
                raise BadInput(
                    "a format for other programs holds the tables as they are: leave sparse, dtype and test out"
                )
            files = [asdict(one) for one in export_vectors(self, out, format, binary=binary, notify=notify)]
            return {"out": str(out), "format": format, "files": files} if details else out
        if not details:
            return export_run(self, out, sparse=sparse, dtype=dtype, notify=notify)
        report = export_and_measure(
            self, out, sparse=sparse, dtype=dtype, splits=splits, progress=progress, notify=notify
        )
        return {"out": str(out), **report}

    def fold_in(
        self,
        facts: str | Path | Iterable[Any],
        out: str | Path | None = None,
        *,
        options: ReadOptions | None = None,
        progress: Callable[[int, int], None] | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Trained:
        """The model with rows for the entities of these facts that it does not know; everything else stays as it is.

        `facts` are (head, relation, tail), a data frame or a file; `options` say how a file is read. With `out` the new run is
        written into a folder. `notify` is called with a sentence for each thing worth knowing.

        >>> grown = model.fold_in([("Potsdam", "located_in", "Germany")])  # doctest: +SKIP
        """
        from dura.runs.folding import fold_in

        folder = None if out is None else Path(out)
        return fold_in(self, facts, folder, options=options, progress=progress, notify=notify)[0]

    def index(self, *, links: int = 16, recall: float = 0.95) -> Indexed:
        """Build an index of the entities in the run folder, for `approximate` answers. Returns how good and how fast it is.

        >>> model.index().recall, model.predict(head="a", relation="likes", approximate=True)  # doctest: +SKIP
        """
        from dura.runs.indexing import build_index

        vars(self).pop("_index", None)
        return build_index(self, links=links, wanted=recall)

    def map(
        self,
        *,
        method: Method = "tsne",
        perplexity: float = 30.0,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Map:
        """Give every entity a place in the plane, near to similar ones. The places are kept in the run folder, if there is one.

        `method` is "tsne" (the extra `map`) or "pca". `perplexity` is about how many neighbours each entity has, for tsne.
        `progress` is called with the number of iterations so far and in all.

        >>> found = model.map(method="pca")  # doctest: +SKIP
        >>> found.entities, found.x, found.y  # doctest: +SKIP
        """
        from dura.runs.mapping import make_map

        return make_map(self, method=method, perplexity=perplexity, seed=seed, progress=progress)


def open_run(path: str | Path, device: str = "cpu", *, shared: bool = False) -> Trained:
    """Open a run folder with its best tables by validation. If it was never validated, these are the newest tables.

    If it is `shared`, several processes that open it keep the tables in memory only once.
    """
    if not isinstance(path, str | PathLike):
        raise BadInput(f"open takes the path of a run folder, such as 'runs/mine', not {shown(path)}")
    from dura.runs.build import open_model
    from dura.runs.export import open_exported
    from dura.training.checkpoint import Checkpoints

    folder = RunFolder.open(Path(path))
    if folder.combined:
        from dura.runs.combining import open_combined

        return open_combined(folder, device)
    experiment, graph = read_settings(folder), read_graph(folder)
    check_checkpoints(folder, experiment, graph.sizes)
    checkpoints = Checkpoints(folder.path / "checkpoints")
    best = checkpoints.best()
    if best is not None and (packed := best[1].get("packed")):
        try:
            exported = open_exported(experiment, graph.sizes, best[0], packed, device)
        except BadInput:
            raise
        except DuraError as error:
            raise DuraError(f"{folder.path / 'checkpoints' / 'best.json'}: {error}") from None
        return Trained(exported, graph, experiment, folder.path)
    newest = checkpoints.newest() if best is None else None
    if best is not None:
        state = best[0]
    elif newest is not None:
        state = {key.removeprefix("model."): tensor for key, tensor in newest[0].items() if key.startswith("model.")}
    else:
        raise BadInput(f"the run {path} holds no checkpoint yet; continue it with: dura train --resume {path}")
    model = open_model(experiment, graph.sizes, state, device, shared=shared)
    return Trained(model, graph, experiment, folder.path)
