"""A start: every choice is applied once, the graph is read once, and a wrong choice is refused before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

import dura
from dura.config import Experiment
from dura.data import loading
from dura.records import RunFolder
from dura.registry import Registry
from dura.runs import run
from dura.runs.choices import Choices, choose
from dura.runs.presets import preset
from dura.runs.run import resume_run, start_run, summary
from dura.training.trainer import Interrupted
from dura.types import BadInput
from graphs import dated_graph, random_graph

QUICK: dict[str, Any] = {"rank": 4, "epochs": 1, "batch": 50}


@pytest.fixture
def dated_file(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    lines = (f"2014-01-{day:02d},p{i},r,p{(i + day) % 6}" for i in range(6) for day in range(1, 6))
    path.write_text("day,from,link,to\n" + "\n".join(lines) + "\n")
    return path


@contextmanager
def stop_at_once() -> Iterator[Callable[[], bool]]:
    yield lambda: True


def test_a_graph_is_read_once_and_each_choice_is_applied_once(
    dated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, applied = list[str](), list[str]()
    load, with_value = loading.load_dated, Experiment.with_value

    def counted(settings: Any, time: Any, notify: Any = None) -> Any:
        read.append(settings.source)
        return load(settings, time, notify)

    def noted(self: Experiment, path: str, value: Any) -> Experiment:
        applied.append(path)
        return with_value(self, path, value)

    chosen = Choices(None, graph=str(dated_file), regularizer="n3", settings={"optimizer.lr": 0.2}, **QUICK)
    monkeypatch.setattr(run, "load_dated", counted)
    monkeypatch.setattr("dura.runs.run.train", lambda *given, **_: given[:2])
    monkeypatch.setattr(Experiment, "with_value", noted)
    experiment, graph = cast(Any, start_run(None, chosen, time="day", progress=False))
    assert read == [str(dated_file)]
    # The others before the graph was read; the weight is that of small graphs.
    assert sorted(applied) == ["model.rank", "regularizer.name", "regularizer.weight"]
    assert graph.times is not None
    assert (experiment.model.name, experiment.model.options) == ("tcomplex", {"rank": 4})
    assert (experiment.regularizer.name, experiment.smoothness.weight) == ("n3", 0.2)
    assert experiment.graph.columns == ("from", "link", "to", "day")


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"settings": {"trainin.epochs": 1}}, "did you mean 'training.epochs'"),
        ({"settings": {"training.epoch": 1}}, "did you mean 'training.epochs'"),
        ({"epochs": -1}, "training.epochs must be at least 0"),
        ({"columns": "0,1"}, "graph.columns must name three columns"),
    ],
)
def test_a_wrong_choice_is_refused_before_anything_is_read(choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Choices(None, graph="nations", **choices)


def test_defaults_follow_the_facts_unless_a_preset_is_named() -> None:
    assert choose(None) == Experiment()
    assert choose(None, dated=True) == Experiment.of_dated_facts()
    assert choose("umls/complex-dura", dated=True) == preset("umls/complex-dura")
    other = choose(None, dated=True, model="tntcomplex", settings={"regularizer.weight": 0.5, "smoothness.weight": 0.0})
    assert (other.model.name, other.model.options) == ("tntcomplex", {"rank": 200})
    assert (other.regularizer.name, other.regularizer.options) == ("dura1", {"weight": 0.5})
    assert other.smoothness.weight == 0
    trained = dura.fit(dated_graph(), rank=4, epochs=0, progress=False)
    assert (trained.experiment.model.name, trained.experiment.graph.source) == ("tcomplex", "dated")


def test_another_model_keeps_the_rank_if_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ranked:
        defaults: ClassVar[dict[str, object]] = {}

        def __init__(self, rank: int = 3) -> None:
            self.rank = rank

    class Flat:
        defaults: ClassVar[dict[str, object]] = {}

        def __init__(self, width: int = 3) -> None:
            self.width = width

    monkeypatch.setattr("dura.models.MODELS", Registry("model", "dura.test", {"ranked": Ranked, "flat": Flat}))
    assert choose(None, model="ranked").model.options == {"rank": 200}
    assert choose(None, model="ranked", rank=7).model.options == {"rank": 7}
    assert choose(None, model="flat", settings={"model.width": 5}).model.options == {"width": 5}
    with pytest.raises(BadInput, match="the model 'flad' is not known; .*did you mean 'flat'"):
        choose(None, model="flad")


def test_no_graph_is_a_sentence() -> None:
    with pytest.raises(BadInput, match="^which graph"):
        start_run(None, Choices())


def test_a_run_is_named_stopped_resumed_and_summed_up(tmp_path: Path) -> None:
    asked: list[str] = []

    def out(name: str) -> Path:
        asked.append(name)
        return tmp_path / "run"

    with pytest.raises(Interrupted):
        start_run(random_graph(), Choices(None, **QUICK), out=out, progress=False, stopping=stop_at_once)
    assert asked == ["random-complex-dura"]
    trained = resume_run(tmp_path / "run", progress=False)
    (epoch,) = (record for record in RunFolder.open(tmp_path / "run").records() if record["kind"] == "epoch")
    assert summary(trained) == {
        "run": str(tmp_path / "run"),
        "graph": "random",
        "epochs": 1,
        "best_epoch": 1,
        "valid": epoch["valid"],
        "seconds": epoch["seconds"],
    }


def test_what_can_stop_training_is_entered_after_the_graph_is_read(tmp_path: Path) -> None:
    entered: list[bool] = []

    @contextmanager
    def stopping() -> Iterator[Callable[[], bool]]:
        entered.append(True)
        yield lambda: False

    with pytest.raises(BadInput, match="there is no file"):
        start_run(None, Choices(None, graph=str(tmp_path / "nowhere.tsv")), stopping=stopping)
    assert entered == []
    start_run(random_graph(), Choices(None, rank=2, epochs=0), progress=False, stopping=stopping)
    assert entered == [True]
