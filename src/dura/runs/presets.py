"""Presets: the settings files that come with the program, by name."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from dura.config import Experiment
from dura.registry import did_you_mean
from dura.types import BadInput


def presets(folder: Traversable | None = None) -> dict[str, Traversable]:
    """The settings files that come with the program, or those in `folder`, by their names "graph/preset"."""
    root = resources.files("dura") / "presets" if folder is None else folder
    graphs = [graph for graph in root.iterdir() if graph.is_dir()] if root.is_dir() else []
    files = [(graph, file) for graph in graphs for file in graph.iterdir() if file.name.endswith(".toml")]
    named = {f"{graph.name}/{file.name.removesuffix('.toml')}": file for graph, file in files}
    return dict(sorted(named.items()))


def preset(name: str, folder: Traversable | None = None) -> Experiment:
    """The experiment of a preset, of a settings file (a path that ends in .toml), or the best one of a sweep's folder."""
    if name.endswith(".toml"):
        return Experiment.from_toml(Path(name))
    if (best := Path(name) / "best.toml").is_file():
        return Experiment.from_toml(best)
    known = presets(folder)
    if name in known:
        return Experiment.from_toml(known[name], where=f"preset {name}")
    if Path(name).exists():
        raise BadInput(f"{name} is not a preset but a {_kind(Path(name))}: train on its facts with --graph {name}")
    same_graph = [other for other in known if other.partition("/")[0] == name.partition("/")[0]]
    last = {other.rpartition("/")[2]: other for other in known}
    hint = f"; did you mean {last[name]!r}?" if name in last else did_you_mean(name, known)
    ways = f"known are {', '.join(same_graph)}" if same_graph else "`dura presets` lists all of them"
    raise BadInput(f"the preset {name!r} is not known; {ways}, or give the path of a .toml file{hint}")


def _kind(path: Path) -> str:
    return "folder" if path.is_dir() else "file"
