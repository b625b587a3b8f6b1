"""Combining: runs of one graph become one that answers together. `dura combine` and `dura ensemble` call this.

The folder of a combination is a run folder (format 3) with the names and facts of the graph, but without tables of its own:

```
RUN/
  combined.json          {"format", "fit", "members": [{"run", "checkpoint"}, …], "fitting", …}
  weights.safetensors    what was fitted
```
A member is named by its path from the folder, so that all may be moved together. Its tables are read from its own folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dura.config import Component, Experiment
from dura.records import COMBINED, Damage, Missing, RunFolder, read_bytes, read_json, write_atomic
from dura.records.schema import check
from dura.runs.store import read_graph, read_settings, write_graph
from dura.types import BadInput, DuraError, Split

if TYPE_CHECKING:
    from torch import Tensor

    from dura.data.graph import Graph
    from dura.evaluation import Result
    from dura.inference.adaptive import Fitting
    from dura.models import Model
    from dura.models.combined import Combined
    from dura.runs.trained import Trained

Fit = Literal["relations", "equal", "adaptive"]
FITS: tuple[Fit, ...] = ("relations", "equal", "adaptive")
FILE, WEIGHTS = "combined.json", "weights.safetensors"
FORMAT = 2
"""The newest format of combined.json that this program reads, and the one it writes. In format 1 there are fewer rules, and only
the best one counts; without rules it is still written."""
MOST_WEIGHTS = 1 << 30
"""A file of weights has at most this many bytes."""
RULES = "rules"
"""Stands for the run of a member that is rules."""
_SCHEMA = {"format": int, "fit": str, "members": [{"run": str, "checkpoint": str}], "fitting": {}}
Bar = Callable[[int, int], None]


def combine(
    runs: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    fit: Fit = "relations",
    rules: bool = False,
    fitting: Fitting | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress: Bar | None = None,
) -> Trained:
    """Let runs of one graph answer together. What is returned can be evaluated, asked, calibrated and served like any run.

    `fit` says how much each run counts. "relations": weights per relation, fitted on valid facts. "equal": the same for all.
    "adaptive": the self-adaptive combination of StAR, for two runs; `fitting` has its settings. With `rules`, rules that are mined
    from the training facts are one more member. With `out` the combination is kept in a folder.

    >>> both = dura.combine(["runs/complex", "runs/rescal"], "runs/both")  # doctest: +SKIP
    >>> both.evaluate().mrr  # doctest: +SKIP
    """
    from dura import world
    from dura.runs.trained import Trained

    world.alone("combine")
    if fit not in FITS:
        raise BadInput(f"fit is {fit!r}, but it must be one of {', '.join(FITS)}")
    folder = None if out is None else Path(out)
    if folder is not None and folder.exists():
        raise BadInput(f"{folder} exists already; name a new folder with --out")
    opened = _opened([Path(run) for run in runs], device)
    if len(opened) + rules < 2:
        raise BadInput("a combination needs at least two runs, or one run and rules")
    if fit == "adaptive" and (len(opened) != 2 or rules):
        raise BadInput(
            f"fit is 'adaptive', which needs exactly two runs and no rules, not {len(opened)}; use 'relations'"
        )
    graph = opened[0].graph
    model, fitted = _fitted(opened, graph, fit, rules, fitting, seed, progress or (lambda *_: None))
    settings = Experiment(
        graph=opened[0].experiment.graph,
        model=Component("combined", {"rank": model.rank}),
        regularizer=Component("none"),
    )
    members = [(one.path, one.checkpoint) for one in opened] + [(None, "")] * rules
    trained = Trained(model.to(device), graph, settings)
    if folder is None:
        return trained
    _write(folder, trained, fit, members, fitted)
    kept = Trained(model, graph, settings, folder)  # not opened again: rules would be mined again
    kept.checkpoint = _digest((digest for _, digest in members), _tensors(model))
    return kept


def combine_and_rank(
    runs: Sequence[Path], out: Path, *, split: Split = "test", progress: Bar = lambda *_: None, **how: Any
) -> tuple[Trained, Result]:
    """Combine runs into a folder, rank the facts of a split, and keep the result in the records of the folder."""
    from dura.runs.evaluations import keep

    trained = combine(runs, out, progress=progress, **how)
    result = trained.evaluate(split, progress=progress)
    keep(out, result)
    return trained, result


def _opened(runs: Sequence[Path], device: str) -> list[Trained]:
    """The runs, if they are of the same graph and each is there once."""
    from dura.runs.trained import open_run

    opened = []
    for at, path in enumerate(runs):
        if any(os.path.realpath(path) == os.path.realpath(other) for other in runs[:at]):
            raise BadInput(f"the run {path} is named twice; name each run once")
        if (path / FILE).exists():
            raise BadInput(f"{path} is a combination already; name its members instead")
        opened.append(open_run(path, device))
        if opened[at].graph.digest != opened[0].graph.digest:
            why = _difference(opened[0].graph, opened[at].graph)
            raise BadInput(f"{runs[0]} and {path} were trained on other graphs ({why}), so they cannot answer together")
    return opened


def _difference(one: Graph, other: Graph) -> str:
    """In what two graphs differ."""
    for what in ("entities", "relations"):
        if list(getattr(one, what)) != list(getattr(other, what)):
            return f"their {what} differ"
    return "the names are the same, but facts, times or splits differ"


def _fitted(
    opened: Sequence[Trained],
    graph: Graph,
    fit: Fit,
    rules: bool,
    fitting: Fitting | None,
    seed: int,
    progress: Bar,
) -> tuple[Combined, dict[str, Any]]:
    """The combination, and what is worth knowing about how it was fitted."""
    models = _members(opened, graph, rules)
    if fit == "adaptive":
        from dura.inference.adaptive import Fitting, fit_adaptive

        chosen = fitting or Fitting(seed=seed)
        mixed = _adaptive(models, graph, chosen.best)
        fit_adaptive(mixed, graph, chosen, progress)
        return mixed, asdict(chosen)
    from dura.inference.weighing import even, weigh
    from dura.models.combined import ByRelation

    found = (weigh if fit == "relations" else even)(models, graph, seed=seed, progress=progress)
    about = {"seed": seed, "common": found.common, "ridge": found.ridge if found.ridge < float("inf") else None}
    return ByRelation(models, found.weights, found.scales), {**about, "facts": found.facts}


def _members(opened: Sequence[Trained], graph: Graph, rules: bool, written: int = FORMAT) -> list[Model]:
    """The models, and rules as they were when a folder of the `written` format was made."""
    from dura.inference.ruled import Ruled
    from dura.inference.rules import QUICK

    models = [one.model for one in opened]
    if not rules:
        return models
    return [*models, Ruled(graph) if written > 1 else Ruled(graph, further=None, effort=QUICK)]


def _adaptive(models: Sequence[Model], graph: Graph, best: int) -> Any:
    import torch

    from dura.models.combined import Adaptive

    return Adaptive(models[0], models[1], torch.from_numpy(graph.unseen), best)


# -- the folder ---------------------------------------------------------------------------------------------------------


def _write(
    out: Path, trained: Trained, fit: Fit, members: Sequence[tuple[Path | None, str]], fitted: Mapping[str, Any]
) -> None:
    """Write the folder; run.json comes last, so a folder that was cut off is no run."""
    from safetensors.torch import save

    folder = RunFolder.create(out)
    with folder.lock():
        folder.write_settings(trained.experiment.to_toml())
        write_atomic(out / WEIGHTS, save(_tensors(trained.model)))
        named = [
            {"run": RULES if path is None else os.path.relpath(path.resolve(), out.resolve()), "checkpoint": digest}
            for path, digest in members
        ]
        about = {
            "format": FORMAT if any(path is None for path, _ in members) else 1,
            "fit": fit,
            "members": named,
            "fitting": dict(fitted),
        }
        write_atomic(out / FILE, (json.dumps(about, ensure_ascii=False, indent=2) + "\n").encode())
        folder.append({"kind": "combine", "fit": fit, "members": [one["run"] for one in named]})
        write_graph(folder, trained.graph, COMBINED)


def _tensors(model: Model) -> dict[str, Tensor]:
    """What was fitted; the members' own tables stay where they are."""
    return {name: tensor.contiguous().cpu() for name, tensor in model.state().items() if name in ("weights", "scales")}


def read_about(folder: RunFolder) -> dict[str, Any]:
    """The content of combined.json."""
    path = folder.path / FILE
    try:
        about: dict[str, Any] = read_json(folder.path, FILE)
    except Missing:
        raise Damage(f"{path} is missing, so nobody knows which runs {folder.path} combines") from None
    version = about.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise DuraError(f"{path} has format {version}, but this dura reads up to {FORMAT}; update dura")
    try:
        check(about, _SCHEMA)
    except BadInput as error:
        raise Damage(f"{path} is damaged: {error}") from None
    if about["fit"] not in FITS:
        raise Damage(f"{path} is damaged: fit is none of {', '.join(FITS)}")
    return about


def open_combined(folder: RunFolder, device: str = "cpu") -> Trained:
    """Open a combination: its members, which must be as they were, and the weights."""
    from dura.runs.trained import Trained

    about, graph = read_about(folder), read_graph(folder)
    rules = any(one["run"] == RULES for one in about["members"])
    opened = [_member(folder, one, device) for one in about["members"] if one["run"] != RULES]
    for one in opened:
        if one.graph.digest != graph.digest:
            raise BadInput(f"the run {one.path} is of another graph than {folder.path}; {_again(about, folder)}")
    models = _members(opened, graph, rules, about["format"])
    weights = _read_weights(folder.path)
    trained = Trained(
        _model(folder, about, models, graph, weights).to(device), graph, read_settings(folder), folder.path
    )
    trained.checkpoint = _digest((one["checkpoint"] for one in about["members"]), weights)
    return trained


def _digest(checkpoints: Iterable[str], weights: Mapping[str, Tensor]) -> str:
    """Says which tables and weights answer, for what was made for them, such as a calibration."""
    state = [*checkpoints], {name: tensor.tolist() for name, tensor in sorted(weights.items())}
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def _member(folder: RunFolder, member: Mapping[str, str], device: str) -> Trained:
    from dura.runs.trained import open_run

    path = Path(os.path.normpath(folder.path.resolve() / member["run"]))
    if not path.is_dir():
        raise BadInput(
            f"{folder.path} combines the run {path}, which is no longer there; move it back, or combine again"
        )
    if (path / FILE).exists():
        raise Damage(f"{folder.path / FILE} is damaged: {path} is a combination itself")
    opened = open_run(path, device)
    if opened.checkpoint != member["checkpoint"]:
        raise BadInput(f"the run {path} has other tables than when {folder.path} was made; combine the runs again")
    return opened


def _again(about: Mapping[str, Any], folder: RunFolder) -> str:
    names = " ".join(one["run"] for one in about["members"] if one["run"] != RULES)
    return f"combine again, from {folder.path}: dura combine {names}"


def _read_weights(root: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(read_bytes(root, WEIGHTS, MOST_WEIGHTS))
    except Missing:
        raise Damage(f"{root / WEIGHTS} is missing; combine the runs again") from None
    except SafetensorError as error:
        raise Damage(f"{root / WEIGHTS} is damaged: {error}") from None


def _model(
    folder: RunFolder, about: Mapping[str, Any], models: Sequence[Model], graph: Graph, weights: Mapping[str, Tensor]
) -> Combined:
    """The combination of the members with the weights of the folder."""
    import torch

    from dura.models.combined import ByRelation

    damaged = Damage(f"{folder.path / WEIGHTS} does not fit {FILE}; combine the runs again")
    if not all(tensor.isfinite().all() for tensor in weights.values()) or len(models) < 2:
        raise damaged
    if about["fit"] != "adaptive":
        if weights.keys() != {"weights", "scales"}:
            raise damaged
        return ByRelation(models, weights["weights"], weights["scales"])
    best = about["fitting"].get("best")
    if weights.keys() != {"weights"} or type(best) is not int or best < 1 or len(models) != 2:
        raise damaged
    mixed: Combined = _adaptive(models, graph, best)
    own = dict(mixed.named_parameters())["weights"]
    if own.shape != weights["weights"].shape:
        raise damaged
    with torch.no_grad():
        own.copy_(weights["weights"])
    return mixed


def summary(path: Path) -> dict[str, Any]:
    """How a combination was made: its members with their weights where a relation has no facts, and the fit."""
    folder = RunFolder.open(path)
    about = read_about(folder)
    common = about["fitting"].get("common") or [None] * len(about["members"])
    names = [
        RULES if one["run"] == RULES else os.path.relpath(os.path.normpath(path.resolve() / one["run"]))
        for one in about["members"]
    ]
    members = [{"run": name, "weight": weight} for name, weight in zip(names, common, strict=False)]
    return {"fit": about["fit"], "members": members, "fitting": about["fitting"]}
