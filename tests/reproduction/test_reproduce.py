"""Cells, their cost, and the runs behind a table: real workers on tiny settings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import dura
from dura.config import Experiment
from dura.records import RunFolder
from dura.reproduction.cells import Cell, _all_cells, cells
from dura.reproduction.estimates import Estimate
from dura.reproduction.reproduce import Standing, limits_for, reproduce, run_tasks, worker_speed
from dura.reproduction.tally import Tally, summary, tallies, tally
from dura.reproduction.tasks import Task, task_of
from dura.runs.presets import preset
from dura.runs.run import train
from dura.runs.work import evaluate_run, train_run
from dura.runs.workers import Crew, Ended, Limits
from dura.training.trainer import Interrupted
from dura.types import BadInput, DuraError
from texts import vectors_for

Done = tuple[Task, Task, dict[str, str], list[str], list[Standing]]
TWO = Limits(jobs=2, threads=1, memory=10**12)


@pytest.fixture(autouse=True)
def no_other_graphs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DURA_DATA", "")
    monkeypatch.setenv("DURA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def tiny(folder: Path, name: str, **settings: int | float | str) -> Cell:
    """A cell of our own."""
    chosen = {"model__rank": 4, "training__epochs": 2, **settings}
    experiment = preset("nations/cp-none").with_values({k.replace("__", "."): v for k, v in chosen.items()})
    return Cell(f"{folder.name}/{name}", experiment, {})


# -- which cells ----------------------------------------------------------------------------------------------------


def test_tables_and_forms() -> None:
    own = ["cp", "complex", "rescal"]
    full, laptop = cells("main", laptop=False, only=own), cells("main", laptop=True, only=own)
    assert len(full) == len(laptop) == 18
    assert {cell.system for cell in cells("main", laptop=False, only=["rotate", "yago3-10"])} == {"RotatE"}
    assert [cell.system for cell in full[:6]] == ["CP", "CP-DURA", "ComplEx", "ComplEx-DURA", "RESCAL", "RESCAL-DURA"]
    assert {cell.laptop for cell in laptop} == {True}
    assert len(cells("main", only=own)) == 36
    assert len(cells("small", laptop=True)) == len(cells("small", laptop=False)) == 33
    assert len(cells(only=[*own, "tcomplex", "trescal"])) == 171 + 22
    assert {cell.headline for cell in cells("headline")} == {True} and len(cells("headline", laptop=False)) == 22
    assert not any(cell.headline for cell in cells(laptop=True))


def test_the_paper_stands_beside_all_forms() -> None:
    (full,) = cells("main", laptop=False, only=["fb15k-237/complex-dura"])
    (laptop,) = cells("main", only=["fb15k-237/complex-dura-laptop"])
    assert full.paper == laptop.paper == {"mrr": 0.371, "hits@1": 0.276, "hits@10": 0.56}
    assert full.expected is None and laptop.expected == preset(laptop.preset).expected["mrr"]
    assert full.band is None and laptop.band == tuple(preset(laptop.preset).expected["band"])
    (small,) = cells("small", only=["umls/cp-n3"])
    assert small.paper == {} and small.expected == 0.913 and small.band == (0.876, 0.950)
    (headline,) = cells("headline", only=["fb15k-237/complex-dura-headline"])
    assert headline.paper == full.paper and headline.expected == headline.experiment.expected.get("mrr")


def test_only_adds_within_a_kind_and_narrows_across() -> None:
    chosen = cells("regularizers", laptop=True, only=["wn18rr", "fb15k-237", "complex", "dura"])
    assert [cell.preset for cell in chosen] == ["wn18rr/complex-dura-laptop", "fb15k-237/complex-dura-laptop"]


@pytest.mark.parametrize(
    ("table", "only", "sentence"),
    [
        ("mian", (), "the table 'mian' is not known; known are main, regularizers, .*; did you mean 'main'?"),
        ("main", ("wn18r",), "--only 'wn18r' is not a graph, model, .*: fb15k-237, wn18rr.*did you mean 'wn18rr'?"),
        ("all", ("wn18rr", "dura1"), "no cell with laptop settings for --only wn18rr --only dura1; see: dura rep"),
        ("headline", (), "the table 'headline' has the paper's rank and no laptop settings: leave out --laptop"),
    ],
)
def test_unknown_names_are_refused(table: str, only: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        cells(table, laptop=True, only=only)


def test_an_unknown_graph_or_model_has_no_estimate_and_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preset may come before its graph's entry in the catalog, or need a package that is not installed."""
    names = {"expected": {"tables": ["small"], "system": "New"}}
    odd = {
        "nations/new": Experiment.from_dict({"graph": {"source": "nations"}, "model": {"name": "newmodel"}, **names}),
        "newgraph/cp-none": preset("nations/cp-none").with_value("graph.source", "newgraph"),
        "nations/cp-none-laptop": preset("nations/cp-none"),
    }

    def read(file: object, where: str = "") -> Experiment:
        return odd[str(file)]

    with monkeypatch.context() as patch:
        patch.setattr("dura.reproduction.cells.presets", lambda: {name: name for name in odd})
        patch.setattr("dura.reproduction.cells.Experiment.from_toml", read)
        _all_cells.cache_clear()
        listed = cells()
    _all_cells.cache_clear()
    assert [cell.preset for cell in listed] == ["nations/cp-none-laptop", "nations/new", "newgraph/cp-none"]
    assert [cell.cost(1e9) == (None, None) for cell in listed] == [False, True, True]
    assert not listed[2].at_hand


def test_cores_and_memory_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dura.reproduction.reproduce.cores", lambda: 8)
    monkeypatch.setattr("dura.reproduction.reproduce.free_memory", lambda: 10**9)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert limits_for(0, "", 100) == Limits(8, 1, 10**9)
    assert limits_for(0, "", 3) == Limits(3, 2, 10**9)  # not more workers than tasks
    assert limits_for(1, "cpu", 100) == Limits(1, 8, 10**9)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert limits_for(2, "", 100) == Limits(2, 5, 10**9)  # what the user says counts
    with pytest.raises(BadInput, match="the device 'meta' is not available"):
        limits_for(0, "meta", 100)


def test_the_speed_of_a_worker_is_its_share_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dura.reproduction.reproduce.cores", lambda: 8)
    monkeypatch.setattr("dura.reproduction.reproduce.measured_speed", lambda: 80.0)
    monkeypatch.delenv("OMP_NUM_THREADS")  # so the measurement used all eight
    shared = {(8, 1): 10, (3, 2): 20, (1, 8): 80, (16, 1): 5}
    assert {limits: worker_speed(Limits(*limits)) for limits in shared} == shared
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # it used two, like each worker
    assert [worker_speed(Limits(jobs, 2)) for jobs in (4, 8)] == [80, 40]


def test_hours_are_told_before_the_first_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cell, "cost", lambda cell, _: Estimate(1, 7200.0 if cell.preset.endswith("a") else None))
    chosen, said = [tiny(tmp_path, "a"), tiny(tmp_path, "b")], list[str]()
    first = tmp_path / "out" / "runs" / f"{tmp_path.name}-a-seed0"
    with pytest.raises(Interrupted):
        reproduce(chosen, tmp_path / "out", jobs=1, say=said.append, stopped=lambda: True)
    assert said == ["2 runs to do, about 2.0 h in all; 1 run of unknown length not counted"] and not first.exists()
    said.clear()
    assert reproduce(chosen, tmp_path / "out", seeds=2, jobs=2, say=said.append) == {}
    assert said[0] == "4 runs to do, about 2.0 h in all, 2 at once; 2 runs of unknown length not counted"
    assert reproduce(chosen, tmp_path / "out", say=said.append) == {} and said[-1] == "nothing is left to train"


# -- running them ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture(scope="module")
def done(folder: Path) -> Done:
    """One task that ends well and one that fails, run together."""
    good, bad = tiny(folder, "good"), tiny(folder, "bad", optimizer__lr=1e39)
    tasks = (Task(good, 3, folder / "out"), Task(bad, 0, folder / "out"))
    said: list[str] = []
    shown: list[Standing] = []
    failures = run_tasks(tasks, lambda _: 1, TWO, say=said.append, show=shown.append)
    return *tasks, failures, said, shown


def test_a_failure_does_not_stop_the_others(
    done: Done,
) -> None:
    good, bad, failures, said, shown = done
    assert list(failures) == [bad.name]
    assert "the loss became" in failures[bad.name] and "\n" not in failures[bad.name]
    assert good.result() is not None and bad.result() is None
    assert said[:2] == [f"{good.name}: training", f"{bad.name}: training"]
    assert f"{good.name}: evaluating" in said and said.index(f"{good.name}: evaluating") > 1
    assert max(len(standing.running) for standing in shown) == 2
    assert shown[-1].tasks == 2
    assert "epoch 2/2  loss " in good.log.read_text()
    assert bad.log.read_text().splitlines()[-1] == f"dura: {failures[bad.name]}"


def test_the_result_is_that_of_the_same_training_here(
    done: Done,
) -> None:
    good = done[0]
    found = good.result()
    assert found is not None
    here = train(good.settings, dura.load("nations")).evaluate("test")
    assert found["result"]["mrr"] == pytest.approx(here.mrr, abs=1e-9)
    assert found["settings"]["training"]["seed"] == 3 and found["seed"] == 3 and found["format"] == 1
    assert found["training"]["epoch"] == 2 and found["training"]["seconds"] > 0
    row = tally(good.cell, good.out, 1, {}).row()
    assert (row["seeds"], row["ours"], row["hits@10"]) == (1, found["result"]["mrr"], found["result"]["hits"]["10"])
    assert row["status"] == "0 of 1 seeds, not run"  # seed 0 was asked for, seed 3 is there


def test_what_has_ended_is_not_done_again(
    done: Done,
) -> None:
    said: list[str] = []
    assert run_tasks([done[0]], lambda _: 1, TWO, say=said.append) == {}
    assert said == []
    assert "failed: the loss became" in tally(done[1].cell, done[1].out, 1, {}).status


def test_a_preset_that_changed_is_not_mixed_with_its_old_results(done: Done, folder: Path) -> None:
    changed = Task(Cell(done[0].cell.preset, tiny(folder, "other", model__rank=5).experiment, {}), 3, folder / "out")
    failures = run_tasks([changed], lambda _: 1, TWO)
    assert "has other settings than the preset (model.rank is 4 there and 5 here)" in failures[changed.name]
    assert tally(changed.cell, changed.out, 1, {}).mrr is None
    shutil.rmtree(done[0].run)  # the result alone is enough
    elsewhere = Task(tiny(folder, "good", training__device="cuda", training__threads=7), 3, folder / "out")
    assert elsewhere.result() is not None  # where a run was made does not matter


def test_a_newer_result_is_refused(done: Done) -> None:
    task = Task(done[0].cell, 4, done[0].out)
    path = task.out / "results" / f"{task.name}.json"
    path.write_text(json.dumps({"format": 2}))
    try:
        with pytest.raises(DuraError, match=r"has format 2, but this dura reads up to 1; update dura"):
            task.result()
    finally:
        path.unlink()


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"format": 1, "settings": {}, "result": {"mrr": 0.9}}', "{"])
def test_a_damaged_result_counts_as_none_and_is_made_again(done: Done, text: str) -> None:
    task = Task(done[0].cell, 5, done[0].out)
    folder = task.out / "results"
    strange = folder / f"{task.name}-old.json"  # moved aside by hand, in the same folder
    strange.write_text(text)
    (folder / f"{task.name}.json").write_text(text)
    try:
        assert task.result() is None
        step = task.next()
        assert step is not None and (step.doing, step.call.function) == ("training", train_run)
        assert step.call.arguments == {"settings": task.settings.to_toml(), "out": str(task.run)}
        assert tally(task.cell, task.out, 6, {}).status.startswith("1 of 6 seeds, ")
    finally:
        (folder / f"{task.name}.json").unlink()
        strange.unlink()


def test_memory_that_is_not_there() -> None:
    (cell,) = cells(only=["nations/cp-none"])
    task, limits = Task(cell, 0, Path("nowhere")), Limits(jobs=1, memory=10**9)
    failures = run_tasks([task], lambda _: 3 * 10**9, limits)
    assert failures == {task.name: "needs about 3.0 GB of memory, but only 1.0 GB are free"}
    assert not Path("nowhere").exists()


def test_a_stop_ends_after_a_step_and_a_run_in_use_is_waited_for(tmp_path: Path) -> None:
    cell = tiny(tmp_path, "long", training__epochs=40, training__patience=0)
    task, said = Task(cell, 0, tmp_path / "out"), list[str]()
    with pytest.raises(Interrupted, match="the same command goes on from here") as error:
        run_tasks([task], lambda _: 1, TWO, stopped=lambda: len(task.records()) > 2, say=said.append)
    assert error.value.exit_code == 130
    assert said[-1].startswith(f"{task.name}: stopped at epoch ") and not task.ended()
    assert tally(cell, task.out, 1, {}).status.startswith("unfinished, epoch ")
    assert 0 < task.left() < 1 == Task(cell, 1, task.out).left()
    # A process elsewhere holds the run: it is waited for, not fought over.
    said.clear()
    with RunFolder.open(task.run).lock():
        seen: list[Standing] = []
        with pytest.raises(Interrupted):
            run_tasks([task], lambda _: 1, TWO, stopped=lambda: len(seen) > 1, say=said.append, show=seen.append)
    assert said == [] and "in use by another process, epoch" in seen[0].running[0]


def test_a_device_is_for_new_runs(done: Done) -> None:
    task = Task(done[0].cell, 6, done[0].out, "cuda:7")
    step = task.next()
    assert step is not None
    assert 'device = "cuda:7"' in step.call.arguments["settings"] and 'device = "cpu"' in task.settings.to_toml()


def test_a_worker_that_is_killed_is_a_failure_and_its_run_goes_on_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, said = Task(tiny(tmp_path, "killed", training__epochs=3), 0, tmp_path / "out"), list[str]()

    class Killing(Crew):
        def wait(self, seconds: float = 0.02) -> list[Ended]:
            for worker in self._workers.values() if len(task.records()) > 1 else ():
                worker.process.kill()
            return super().wait(seconds)

    with monkeypatch.context() as patch:
        patch.setattr("dura.reproduction.reproduce.Crew", Killing)
        failures = run_tasks([task], lambda _: 1, TWO)
    assert failures == {task.name: "killed by signal 9 (memory may have run out)"}
    assert run_tasks([task], lambda _: 1, TWO, say=said.append) == {}
    assert said[-1].startswith(f"{task.name}: test MRR 0.")


def test_an_evaluation_that_is_stopped_is_done_the_next_time(tmp_path: Path) -> None:
    task = Task(tiny(tmp_path, "trained"), 0, tmp_path / "out")
    train_run(task.settings.to_toml(), str(task.run), stopped=lambda: False, tell=print)
    with pytest.raises(Interrupted, match="the evaluation of .* was stopped"):
        evaluate_run(str(task.run), stopped=lambda: True, tell=print)
    step = task.next()
    assert step is not None and step.doing == "evaluating"
    task.keep(evaluate_run(**step.call.arguments, stopped=lambda: False, tell=print))
    assert task.next() is None
    kept = [record for record in task.records() if record["kind"] == "evaluation"]
    assert [record["mrr"] for record in kept] == [tally(task.cell, task.out, 1, {}).mrr]


# -- the table ------------------------------------------------------------------------------------------------------


def fake(mrr: float, pessimistic: float, seconds: float = 60) -> dict[str, object]:
    ties = {"pessimistic": {"mrr": pessimistic}}
    result = {"mrr": mrr, "hits": {"1": mrr - 0.1, "10": mrr + 0.1}, "ties": ties}
    return {"training": {"seconds": seconds}, "result": result}


def test_rows_have_mean_spread_and_difference() -> None:
    (cell,) = cells(only=["fb15k-237/complex-n3"])
    seeds = Tally(cell, {0: fake(0.35, 0.349, 60), 1: fake(0.36, 0.357, 120), 2: fake(0.37, 0.37, 180)})
    row = seeds.row()
    assert row["paper"] == 0.366 and row["expected"] is None
    assert row["ours"] == pytest.approx(0.36) and row["difference"] == pytest.approx(-0.006)
    assert row["spread"] == pytest.approx(0.01) and row["minutes"] == pytest.approx(2)
    assert row["hits@1"] == pytest.approx(0.26) and row["hits@10"] == pytest.approx(0.46)
    assert row["status"] == "done"
    assert "lower by at most 0.0013" in summary([seeds, Tally(cell)], laptop=False)[-1]
    empty = Tally(cell, {}, "not run").row()
    assert (empty["ours"], empty["spread"], empty["status"], empty["seeds"]) == (None, None, "not run", 0)
    headline = [Tally(cell) for cell in cells("headline")]
    assert summary(headline, laptop=False)[1].startswith("Headline settings: the paper's models at their rank")


def test_tables_without_cells_are_left_out(tmp_path: Path) -> None:
    assert "headline" not in tallies("all", True, tmp_path, 1, {})
    assert len(tallies("all", False, tmp_path, 1, {})["headline"]) == 22


def test_the_band_is_watched() -> None:
    experiment = Experiment(expected={"tables": ["small"], "system": "CP", "mrr": 0.8, "band": [0.79, 0.81]})
    cell = Cell("nations/cp-none", experiment, {})
    statuses = [Tally(cell, {0: fake(mrr, mrr)}).status for mrr in (0.79, 0.789, 0.82)]
    assert statuses == ["done", "done, below the band 0.79 to 0.81", "done, above the band 0.79 to 0.81"]


def test_a_graph_that_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    (cell,) = cells(only=["wn18rr/cp-none"])
    assert not cell.at_hand
    assert tally(cell, tmp_path, 1, {}).status == "not run, needs: dura data get wn18rr"


# -- two runs that answer together ------------------------------------------------------------------------------------


def task_run(folder: Path, name: str) -> Path:
    return folder / "runs" / f"{folder.name}-{name}-seed0"


def test_two_runs_answer_together_and_are_trained_once(tmp_path: Path) -> None:
    graph = dura.load("nations")
    vectors = vectors_for((tuple(graph.entities), tuple(graph.relations)), 6)
    common: dict[str, int | float | str] = {"candidates__name": "all", "training__batch": 500}
    star = tiny(tmp_path, "star", model__name="star", model__vectors=vectors, model__width=6, **common)
    rotate = tiny(tmp_path, "rotate", model__name="rotate", **common)
    both = Cell(f"{tmp_path.name}/star-rotate", star.experiment, {}, (star, rotate))
    said: list[str] = []
    tasks = [task_of(cell, 0, tmp_path) for cell in (both, rotate)]
    assert run_tasks(tasks, lambda _: 0, TWO, say=said.append) == {}
    name = tasks[0].name
    assert sum("training" in line for line in said) == 2 and f"{name}: fitting" in said
    kept = tasks[0].result()
    assert kept is not None and kept["result"]["first"] == str(task_run(tmp_path, "star"))
    (told,) = [r for r in RunFolder.open(tasks[0].run).records() if r["kind"] == "evaluation"]
    assert told["mrr"] == kept["result"]["mrr"]
    records = [r for name in ("star", "rotate") for r in RunFolder.open(task_run(tmp_path, name)).records()]
    assert kept["training"]["seconds"] == pytest.approx(sum(r["seconds"] for r in records if r["kind"] == "end"))
    assert run_tasks(tasks, lambda _: 0, TWO, say=said.append) == {} and tasks[0].next() is None
    assert tally(both, tmp_path, 1, {}).mrr == kept["result"]["mrr"] and tasks[0].left() == 0
