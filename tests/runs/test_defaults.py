"""Settings for a graph that nobody has tuned for: by its numbers, by short trainings, and by the time that a user allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dura
from dura.config import Experiment
from dura.data import load
from dura.data.graph import Graph
from dura.models import MODELS
from dura.objectives import Sample
from dura.records import RunFolder
from dura.registry import Registry
from dura.runs import auto, defaults, weight
from dura.runs.build import complete
from dura.runs.choices import Choices, choose
from dura.runs.defaults import Outline, fit_to, suited
from dura.runs.fitting import Clock, fitted
from dura.runs.minutes import Pace, within
from dura.runs.run import start_run
from dura.runs.weight import climb, find_weight, long_weight, peak, searched, shortened
from dura.training.progress import Interrupted
from dura.types import BadInput
from graphs import dated_graph, random_graph

WIDE = random_graph(entities=20_000, facts=20_000)
"""More entities than a sample draws."""

outlines = st.builds(
    Outline,
    entities=st.integers(1, 10**8),
    facts=st.integers(0, 10**9),
    questions=st.integers(0, 10**9),
    valid=st.integers(0, 10**6),
)


# -- by the numbers of the graph --------------------------------------------------------------------------------------


@given(outlines, st.sampled_from(defaults.MODELS))
def test_settings_for_any_graph_are_settings(outline: Outline, model: str) -> None:
    before = choose(None, model=model, dated=MODELS.get(model).temporal)
    fitted_ = fit_to(before, outline, [])
    t = fitted_.training
    assert 1 <= t.validate_every <= t.epochs
    assert 0 < t.anneal <= t.epochs
    assert fitted_.model.name == model
    assert set(suited(outline, before)) <= set(fitted_.by_path())


@given(
    outlines,
    st.sets(
        st.sampled_from(["model.rank", "training.batch", "training.epochs", "training.anneal", "regularizer.weight"])
    ),
)
def test_what_was_chosen_stays(outline: Outline, chosen: set[str]) -> None:
    mine = {
        "model.rank": 7,
        "training.batch": 33,
        "training.epochs": 9,
        "training.anneal": 1,
        "regularizer.weight": 0.7,
    }
    before = Experiment().with_values({path: mine[path] for path in chosen})
    after = fit_to(before, outline, chosen).by_path()
    assert {path: after[path] for path in chosen} == {path: mine[path] for path in chosen}


def test_chosen_candidates_and_losses_stay_whole() -> None:
    large = Outline(50_000, 100_000, 150_000, 1000)
    assert fit_to(Experiment(), large, []).candidates.name == "sample"
    assert fit_to(Experiment(), large, ["candidates.name"]).candidates.name == "all"
    binary = Experiment().with_component("loss", "binary")
    assert fit_to(binary, large, []).candidates.name == "all"
    assert "w0" not in fit_to(binary, large, []).loss.options


def test_the_search_starts_from_a_weight_that_suits_the_graph() -> None:
    weights = [
        fit_to(Experiment(), outline, []).regularizer.options.get("weight")
        for outline in (
            Outline(100, 5000, 3000, 300),
            Outline(271, 1111, 900, 24),
            Outline(3000, 5000, 8000, 400),
            Outline(14_541, 272_115, 149_689, 17_535),
            Outline(40_943, 86_835, 103_509, 3034),
        )
    ]
    assert weights == [0.01, 0.06, 0.06, 0.02, 0.06]  # small and dense, small, sparse, dense, sparse
    fro = Experiment().with_component("regularizer", "fro")
    assert "weight" not in fit_to(fro, Outline(40_943, 86_835, 103_509, 3034), []).regularizer.options


def test_matrices_of_many_times_are_smoothed_in_turns() -> None:
    """About as many pairs per step as a batch has questions; with few times, or rows for times, every pair."""
    trescal = choose(None, dated=True, model="trescal")
    many, few = Outline(10_488, 368_962, 682_628, 46_275, 4017), Outline(7128, 72_826, 132_346, 8941, 365)
    assert [fit_to(trescal, outline, []).smoothness.every for outline in (many, few)] == [8, 1]
    assert fit_to(choose(None, dated=True), many, []).smoothness.every == 1
    assert fit_to(trescal, many, ["smoothness.every"]).smoothness.every == 1


def test_models_of_dated_facts_have_more_rank_and_fewer_epochs() -> None:
    icews14 = Outline(7128, 72_826, 132_346, 8941)
    static, dated = fit_to(Experiment(), icews14, []), fit_to(Experiment.of_dated_facts(), icews14, [])
    assert [e.model.options["rank"] for e in (static, dated)] == [400, 1000]
    assert static.training.epochs == pytest.approx(2 * dated.training.epochs, abs=1)
    small = fit_to(Experiment.of_dated_facts().with_value("model.rank", 50), icews14, ["model.rank"])
    assert (small.model.options["rank"], small.training.epochs) == (50, static.training.epochs)
    matrices = choose(None, model="trescal", dated=True)
    assert fit_to(matrices, icews14, []).model.options["rank"] == 100  # its times are matrices
    assert fit_to(matrices, icews14, []).training.epochs == static.training.epochs


def test_other_models_keep_their_own_settings() -> None:
    for name in Registry.names(MODELS):
        if name not in defaults.MODELS:
            own = choose(None, model=name, dated=MODELS.get(name).temporal)
            assert fit_to(own, Outline(100, 1000, 800, 50), []) == own


def test_a_preset_is_taken_as_it_is() -> None:
    graph, choices = load("nations"), Choices("nations/complex-dura")
    experiment = choices.experiment(dated=False)
    assert fitted(experiment, graph, choices, Clock(None), _refuse) == (experiment, [])


def _refuse(experiment: Experiment, graph: Graph) -> float:
    raise AssertionError("nothing should be tried")


# -- the weight -------------------------------------------------------------------------------------------------------


@given(st.floats(-4, 0), st.floats(-3, -1))
def test_the_climb_ends_near_the_best_weight_if_it_is_in_reach(top: float, start: float) -> None:
    """The curve has one peak, at 10**top, and no cliff."""
    tried: dict[float, float] = {}
    climb(10**start, lambda w: 100 - (math.log10(w) - top) ** 2, tried)
    assert len(tried) <= weight.MOST_TRIALS
    reach = (weight.MOST_TRIALS - 3) * math.log10(weight.FACTOR)
    if abs(top - start) < reach:
        assert abs(math.log10(peak(tried)) - top) < 0.05


@given(st.dictionaries(st.floats(1e-4, 1), st.floats(0, 1), min_size=1, max_size=5))
def test_the_peak_is_near_the_best_trial(tried: dict[float, float]) -> None:
    best = max(tried.values())
    found = peak(tried)
    assert any(w / 2 <= found <= w * 2 for w, mrr in tried.items() if mrr == best)


@pytest.mark.parametrize("collapsed", [0.02, 0.18])
def test_a_trial_that_collapsed_does_not_push_the_weight_away(collapsed: float) -> None:
    tried = {0.02: 0.41, 0.06: 0.42, 0.18: 0.41}
    assert peak(tried | {collapsed: 0.2}) == 0.06
    assert peak(tried | {collapsed: 0.3}) != 0.06


def test_a_weight_near_a_cliff_is_not_made_heavier() -> None:
    tried = {0.02: 0.41, 0.06: 0.42, 0.18: 0.41}
    assert long_weight(tried, 2.0) > 0.1
    assert long_weight(tried | {0.18: 0.2}, 2.0) == 0.06
    assert long_weight(tried | {0.02: 0.2}, 2.0) == 0.12
    assert long_weight({0.06: 0.42}, 2.0) == 0.12


def test_no_trial_begins_that_would_end_too_late() -> None:
    tried: dict[float, float] = {}
    climb(0.01, lambda _: 0.5 if len(tried) < 2 else None, tried)
    assert list(tried) == [0.01, 0.03]


@pytest.mark.parametrize("graph", [random_graph(facts=300), dated_graph(facts=300)])
def test_the_weight_comes_from_short_trainings(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight, "WHOLE", 0)
    experiment = fit_to(choose(None, dated=graph.times is not None), Outline.of(graph), [])
    asked: list[Experiment] = []

    def attempt(short: Experiment, some: Graph) -> float:
        asked.append(short)
        return float(-abs(math.log(float(str(short.regularizer.options["weight"])) / 0.1)))

    found, said = find_weight(experiment, graph, attempt)
    assert all(short.training.epochs < experiment.training.epochs for short in asked)
    assert all(int(str(short.model.options["rank"])) <= weight.RANK for short in asked)
    assert float(str(found.regularizer.options["weight"])) > float(str(asked[0].regularizer.options["weight"]))
    assert found.with_value("regularizer.weight", 1.0) == experiment.with_value("regularizer.weight", 1.0)
    assert f"{len(asked)} short trainings" in said


def test_a_small_graph_is_trained_whole_for_each_weight() -> None:
    graph = random_graph(facts=300)
    experiment = fit_to(choose(None), Outline.of(graph), [])
    asked: list[Experiment] = []

    def attempt(short: Experiment, some: Graph) -> float:
        asked.append(short)
        return float(str(short.regularizer.options["weight"])) % 1

    found, _ = find_weight(experiment, graph, attempt)
    assert {(e.training.epochs, e.training.anneal) for e in asked} == {(found.training.epochs, found.training.anneal)}
    assert all(e.model == found.model for e in asked)


def test_trainings_of_the_search_are_shorter_if_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load("umls")
    experiment = fit_to(choose(None), Outline.of(graph), [])
    monkeypatch.setattr(weight, "epoch_seconds", lambda *_: 1.0)
    monkeypatch.setattr(weight, "valid_seconds", lambda *_: 0.5)
    asked: list[int] = []

    def attempt(short: Experiment, _: Graph) -> float:
        asked.append(short.training.epochs)
        return 0.5

    find_weight(experiment, graph, attempt, seconds=150)
    assert set(asked) == {49}
    asked.clear()
    same, said = find_weight(experiment, graph, attempt, seconds=100)  # a hasty search is worse than none
    assert (same, asked) == (experiment, [])
    assert said == "regularizer.weight stays at 0.01: there is no time to search for a better one"


def test_without_time_for_a_search_a_larger_rank_has_a_heavier_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = fit_to(choose(None), Outline(14_541, 272_115, 149_689, 17_535), [])
    monkeypatch.setattr(weight, "epoch_seconds", lambda *_: 1.0)
    monkeypatch.setattr(weight, "valid_seconds", lambda *_: 0.5)
    found, said = find_weight(experiment, WIDE, _never_asked, seconds=5)
    assert found == experiment.with_value("regularizer.weight", 0.035)
    assert said == "regularizer.weight is 0.035, the default for rank 400: there is no time to search for a better one"


def _never_asked(*_: object) -> float:
    raise AssertionError("no training was asked for")


def test_a_weight_is_searched_only_if_it_is_worth_it() -> None:
    graph = load("umls")
    experiment = fit_to(choose(None), Outline.of(graph), [])
    assert searched(experiment, graph, [])
    assert not searched(experiment, graph, ["regularizer.weight"])
    assert not searched(experiment.with_value("training.epochs", 5), graph, ["training.epochs"])
    assert not searched(experiment.with_component("regularizer", "none"), graph, [])
    assert not searched(choose(None, model="transe"), graph, [])
    assert shortened(experiment, graph).training.anneal > 0


# -- minutes ----------------------------------------------------------------------------------------------------------


def _paced(per_rank: float, ranking: float) -> Callable[[Experiment, Graph], Pace]:
    def pace(experiment: Experiment, graph: Graph) -> Pace:
        wide = 10.0 if experiment.candidates.name == "all" else 1.0
        return Pace(per_rank * int(str(complete(experiment).model.options["rank"])) * wide, ranking)

    return pace


@given(st.floats(10, 7200), st.floats(1e-5, 1.0), st.floats(0, 60))
def test_a_training_fits_into_its_time_unless_one_epoch_does_not(
    seconds: float, per_rank: float, ranking: float
) -> None:
    experiment = fit_to(choose(None), Outline(20_000, 100_000, 150_000, 5000), [])
    chosen, said = within(seconds, experiment, WIDE, [], _paced(per_rank, ranking))
    t, growth = chosen.training, float(str(chosen.candidates.options.get("growth", 1.0)))
    pace, entities = _paced(per_rank, ranking)(chosen, WIDE), len(WIDE.entities)
    sample = Sample(1024, growth=growth)
    sizes = [sample.size(epoch, t.epochs, entities) or entities for epoch in range(t.epochs)]
    larger = sum(9 * pace.epoch * (size - 1024) / (entities - 1024) for size in sizes)
    if t.epochs > 1:
        assert t.epochs * pace.epoch + t.epochs // t.validate_every * ranking + larger <= seconds
    assert ("samples that grow" in said) == (growth > 1)
    assert t.anneal <= t.epochs
    assert 1 <= t.validate_every <= t.epochs


def test_much_time_is_for_rank_epochs_and_larger_samples() -> None:
    """Ten times as much time changes all three, and most of the time is used."""
    experiment = fit_to(choose(None), Outline(14_541, 272_115, 149_689, 17_535), [])
    few, _ = within(180, experiment, WIDE, [], _paced(0.02, 5.0))
    many, said = within(1800, experiment, WIDE, [], _paced(0.02, 5.0))
    assert [few.model.options["rank"], many.model.options["rank"]] == [400, 1600]
    assert "growth" not in few.candidates.options
    assert "samples that grow to" in said
    hour, said = within(7200, experiment, WIDE, ["model.rank"], _paced(0.02, 5.0))
    assert "samples that grow until the last" in said
    assert float(str(hour.candidates.options["growth"])) > float(str(many.candidates.options["growth"]))
    chosen, _ = within(1800, experiment, WIDE, ["candidates.samples"], _paced(0.02, 5.0))
    assert "growth" not in chosen.candidates.options
    assert chosen.training.epochs > many.training.epochs


@given(st.floats(10, 3600), st.floats(1.1, 10), st.floats(1e-4, 0.1))
def test_more_time_never_gives_a_smaller_rank(seconds: float, more: float, per_rank: float) -> None:
    graph = load("umls")
    experiment = fit_to(choose(None), Outline(20_000, 100_000, 150_000, 5000), [])
    ranks = [
        int(str(within(s, experiment, graph, [], _paced(per_rank, 0.0))[0].model.options["rank"]))
        for s in (seconds, seconds * more)
    ]
    assert ranks[0] <= ranks[1]


def test_with_little_time_epochs_shrink_before_the_rank() -> None:
    """A large rank learns more in the same time than a small one with more epochs."""
    experiment = fit_to(choose(None), Outline(14_541, 272_115, 149_689, 17_535), [])
    few, _ = within(60, experiment, WIDE, [], _paced(0.025, 1.0))
    fewer, _ = within(30, experiment, WIDE, [], _paced(0.025, 1.0))
    assert (few.model.options["rank"], few.training.epochs) == (400, 5)
    assert (fewer.model.options["rank"], fewer.training.epochs) == (150, 5)
    assert few.training.anneal == 2


def test_other_models_and_chosen_ranks_only_get_other_epochs() -> None:
    graph = load("umls")
    transe = choose(None, model="transe")
    chosen, _ = within(60, transe, graph, [], _paced(0.01, 0.0))
    assert chosen.model == transe.model
    assert chosen.training.epochs != transe.training.epochs
    fixed = choose(None, rank=13)
    assert within(60, fixed, graph, ["model.rank"], _paced(0.01, 0.0))[0].model.options["rank"] == 13


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, 1e9])
def test_a_time_that_makes_no_sense_is_refused(wrong: float) -> None:
    with pytest.raises(BadInput, match="minutes is"):
        dura.fit(load("nations"), minutes=wrong)


def test_a_measured_batch_and_minutes_are_refused_together() -> None:
    with pytest.raises(BadInput, match="--batch auto"):
        dura.fit(load("nations"), minutes=1, batch="auto")


# -- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_in_minutes_keeps_to_them_says_why_and_can_be_repeated(tmp_path: Path) -> None:
    began = time.monotonic()
    trained = dura.fit(load("nations"), minutes=0.2, out=tmp_path / "run", progress=False)
    assert time.monotonic() - began < 90  # 12 seconds were asked; other tests run at the same time
    assert trained.evaluate("valid").mrr > 0.6
    said = str(RunFolder.open(tmp_path / "run").records()[0]["auto"])
    assert "settings for 14 entities" in said
    assert "are left for training" in said
    written = Experiment.from_toml(tmp_path / "run" / "settings.toml")
    again = dura.fit(load("nations"), settings=written.by_path(), progress=False)
    assert again.evaluate("valid").mrr == trained.evaluate("valid").mrr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mrr"), [("umls", 0.927), ("nations", 0.772)])
def test_defaults_are_as_good_as_the_tuned_preset_of_a_small_graph(name: str, mrr: float) -> None:
    """The numbers are means of three seeds of the preset. A weight beyond the cliff of Nations has .72 or less."""
    assert dura.fit(load(name), progress=False).evaluate("test").mrr > mrr - 0.005


def test_stopping_while_a_weight_is_searched_leaves_no_folder(tmp_path: Path) -> None:
    @contextmanager
    def at_once() -> Iterator[Callable[[], bool]]:
        yield lambda: True

    with pytest.raises(Interrupted):
        start_run(load("nations"), Choices(), out=tmp_path / "run", progress=False, stopping=at_once)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_taken_is_refused_before_anything_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr("dura.runs.run.best_mrr", _refuse)
    with pytest.raises(BadInput, match="not an empty folder"):
        start_run(load("umls"), Choices(), out=tmp_path, progress=False)


@pytest.mark.parametrize(("two", "chosen"), [(0.02, 1), (1.04, 1), (1.5, 0), (2.0, 0)])
def test_one_thread_is_chosen_if_two_are_no_faster(two: float, chosen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine each thread waits for the slowest one, so two may take fifty times as long as one."""

    def steps(experiment: Experiment, *_: object) -> list[tuple[int, float]]:
        seconds = 1.0 if experiment.training.threads == 1 else 1 / two
        return [(1000, 50.0), (1000, seconds), (1000, seconds)]

    monkeypatch.setattr(auto, "measured_steps", steps)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    experiment, said = auto.settle_threads(choose(None), load("nations"))
    assert (experiment.training.threads, bool(said)) == (chosen, chosen == 1)
    fixed = choose(None, settings={"training.threads": 2})
    assert auto.settle_threads(fixed, load("nations")) == (fixed, "")
