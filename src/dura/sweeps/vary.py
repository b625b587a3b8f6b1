"""Vary: train an experiment with one setting changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dura.config import Experiment
from dura.sweeps.space import Sweep
from dura.sweeps.sweep import Notify, Outcome, resume, sweep
from dura.sweeps.trials import SweepFolder
from dura.training.progress import Interrupted
from dura.types import BadInput


def vary(
    experiment: Experiment,
    over: Mapping[str, Sequence[Any]],
    out: Path,
    *,
    keep: int = 1,
    jobs: int = 1,
    notify: Notify = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train the experiment for each value of each setting in `over`, the other settings as they are, in the folder `out`.

    If this was begun in `out` before, only what is left is trained; other variations in that folder are refused.
    The tables of the best `keep` runs are kept (0: of all).

    >>> from dura.runs.presets import preset
    >>> vary(preset("umls/complex-dura"), {"model.rank": [20, 50]}, Path("studies/rank")).rows  # doctest: +SKIP
    """
    plan = Sweep(experiment, dict(over), "each", prune=False, keep=keep)
    try:
        if not (out / "sweep.toml").exists():
            return sweep(plan, out, jobs=jobs, notify=notify, stopped=stopped)
        begun = SweepFolder.open(out).plan
        if begun.changed(keep=keep) != plan.anchored():
            raise BadInput(f"{out} holds another study; name a new folder with --out")
        return resume(out, keep=min(keep, begun.keep), jobs=jobs, notify=notify, stopped=stopped)
    except Interrupted:
        raise Interrupted("the study was stopped; the same command goes on from here") from None
