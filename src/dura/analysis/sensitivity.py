"""Sensitivity: how MRR moves when one setting changes and the others stay the same.

Runs of the same graph, model and regularizer are a family. Runs of a family that differ only in their seed are one point. One
point of a family is its centre: the curve of a setting goes through the points that differ from the centre in that setting only.
The centre is the point from which the most settings have a curve; of several such points, the one with the best MRR. In a grid this
is the best point, as in the paper. If settings were varied one at a time around a preset, it is the preset.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dura.registry import Scalar


@dataclass(frozen=True)
class Point:
    """The results of one choice of settings: the mean, lowest and highest MRR over its seeds."""

    family: str
    settings: Mapping[str, Scalar]
    mrr: float
    low: float
    high: float
    runs: int

    def others(self, path: str) -> tuple[tuple[str, Scalar], ...]:
        """All settings except one."""
        return tuple(item for item in sorted(self.settings.items()) if item[0] != path)


def families(points: Sequence[Point]) -> list[str]:
    """The families of the points, each once."""
    return list(dict.fromkeys(point.family for point in points))


def varied(points: Sequence[Point]) -> list[str]:
    """The paths of the numeric settings that have several values within a family."""
    paths: dict[str, None] = {}
    for family in families(points):
        members = [point.settings for point in points if point.family == family]
        for path in members[0]:
            values = {settings.get(path) for settings in members}
            numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            if len(values) > 1 and numbers:
                paths[path] = None
    return sorted(paths)


def centre(points: Sequence[Point], family: str) -> Point:
    """The point of a family from which the most settings have a curve. If there are several, the one with the best MRR."""
    members = [point for point in points if point.family == family]
    curves: Counter[int] = Counter()
    for path in varied(members):
        lines: defaultdict[tuple[tuple[str, Scalar], ...], list[int]] = defaultdict(list)
        for i, point in enumerate(members):
            lines[point.others(path)].append(i)
        curves.update(i for line in lines.values() if len(line) > 1 for i in line)
    return members[max(range(len(members)), key=lambda i: (curves[i], members[i].mrr))]


def along(points: Sequence[Point], family: str, path: str) -> list[Point]:
    """The centre of a family and the points that differ from it in this setting only, ordered by the setting's value."""
    middle = centre(points, family)
    if path not in middle.settings:
        return []
    others = middle.others(path)
    return _ordered([p for p in points if p.family == family and path in p.settings and p.others(path) == others], path)


def curve_or_all(points: Sequence[Point], family: str, path: str) -> tuple[bool, list[Point]]:
    """(True, the curve of a family along a setting). Without a curve: (False, all its points), if the setting varies in them."""
    line = along(points, family, path)
    if len(line) > 1:
        return True, line
    members = [point for point in points if point.family == family and path in point.settings]
    return False, _ordered(members, path) if len({point.settings[path] for point in members}) > 1 else []


def _ordered(points: Sequence[Point], path: str) -> list[Point]:
    return sorted(points, key=lambda point: float(point.settings[path]))
