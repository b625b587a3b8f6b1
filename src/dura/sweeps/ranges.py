"""Ranges: what a sweep without a file varies, and which values it tries next.

The ranges lie around the settings that `dura train` would use. The first trial has these settings, the next ones change only the
weight of the regularizer, which matters most. Then Optuna's TPE chooses from what was good so far.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dura.config import Experiment
from dura.registry import Scalar
from dura.runs.build import complete
from dura.sweeps.space import Axis, Choice, Range, Values

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Space = dict[str, Axis]

AROUND: dict[str, tuple[float, float]] = {
    "regularizer.weight": (1 / 20, 8),
    "regularizer.lambda1": (1 / 2, 2),
    "regularizer.lambda2": (1 / 2, 2),
    "regularizer.lambda3": (1 / 10, 10),
    "regularizer.lambda4": (1 / 10, 10),
    "optimizer.lr": (1 / 4, 3),
    "loss.margin": (1 / 3, 3),
    "smoothness.weight": (1 / 10, 10),
}
"""How far below and above its default each setting is searched, as factors."""
FIRST = (1.0, 1 / 3, 3.0)
"""The weights of the first trials, as factors of the default: small and dense graphs want much less, sparse ones more."""
STARTUP = 6
"""TPE draws at random until it knows this many trials."""


def space_of(experiment: Experiment, batches: Sequence[int], *, sampled: bool, fixed: Collection[str]) -> Space:
    """What is varied around an experiment: weights and rates by factors, the batch among `batches`. `fixed` settings stay.

    >>> space_of(Experiment(), [250, 500], sampled=False, fixed=["optimizer.lr"])["regularizer.weight"]
    Range(low=0.001, high=0.16, log=True, step=None)
    """
    known = complete(experiment).by_path()
    space: Space = {}
    for path, (less, more) in AROUND.items():
        value = known.get(path)
        if path not in fixed and isinstance(value, int | float) and value > 0:
            space[path] = Range(float(f"{value * less:.6g}"), float(f"{value * more:.6g}"), log=True)
    if len(batches) > 1:
        space["training.batch"] = Choice(tuple(batches))
    if sampled and "candidates.draw" not in fixed:
        space["candidates.draw"] = Choice(("uniform", "frequency"))
    return space


def proposed(
    space: Space, experiment: Experiment, tried: Sequence[tuple[Values, float]], number: int, seed: int
) -> Values:
    """The values of the next trial. `number` trials were made so far; `tried` are those with a valid MRR.

    What is drawn follows from the seed, the number and the trials before.
    """
    known = complete(experiment).by_path()
    start: Values = {path: _inside(axis, known[path]) for path, axis in space.items()}
    weight = start.get("regularizer.weight")
    first = FIRST if isinstance(weight, float) else FIRST[:1]
    if number < len(first):
        return (
            start
            if number == 0
            else {**start, "regularizer.weight": float(f"{float(str(weight)) * first[number]:.6g}")}
        )
    return _by_tpe(space, tried, int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))


def _by_tpe(space: Space, tried: Sequence[tuple[Values, float]], seed: int) -> Values:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ways = {path: _distribution(axis) for path, axis in space.items()}
    with warnings.catch_warnings():
        # The settings of a group depend on each other; Optuna calls the option that knows this experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for values, mrr in tried:
        known = {path: _clamped(space[path], value) for path, value in values.items()}
        study.add_trial(optuna.trial.create_trial(params=known, distributions=ways, value=mrr))
    drawn: Mapping[str, Scalar] = study.ask(ways).params
    return {
        path: _clamped(space[path], float(f"{value:.4g}") if isinstance(value, float) else value)
        for path, value in drawn.items()
    }


def _distribution(axis: Axis) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(axis, Choice):
        return CategoricalDistribution(axis.values)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _clamped(axis: Axis, value: Scalar) -> Scalar:
    """The value inside of its axis. What is drawn is rounded to four digits, which may lie just outside.

    >>> _clamped(Range(0.75, 3.003, log=True), 3.00304)
    3.003
    """
    return min(max(value, axis.low), axis.high) if isinstance(axis, Range) and isinstance(value, float) else value


def _inside(axis: Axis, value: object) -> Scalar:
    """The value of the settings, as the axis has it."""
    if isinstance(axis, Choice):
        return value if value in axis.values else axis.values[0]
    assert isinstance(value, int | float)
    return float(value)
