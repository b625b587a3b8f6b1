"""Fitting: the settings of a run for this graph and the time that the user allows.

What a user did not choose comes from the graph (`defaults`), from short trainings (`weight`) and from measured steps (`minutes`). A
preset is taken as it is, except that `minutes` changes its epochs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from dura import world
from dura.config import Experiment
from dura.data.graph import Graph
from dura.runs.auto import settle_precision, settle_threads
from dura.runs.build import build, complete
from dura.runs.choices import Choices
from dura.runs.defaults import MANY, Outline, applies, fit_to, summary
from dura.runs.minutes import check_minutes, within
from dura.runs.texts import encode_ahead
from dura.runs.weight import Attempt, find_weight, searched
from dura.types import BadInput

SEARCHING = 0.25
"""The search for a weight may take this share of the minutes."""


class Clock:
    """The time that a run may take, from now on."""

    def __init__(self, minutes: float | None) -> None:
        self._all, self._began = math.inf if minutes is None else check_minutes(minutes), time.monotonic()
        if minutes is not None and world.size() > 1:
            raise BadInput("--minutes measures one process: give several processes a number of epochs (--epochs)")

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._all < math.inf

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._all - (time.monotonic() - self._began)


def fitted(
    experiment: Experiment,
    graph: Graph,
    choices: Choices,
    clock: Clock,
    attempt: Attempt,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Experiment, list[str]]:
    """The settings of a run, and sentences that say what was chosen and why."""
    own, said = not choices.preset and applies(experiment), list[str]()
    if own:
        experiment = fit_to(experiment, outline := Outline.of(graph), choices.chosen)
    if clock.limited and experiment.training.batch == "auto":
        raise BadInput("--minutes needs a number of questions per step: leave out --batch auto")
    search = own and world.size() == 1 and searched(experiment, graph, choices.chosen)
    if search or clock.limited:
        build(complete(experiment), graph.sizes)  # a wrong setting is refused before anything is tried
    if own and clock.limited and "training.precision" not in choices.chosen and len(graph.entities) > MANY:
        experiment = experiment.with_value("training.precision", "auto")  # smaller graphs have time enough
    if experiment.training.precision == "auto" and world.size() == 1:
        experiment, sentence = settle_precision(experiment, graph.sizes)
        said.append(sentence)
    if own and clock.limited:
        experiment, sentence = settle_threads(experiment, graph)
        said += [sentence] if sentence else []
    if search:
        experiment, sentence = find_weight(experiment, graph, attempt, tell, SEARCHING * clock.left)
        said.append(sentence)
    if clock.limited:
        encode_ahead(experiment, graph, tell)
        experiment, sentence = within(clock.left, experiment, graph, choices.chosen)
        said.append(sentence)
    if own:
        said.insert(0, summary(experiment, outline))
    return experiment, said
