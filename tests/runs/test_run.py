"""Whole runs on small graphs: in memory and in a folder, saved, opened, resumed, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dura
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.models import MODELS
from dura.records import RunFolder
from dura.runs.api import choose
from dura.runs.build import build, checked_device, chosen_threads, product_type, torch_settings
from dura.runs.presets import preset, presets
from dura.runs.run import resume, train
from dura.runs.store import read_graph
from dura.runs.trained import Trained, open_run
from dura.training.checkpoint import Checkpoints
from dura.training.trainer import Interrupted, Progress, Trainer
from dura.types import BadInput, DuraError, Sizes
from graphs import graph_for, random_graph
from plain import table_of
from texts import settings_of

GRAPH = random_graph()


def quick(**settings: object) -> Experiment:
    chosen = {"model.rank": 4, "training.epochs": 4, "training.batch": 10, "training.checkpoint_every": 0.0}
    return choose(None, graph="random", settings={**chosen, **settings})


def tables(trained: Trained) -> dict[str, torch.Tensor]:
    return {name: table.detach() for name, table in trained.model.named_parameters()}


@pytest.mark.parametrize("model", MODELS.names())
def test_save_open_gives_the_same_scores(tmp_path: Path, model: str) -> None:
    graph = graph_for(model)
    settings = settings_of(model, graph)
    fitted = dura.fit(graph, model=model, rank=4, epochs=2, settings=settings, progress=False)
    fitted.save(tmp_path / "run")
    opened = dura.open(tmp_path / "run")
    day = None if graph.times is None else "2014-01-03"
    facts = [("e000", "r0", "e001", day), ("e004", "r2", "e019", day)]
    assert opened.score(facts) == fitted.score(facts)
    assert opened.evaluate().to_dict() == fitted.evaluate().to_dict()
    answers = [m.predict(head="e003", relation="r1", time=day, k=5).to_dict() for m in (opened, fitted)]
    assert answers[0] == answers[1]
    assert opened.graph.digest == graph.digest
    assert opened.experiment == fitted.experiment


def test_in_memory_and_in_a_folder_are_the_same_run(tmp_path: Path) -> None:
    inside, kept = train(quick(), GRAPH), train(quick(), GRAPH, tmp_path / "run")
    assert all(torch.equal(table, tables(kept)[name]) for name, table in tables(inside).items())
    records = RunFolder.open(tmp_path / "run").records()
    assert [r["kind"] for r in records] == ["start", *["epoch"] * (len(records) - 2), "end"]
    best = max((r for r in records if "valid" in r), key=lambda r: r["valid"]["mrr"])
    assert kept.evaluate("valid").metrics.mrr == pytest.approx(best["valid"]["mrr"], abs=1e-12)


@pytest.mark.parametrize("after", [1, 5, 12])
def test_an_interrupted_run_resumes_bit_equal(tmp_path: Path, after: int) -> None:
    whole = train(quick(), GRAPH, tmp_path / "whole")
    calls = iter(range(10_000))
    with pytest.raises(Interrupted, match="continue with: dura train --resume"):
        train(quick(), GRAPH, tmp_path / "cut", stopped=lambda: next(calls) >= after)
    again = resume(tmp_path / "cut")
    for name, table in tables(whole).items():
        assert torch.equal(table, tables(again)[name])
    last = [sorted((tmp_path / run / "checkpoints").glob("step-*.safetensors"))[-1] for run in ("whole", "cut")]
    assert last[0].read_bytes() == last[1].read_bytes()


@pytest.mark.parametrize("regularizer", ["dura", "er", "ivr"])
def test_relations_as_a_term_with_a_sample_resume_bit_equal(tmp_path: Path, regularizer: str) -> None:
    """What a step draws, entities and facts, follows from its number. The loss falls."""
    settings = quick(**{"terms.relations": 2.0, "terms.share": 0.4}).with_component("regularizer", regularizer)
    settings = settings.with_values({"candidates.name": "sample", "candidates.samples": 9})
    whole = train(settings, GRAPH, tmp_path / "whole")
    calls = iter(range(10_000))
    with pytest.raises(Interrupted):
        train(settings, GRAPH, tmp_path / "cut", stopped=lambda: next(calls) >= 7)
    again = resume(tmp_path / "cut")
    assert all(torch.equal(table, tables(again)[name]) for name, table in tables(whole).items())
    epochs = [r["loss"] for r in RunFolder.open(tmp_path / "whole").records() if r["kind"] == "epoch"]
    assert epochs[-1] < epochs[0]


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    first = train(quick(), GRAPH, tmp_path / "run")
    again = resume(tmp_path / "run")
    assert all(torch.equal(table, tables(again)[name]) for name, table in tables(first).items())


def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_is_used(tmp_path: Path) -> None:
    whole = train(quick(), GRAPH, tmp_path / "whole")
    calls = iter(range(10_000))
    settings = quick(**{"training.checkpoint_every": 1e-9})
    with pytest.raises(Interrupted):
        train(settings, GRAPH, tmp_path / "cut", stopped=lambda: next(calls) >= 7)
    newest = sorted((tmp_path / "cut" / "checkpoints").glob("step-*.safetensors"))[-1]
    data = bytearray(newest.read_bytes())
    data[-3] ^= 1
    newest.write_bytes(data)
    again = resume(tmp_path / "cut")
    assert all(torch.equal(table, tables(again)[name]) for name, table in tables(whole).items())
    notices = [r["text"] for r in RunFolder.open(tmp_path / "cut").records() if r["kind"] == "notice"]
    assert len(notices) == 1
    assert "damaged" in notices[0]


def test_a_saved_model_cannot_be_continued(tmp_path: Path) -> None:
    dura.fit(GRAPH, rank=4, epochs=1, progress=False).save(tmp_path / "run")
    with pytest.raises(BadInput, match="without the state of its training"):
        resume(tmp_path / "run")
    train(quick(), GRAPH, tmp_path / "small")
    for file in (tmp_path / "small" / "checkpoints").glob("step-*"):
        file.unlink()
    with pytest.raises(BadInput, match="without the state of its training"):
        resume(tmp_path / "small")


def test_a_run_without_any_checkpoint_begins_anew(tmp_path: Path) -> None:
    first = train(quick(), GRAPH, tmp_path / "run")
    for file in (tmp_path / "run" / "checkpoints").iterdir():
        file.unlink()
    (tmp_path / "run" / "records.jsonl").write_text('{"kind": "start"}\n')
    again = resume(tmp_path / "run")
    assert all(torch.equal(table, tables(again)[name]) for name, table in tables(first).items())


class Heard:
    """Keeps the notices."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        pass

    def epoch(self, record: dict[str, Any]) -> None:
        pass

    def notice(self, sentence: str) -> None:
        self.said.append(sentence)


def test_a_resumed_run_says_where_it_continues(tmp_path: Path) -> None:
    steps, heard = iter(range(100)), Heard()
    with pytest.raises(Interrupted, match="stopped after step 2 of epoch 2"):
        train(quick(), GRAPH, tmp_path / "run", stopped=lambda: next(steps) == per_epoch() + 1)
    resume(tmp_path / "run", listeners=(heard,))
    resume(tmp_path / "run", listeners=(heard,))
    assert heard.said[0] == f"the run continues with step 3 of {per_epoch()} in epoch 2 of 4"
    assert heard.said[1].startswith("the run has ended after epoch ")


def test_a_run_that_was_stopped_after_the_last_step_of_an_epoch_says_so(tmp_path: Path) -> None:
    steps, heard = iter(range(100)), Heard()
    with pytest.raises(Interrupted, match=f"stopped after step {per_epoch()} of epoch 1"):
        train(quick(), GRAPH, tmp_path / "run", stopped=lambda: next(steps) == per_epoch() - 1)
    resume(tmp_path / "run", listeners=(heard,))
    assert heard.said[0] == "the run continues with the end of epoch 1 of 4: all of its steps are done"


def per_epoch() -> int:
    return -(-len(GRAPH.questions) // 10)


@pytest.mark.parametrize("error", [DuraError("the loss became nan"), RuntimeError("not enough memory"), MemoryError()])
def test_a_failure_before_the_first_checkpoint_does_not_block_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", fail)
        for _ in range(2):  # resume fails in the same way
            with pytest.raises(type(error)):
                resume(tmp_path / "run") if _ else train(quick(), GRAPH, tmp_path / "run")
    assert [r["kind"] for r in RunFolder.open(tmp_path / "run").records()][-1] == "failure"
    train(quick(), GRAPH, tmp_path / "run")
    with pytest.raises(BadInput, match="already holds a run"):
        train(quick(), GRAPH, tmp_path / "run")


def test_a_failure_after_the_first_epoch_keeps_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if nothing was saved yet: the records hold the curve."""
    real, bare = Trainer.step, replace(GRAPH, valid=GRAPH.valid[:0])

    def fail(self: Trainer, batch: Questions) -> tuple[float, float]:
        if self.progress.epoch:
            raise DuraError("the loss became nan")
        return real(self, batch)

    monkeypatch.setattr(Trainer, "step", fail)
    with pytest.raises(DuraError, match="became nan"):
        train(quick(), bare, tmp_path / "run")
    assert not any((tmp_path / "run" / "checkpoints").iterdir())
    with pytest.raises(BadInput, match="already holds a run"):
        train(quick(), bare, tmp_path / "run")


def test_the_settings_of_a_run_write_every_default_out(tmp_path: Path) -> None:
    train(quick(), GRAPH, tmp_path / "run")
    written = Experiment.from_toml(tmp_path / "run" / "settings.toml")
    assert written.regularizer.options == {"weight": 0.02, "lambda1": 0.5, "lambda2": 1.5}
    assert written.model.options == {"rank": 4, "init_scale": 1e-3, "comparator": "dot"}
    assert written.loss.options == {"w0": 0.0, "smoothing": 0.0}
    assert written.candidates.options == {"block": "auto"}


def test_a_graph_that_was_changed_is_noticed(tmp_path: Path) -> None:
    dura.fit(GRAPH, rank=4, epochs=1, progress=False).save(tmp_path / "run")
    names = tmp_path / "run" / "entities.txt"
    names.write_text(names.read_text().replace("e004", "e00x"))
    with pytest.raises(DuraError, match="damaged"):
        open_run(tmp_path / "run")


def test_a_graph_without_valid_trains_to_the_end_and_keeps_the_last_state(tmp_path: Path) -> None:
    nothing = np.zeros((0, 3), dtype=np.int32)
    bare = Graph("bare", GRAPH.entities, GRAPH.relations, GRAPH.train, nothing, nothing)
    trained = train(quick(), bare, tmp_path / "run")
    in_memory = train(quick(), bare)
    assert all(torch.equal(table, tables(trained)[name]) for name, table in tables(in_memory).items())
    assert trained.evaluate("train").metrics.ranks == 2 * len(GRAPH.train)
    with pytest.raises(BadInput, match="test"):
        trained.evaluate("test")


def test_batching_by_facts_is_the_papers_loop(tmp_path: Path) -> None:
    """Other batches, same work: as many facts an epoch, one question each."""
    by_fact = train(quick(**{"training.batching": "facts"}), GRAPH, tmp_path / "run")
    assert by_fact.experiment.training.batching == "facts"
    records = [r for r in RunFolder.open(tmp_path / "run").records() if r["kind"] == "epoch"]
    state = json.loads((tmp_path / "run" / "checkpoints" / "best.json").read_text())
    assert state["step"] % -(-2 * len(GRAPH.train) // 10) == 0
    assert records[0]["loss"] < 1.2 * np.log(len(GRAPH.entities))


def test_wrong_combinations_are_refused_before_any_work(tmp_path: Path) -> None:
    refusals: list[tuple[dict[str, object], str]] = [
        (
            {"model.name": "rescal", "regularizer.name": "n3"},
            "'n3' needs relations that act element by element",
        ),
        ({"regularizer.lambda3": 1.0}, "regularizer.lambda3 is not a setting of 'dura'"),
        ({"model.rank": "many"}, r"model.rank must be a whole number"),
        ({"training.device": "cuda"}, "'cuda' is not available; this machine has cpu"),
        ({"training.device": "abacus"}, "'abacus' is not known; this machine has cpu"),
        ({"training.precision": "tf32"}, "only CUDA devices have it"),
        ({"objective.name": "hinge"}, "the objective 'hinge' is not known; known are cross-entropy"),
        ({"loss.name": "hinge"}, "the loss 'hinge' is not known; known are softmax"),
        ({"loss.name": "margin"}, "it is not defined for candidates.name = 'all'"),
        ({"candidates.name": "sample", "loss.smoothing": 0.1}, "loss.smoothing needs candidates.name = 'all'"),
        ({"terms.times": 1.0}, "terms.times is 1, but the model 'complex' cannot be asked for times"),
        (
            {"terms.relations": 0.5, "model.comparator": "distance"},
            "the model 'complex' with model.comparator = 'distance' cannot be asked for relations: it can be asked for entities",
        ),
        ({"model.comparator": "l2"}, "model.comparator must be 'dot' or 'distance', not the text 'l2'"),
        (
            {"training.precision": "bf16", "model.comparator": "distance"},
            "training.precision is 'bf16', but 'complex' does not score by inner products",
        ),
        ({"model.rank": 0}, "model.rank is 0"),
    ]
    for settings, message in refusals:
        with pytest.raises(BadInput, match=message):
            train(quick(**settings), GRAPH, tmp_path / "never")
        assert not (tmp_path / "never").exists()


def test_the_same_seed_starts_the_same_whatever_the_global_generator_did() -> None:
    torch.manual_seed(1)
    one = build(quick(), GRAPH.sizes).model
    torch.manual_seed(2)
    before = torch.get_rng_state()
    two = build(quick(), GRAPH.sizes).model
    assert torch.equal(table_of(one), table_of(two))
    assert torch.equal(torch.get_rng_state(), before)
    other = build(quick(**{"training.seed": 1}), GRAPH.sizes).model
    assert not torch.equal(table_of(one), table_of(other))


def test_small_steps_take_one_thread_and_large_ones_all() -> None:
    sizes = Sizes(entities=5_000, relations=2)
    large = quick(**{"training.batch": 500, "model.rank": 20})
    before = torch.get_num_threads()
    assert chosen_threads(large, build(large, sizes).model) == before
    small = quick()
    with torch_settings(small, build(small, GRAPH.sizes).model):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_names_are_chosen_before_options() -> None:
    chosen = choose("umls/complex-dura", rank=4, settings={"regularizer.weight": 0.2, "regularizer.name": "n3"})
    assert (chosen.model.options["rank"], chosen.regularizer.name) == (4, "n3")
    assert chosen.regularizer.options == {"weight": 0.2}
    assert choose("umls/complex-dura", model="cp").model.options == {"rank": 100}
    assert choose("umls/complex-dura").expected
    assert not choose("umls/complex-dura", rank=4).expected


def test_a_damaged_best_is_made_anew_by_resuming(tmp_path: Path) -> None:
    train(quick(), GRAPH, tmp_path / "run")
    best = next((tmp_path / "run" / "checkpoints").glob("best-*.safetensors"))
    data = bytearray(best.read_bytes())
    data[-1] ^= 1
    best.write_bytes(data)
    with pytest.raises(DuraError, match="resume the run to write it again"):
        open_run(tmp_path / "run")
    again = resume(tmp_path / "run")
    last = Checkpoints(tmp_path / "run" / "checkpoints").newest()
    assert last is not None
    assert all(torch.equal(table, last[0][f"model.{name}"]) for name, table in tables(again).items())


def test_a_folder_that_was_never_finished_is_taken_over(tmp_path: Path) -> None:
    """As a process leaves it that is killed while it makes the folder."""
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "settings.toml").write_text("version = 1")
    (run / "records.jsonl").write_text('{"kind": "start"}\n')
    train(quick(), GRAPH, run)
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(BadInput, match="not an empty folder"):
        train(quick(), GRAPH, tmp_path / "other")
    assert (tmp_path / "other" / "thesis.tex").read_text() == "precious"


def test_a_model_of_nan_is_not_kept(tmp_path: Path) -> None:
    nothing = np.zeros((0, 3), dtype=np.int32)
    bare = Graph("bare", GRAPH.entities, GRAPH.relations, GRAPH.train, nothing, nothing)
    with pytest.raises(DuraError, match="became nan"):
        train(quick(**{"optimizer.lr": 1e39, "training.batch": 9999, "training.epochs": 1}), bare)
    with pytest.raises(DuraError, match="after step 1, the end of epoch 1"):
        train(quick(**{"optimizer.lr": 1e39, "training.batch": 9999, "training.epochs": 1}), GRAPH)


def test_devices_and_precisions() -> None:
    assert checked_device("cpu").type == "cpu"
    assert product_type("float32", "cpu") is None
    assert product_type("bf16", "cpu") is torch.bfloat16


def test_bf16_trains_to_nearly_the_same_figures() -> None:
    exact, low = (train(quick(**{"training.precision": p}), GRAPH) for p in ("float32", "bf16"))
    assert low.evaluate("valid").metrics.mrr == pytest.approx(exact.evaluate("valid").metrics.mrr, abs=0.15)
    assert not torch.equal(table_of(exact.model), table_of(low.model))


def test_every_shipped_preset_builds() -> None:
    known = presets()
    assert "umls/complex-dura" in known
    for name in known:
        experiment = preset(name)
        assert experiment.graph.source == name.split("/")[0]
        # Few entities, as many times as their model needs: a preset's rank may be large.
        times = 2 if MODELS.get(experiment.model.name).temporal else 0
        build(experiment, Sizes(entities=3, relations=1, times=times))


def test_dura_beats_no_regularizer_on_a_bundled_graph() -> None:
    """The paper's claim at the smallest scale, end to end, with figures that a broken step could not reach."""
    graph = dura.load("kinships")
    results = {}
    for name, settings in (("dura", {"regularizer.weight": 0.02}), ("none", {})):
        fitted = dura.fit(
            graph, model="cp", rank=40, regularizer=name, epochs=40, batch=100, settings=settings, progress=False
        )
        results[name] = fitted.evaluate("test").metrics.mrr
    assert results["dura"] > results["none"] + 0.01
    assert results["dura"] > 0.78


def test_a_run_holds_its_graph(tmp_path: Path) -> None:
    graph = dura.load("nations")
    dura.fit(graph, rank=4, epochs=1, progress=False, out=tmp_path / "run")
    read = read_graph(RunFolder.open(tmp_path / "run"))
    assert read.digest == graph.digest
    assert list(read.entities) == list(graph.entities)
    np.testing.assert_array_equal(read.test, graph.test)


def test_training_and_ranking_waste_no_time_on_tiny_numbers() -> None:
    seen: list[float] = []

    def stopped() -> bool:
        seen.append(float(torch.full((), 1e-20) * torch.full((), 1e-20)))
        return False

    trained = train(quick(), GRAPH, stopped=stopped)
    assert seen == [0.0] * len(seen)
    assert seen
    ranked: list[float] = []
    trained.evaluate(progress=lambda _, __: ranked.append(float(torch.full((), 1e-20) * torch.full((), 1e-20))))
    assert ranked == [0.0] * len(ranked)
    assert ranked
    assert float(torch.full((), 1e-20) * torch.full((), 1e-20)) > 0
