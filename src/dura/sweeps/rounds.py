"""Rounds: measure, search by rounds, and train the best settings with the rest of the time.

The search has three rounds. The first one tries many settings for a few epochs, and the best third goes on three times as long,
twice (successive halving). A trial keeps its run folder, so it goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from dura.config import Experiment
from dura.data.graph import Graph
from dura.records import RunFolder, best_epoch, curve
from dura.runs.store import read_settings
from dura.runs.texts import encode_ahead
from dura.runs.timing import epoch_seconds, valid_seconds
from dura.runs.weight import part_of_valid
from dura.sweeps.attempt import attempt
from dura.sweeps.clock import Clock, Until
from dura.sweeps.found import Found, outcome, row_of, varied
from dura.sweeps.journal import Entry, Journal
from dura.sweeps.ranges import Space, proposed, space_of
from dura.sweeps.shape import SEARCH, choose_shape
from dura.sweeps.trials import TrialRow
from dura.training.progress import Interrupted
from dura.words import duration

ROUNDS = (0.45, 0.75, 1.0)
"""When each round of the search ends, as a share of the search."""
MOST_TRIALS, FEWER = 36, 3
"""The most trials of the first round. Each further round has a third of them, and three times the epochs."""
SAFE = 0.8
"""A last training is planned for this share of the time that is left, because epochs are not all equally fast."""
VALIDATING = 0.15
"""Validation may take this share of the time of training."""
WORTH = 0.6
"""A further training is begun only if it can have this share of the epochs of the first one."""

Notify = Callable[[TrialRow, float, float], None]
"""Called with each finished trial, the seconds that have passed, and all seconds."""


class Search:
    """A timed sweep at work."""

    def __init__(
        self,
        journal: Journal,
        graph: Graph,
        clock: Clock,
        tell: Callable[[str], None],
        notify: Notify,
        stopped: Callable[[], bool],
    ) -> None:
        self.journal, self.graph, self.clock = journal, graph, clock
        self.tell, self.notify, self.stopped = tell, notify, stopped
        self.some: dict[int, Graph] = {}

    def run(self) -> Found:
        """Do what is left to do."""
        journal = self.journal
        with journal.lock():
            journal.save(self.clock.spent)
            try:
                self._measure()
                self._rounds()
                self._finals()
            except Interrupted:
                journal.save(self.clock.spent)
                raise Interrupted(
                    f"the sweep was stopped after {duration(self.clock.spent)} of {duration(self.clock.all)}; continue with: "
                    f"dura sweep --resume {journal.path}"
                ) from None
            journal.save(self.clock.spent)
        return outcome(journal.path)

    def _measure(self) -> None:
        journal, count = self.journal, len(self.journal.models)
        for place in range(len(journal.shapes), count):
            encode_ahead(journal.models[place], self.graph, self.tell)
            shape = choose_shape(
                journal.models[place],
                self.graph,
                search=SEARCH * ROUNDS[0] * self.clock.all / count,
                final=(1 - SEARCH) * SAFE * self.clock.all,
                fixed=journal.fixed,
                left=self.clock.left / count,
            )
            journal.shapes.append(shape)
            journal.save(self.clock.spent)
            for sentence in shape.why:
                self.tell(sentence if count == 1 else f"{journal.models[place].model.name}: {sentence}")

    # -- the search ---------------------------------------------------------------------------------------------------

    def _rounds(self) -> None:
        most = MOST_TRIALS if self._searched else 0
        for number, end in enumerate(ROUNDS):
            until = SEARCH * end * self.clock.all
            self._round(number, until, most)
            most = max(2, most // FEWER) if most else 0
        best = self._ranked()[:1]
        for entry in self.journal.trials:
            if entry.state == "running":
                # The best one competes with the long trainings if it was judged by the same valid facts.
                same = self.journal.shapes[entry.model].valid == len(self.graph.valid)
                entry.state = "complete" if entry in best and same else "pruned"
        self._tidy()

    @property
    def _searched(self) -> list[int]:
        """The models for which there is time to search."""
        return [place for place, shape in enumerate(self.journal.shapes) if shape.epochs]

    def _ranked(self) -> list[Entry]:
        """The trials that were validated, those that came farthest first, and the best of them first."""
        made = (entry for entry in self.journal.trials if entry.mrr)
        return sorted(made, key=lambda entry: (-len(entry.mrr), -entry.mrr[-1], entry.number))

    def _round(self, number: int, until: float, most: int) -> None:
        """Train trials to the end of this round: new ones in the first, the best third of the round before in the others."""
        made = [entry for entry in self.journal.trials if len(entry.mrr) > number]
        while (
            len(made) < most
            and (self.clock.spent < until or len(made) < 2)
            and self.clock.spent < SEARCH * self.clock.all
        ):
            entry = self._new() if number == 0 else self._next(number)
            if entry is None or (
                (made or number) and self.clock.spent + self._seconds(entry, number) > self._search_end
            ):
                self.journal.trials = [
                    e for e in self.journal.trials if e is not entry or e.mrr or self._run(e.name).exists()
                ]
                return
            self._train(entry, number)
            if len(entry.mrr) > number:
                made.append(entry)
            elif not entry.failure:
                return  # the time is up

    def _new(self) -> Entry:
        """The trial that was stopped, or a new one."""
        journal = self.journal
        for entry in journal.trials:
            if not entry.mrr and entry.state == "running":
                return entry
        number, searched = len(journal.trials) + len(journal.finals), self._searched
        place = searched[len(journal.trials) % len(searched)]
        own = [entry for entry in journal.trials if entry.model == place]
        tried = [(entry.values, entry.mrr[0]) for entry in own if entry.mrr]
        values = proposed(self._space(place), self._small(place), tried, len(own), journal.seed + 1000 * place)
        journal.trials.append(entry := Entry(number, place, values))
        return entry

    def _next(self, number: int) -> Entry | None:
        """The best trial that is not in this round yet, if it belongs to the best third of the round before."""
        before = [entry for entry in self.journal.trials if len(entry.mrr) >= number]
        best = sorted(before, key=lambda entry: (-entry.mrr[number - 1], entry.number))
        good = best[: max(2, math.ceil(len(best) / FEWER))]
        return next((entry for entry in good if len(entry.mrr) == number and entry.state == "running"), None)

    def _train(self, entry: Entry, number: int) -> None:
        """Train a trial to the end of a round."""
        experiment = self._trial(entry)
        epochs = experiment.training.validate_every * FEWER**number
        until = Until(epochs)
        self._attempt(entry, experiment, self._graph(entry.model), until, lambda: self.clock.spent > self._search_end)
        if entry.failure:
            entry.state = "failed"
        else:
            records = curve(RunFolder(self._run(entry.name)).records())
            scores = [r["valid"]["mrr"] for r in records if "valid" in r and r["epoch"] <= epochs]
            if scores and records[-1]["epoch"] >= epochs:
                entry.mrr.append(max(scores))
        self._done(entry)

    def _seconds(self, entry: Entry, number: int) -> float:
        """About how long a trial takes to the end of a round, from the round before."""
        shape, experiment = self.journal.shapes[entry.model], self._trial(entry)
        took = shape.batches.get(str(experiment.training.batch), 0.0)
        epochs = experiment.training.validate_every * (FEWER**number - (FEWER ** (number - 1) if number else 0))
        return float(took * epochs)

    @property
    def _search_end(self) -> float:
        return SEARCH * self.clock.all * 1.04

    def _attempt(
        self, entry: Entry, experiment: Experiment, graph: Graph, until: Until, late: Callable[[], bool]
    ) -> None:
        """Train until an epoch is reached or it is late; raises Interrupted if the user stops."""
        try:
            entry.failure = attempt(
                experiment,
                self._run(entry.name),
                graph,
                listeners=(until,),
                stopped=lambda: self.stopped() or until.there or late(),
            )
        except Interrupted:
            if self.stopped():
                raise

    def _done(self, entry: Entry) -> None:
        self.journal.save(self.clock.spent)
        row = row_of(self.journal, entry, varied(self.journal))
        state = f"round {len(entry.mrr)}" if entry.state == "running" else entry.state
        self.notify({**row, "state": state}, self.clock.spent, self.clock.all)

    def _space(self, place: int) -> Space:
        shape = self.journal.shapes[place]
        sampled = "candidates.name" in shape.settings
        batches = [int(batch) for batch in shape.batches]
        return space_of(self._small(place), batches, sampled=sampled, fixed=self.journal.fixed)

    def _small(self, place: int) -> Experiment:
        """The settings of a model at the size of the search."""
        shape = self.journal.shapes[place]
        rank = {} if shape.search_rank is None else {"model.rank": shape.search_rank}
        return self.journal.models[place].with_values({**shape.settings, **rank})

    def _trial(self, entry: Entry) -> Experiment:
        shape, small = self.journal.shapes[entry.model], self._small(entry.model)
        batch = int(str(entry.values.get("training.batch", small.training.batch)))
        first = shape.epochs_of(batch, int(str(small.training.batch)))
        length = {
            "training.epochs": first * FEWER ** (len(ROUNDS) - 1),
            "training.validate_every": first,
            "training.patience": 0,
            "training.anneal": 0,
        }
        return small.with_values({**length, **entry.values})

    def _graph(self, place: int) -> Graph:
        """The graph of the search: with a part of the valid facts, if ranking all takes long."""
        if place not in self.some:
            self.some[place] = part_of_valid(self.graph, self.journal.shapes[place].valid, self.journal.seed)
        return self.some[place]

    def _run(self, name: str) -> Path:
        return self.journal.path / "runs" / name

    def _tidy(self) -> None:
        """Remove the tables of the search: settings and records stay."""
        for entry in (entry for entry in self.journal.trials if entry.state != "complete"):
            for file in (self._run(entry.name) / "checkpoints").glob("*"):
                file.unlink(missing_ok=True)

    # -- the last trainings -------------------------------------------------------------------------------------------

    def _finals(self) -> None:
        """Train the best settings as long as there is time: what was stopped first, then one after the other."""
        for entry in self.journal.finals:
            if entry.state == "running" and self.clock.left > 0:
                self._finish(entry, read_settings(RunFolder.open(self._run(entry.name))))
        made = [(final.model, final.values, final.falling) for final in self.journal.finals]
        for entry, why, falling in self._queue():
            if (entry.model, entry.values, falling) in made:
                continue
            experiment = self._long(entry, falling)
            if experiment is None:
                return
            number = len(self.journal.trials) + len(self.journal.finals)
            final = Entry(number, entry.model, dict(entry.values), why=why, falling=falling)
            self.journal.finals.append(final)
            self._finish(final, experiment)

    def _queue(self) -> list[tuple[Entry, str, bool]]:
        """What is worth a long training, the most promising first."""
        ranked = self._ranked()
        known = {entry.model for entry in ranked}
        unknown = [place for place in range(len(self.journal.models)) if place not in known]
        plain = [(Entry(0, place, {}), "the default settings, without a search", True) for place in unknown]
        if not ranked:
            return plain
        queue = [(ranked[0], "the best settings of the search", True), *plain]
        first = next(entry for entry in self.journal.trials if entry.model == ranked[0].model)
        if first is not ranked[0] and first.mrr:
            queue.append((first, "the default settings", True))
        others = [entry for entry in ranked[1:] if entry is not first]
        queue += [(entry, f"number {i} of the search", True) for i, entry in enumerate(others[:1], start=2)]
        queue += [(ranked[0], "the best settings, with a learning rate that stays", False)]
        queue += [(entry, f"number {i} of the search", True) for i, entry in enumerate(others[1:3], start=3)]
        return queue

    def _long(self, entry: Entry, falling: bool) -> Experiment | None:
        """The settings of a long training that fits into the rest of the time; None if none fits."""
        shape, base = self.journal.shapes[entry.model], self.journal.models[entry.model]
        rank = {} if shape.final_rank is None else {"model.rank": shape.final_rank}
        chosen = base.with_values({**shape.settings, **rank, **entry.values})
        if self.clock.left <= 0:
            return None
        epoch, ranking = epoch_seconds(chosen, self.graph), valid_seconds(chosen, self.graph)
        every = max(1, math.ceil(ranking / (VALIDATING * epoch)))
        most = base.training.epochs
        ways = len({place for place in range(len(self.journal.models)) if place not in self._tried}) or 1
        epochs = min(most, int(SAFE * self.clock.left / ways / (epoch + ranking / every)))
        for first in [final for final in self.journal.finals if final.model == entry.model][:1]:
            if epochs < WORTH * read_settings(RunFolder.open(self._run(first.name))).training.epochs:
                return None
        epochs = max(1, epochs)
        length = {
            "training.epochs": epochs,
            "training.validate_every": max(1, min(every, epochs // 4)),
            "training.anneal": epochs // 2 if falling else 0,
            "training.patience": 0 if falling else 10,
        }
        return chosen.with_values({path: value for path, value in length.items() if path not in self.journal.fixed})

    @property
    def _tried(self) -> set[int]:
        """The models that were searched or trained for long. The others still need their share of the time."""
        ahead = {final.model for final in self.journal.finals}
        return ahead | (set(self._searched) if self.journal.finals else set(self._searched[1:]))

    def _finish(self, entry: Entry, experiment: Experiment) -> None:
        self._attempt(entry, experiment, self.graph, Until(experiment.training.epochs), lambda: self.clock.left < 0)
        top = best_epoch(RunFolder(self._run(entry.name)).records()) if not entry.failure else None
        entry.state = "complete" if top else "failed" if entry.failure else "running"
        entry.mrr = [top["valid"]["mrr"]] if top else []
        self._done(entry)
